// The moduli of products of residues (families/emulated), and the numbers that follow from them:
// included by kernels and by the host. All are computed from the moduli, exactly, when they are
// compiled.
#pragma once

namespace tilewise::residues {

// Pairwise coprime, the largest that a byte holds. The first N are used.
constexpr int kLeast = 8, kMost = 16;
constexpr int kModuli[kMost] = {256, 255, 253, 251, 247, 241, 239, 233,
                                229, 227, 223, 217, 211, 199, 197, 193};

// The greatest depth of a product of residues, whose sums then stay below 2^31: residues are -128
// to 127. Deeper products are summed in parts.
constexpr int kMostDepth = 131072 - 128;

// For the residue of an integer x by p, -128 to p - 129, which is congruent to x. It is
// ((x + 128) mod p) - 128. The sum of the products of the bytes of x with the powers of 256 mod p
// is congruent to x.
struct Modulus {
  unsigned p, magic;   // magic: 2^32 / p, rounded up
  unsigned powers[2];  // 256^0 to 256^7 mod p, four to a word
  // (128 - 2^31) mod p and (128 - 2^63) mod p: an integer of one or two words is made unsigned by
  // adding these powers of 2.
  unsigned start[2];
};
constexpr unsigned power_mod(unsigned base, int exponent, unsigned p) {
  unsigned power = 1 % p;
  for (int i = 0; i < exponent; ++i) power = power * (base % p) % p;
  return power;
}
constexpr Modulus modulus(int nth) {
  const unsigned p = static_cast<unsigned>(kModuli[nth]);
  Modulus made{p, static_cast<unsigned>(((1ull << 32) + p - 1) / p), {}, {}};
  for (int word = 0; word < 2; ++word) {
    for (int byte = 0; byte < 4; ++byte)
      made.powers[word] |= power_mod(256, 4 * word + byte, p) << 8 * byte;
    made.start[word] = (128 % p + p - power_mod(2, 32 * word + 31, p)) % p;
  }
  return made;
}

// A whole number below 2^160, lowest word first.
struct Whole {
  unsigned words[5];

  constexpr void multiply(unsigned by) {
    unsigned long long carry = 0;
    for (unsigned& word : words) {
      carry += static_cast<unsigned long long>(word) * by;
      word = static_cast<unsigned>(carry);
      carry >>= 32;
    }
  }
  // Divides; returns the remainder.
  constexpr unsigned divide(unsigned by) {
    unsigned long long rest = 0;
    for (int i = 4; i >= 0; --i) {
      rest = rest << 32 | words[i];
      words[i] = static_cast<unsigned>(rest / by);
      rest %= by;
    }
    return static_cast<unsigned>(rest);
  }
  constexpr int bits() const {
    for (int i = 159; i >= 0; --i)
      if (words[i / 32] >> i % 32 & 1) return i + 1;
    return 0;
  }
  // Bits `from` to from + count - 1, times 2^from; at most 53 bits are kept, rounded down.
  constexpr double part(int from, int count) const {
    int last = from + count - 1;
    while (last >= from && !(words[last / 32] >> last % 32 & 1)) --last;
    double value = 0, weight = 1;
    const int first = last - 52 < from ? from : last - 52;
    for (int i = 0; i < first; ++i) weight *= 2;
    for (int i = first; i <= last; ++i, weight *= 2)
      if (words[i / 32] >> i % 32 & 1) value += weight;
    return value;
  }
};
constexpr Whole product_of(int moduli) {
  Whole product{{1, 0, 0, 0, 0}};
  for (int i = 0; i < moduli; ++i) product.multiply(static_cast<unsigned>(kModuli[i]));
  return product;
}

// The reconstruction of x, |x| < P / 2, from its residues r_l: x = sum of w_l r_l - P Q. Weights
// have a high part, whose products and sums with residues are exact in f64, and a low one. P has
// the same parts.
struct Weights {
  double high[kMost], low[kMost];
  double product_high, product_low, reciprocal;  // of P
};
constexpr int bits_below(int number) {
  int bits = 0;
  while ((1 << bits) < number) ++bits;
  return bits;
}
constexpr Weights weights(int moduli) {
  const Whole product = product_of(moduli);
  const int bits = product.bits(), low = bits - (53 - bits_below(128 * moduli));
  Weights made{};
  made.product_high = product.part(low, bits - low);
  made.product_low = product.part(0, low);
  made.reciprocal = 1 / (made.product_high + made.product_low);
  for (int l = 0; l < moduli; ++l) {
    const unsigned p = static_cast<unsigned>(kModuli[l]);
    Whole weight = product;
    weight.divide(p);
    Whole quotient = weight;
    const unsigned rest = quotient.divide(p);  // P / p mod p
    unsigned inverse = 1;
    while (rest * inverse % p != 1) ++inverse;
    weight.multiply(inverse);
    made.high[l] = weight.part(low, 160 - low);
    made.low[l] = weight.part(0, low);
  }
  return made;
}

// The scales of N moduli. The unit of a row of A is the power of two 2^-bits_a x n, where n is the
// least power of two that is at least `fits` times the row's Euclidean norm; of B's columns
// likewise. The sums of products of magnitudes are then below P / 2.
struct Scales {
  int bits_a, bits_b;
  float fits;
  float unit_a, unit_b;  // 2^-bits
  float together;        // 2^-(bits_a + bits_b)
};
constexpr double square_root(double of) {
  double root = of;
  for (int i = 0; i < 60; ++i) root = (root + of / root) / 2;
  return root;
}
constexpr float power_of_2(int exponent) {
  float power = 1;
  for (int i = 0; i < exponent; ++i) power *= 2;
  for (int i = 0; i > exponent; --i) power /= 2;
  return power;
}
constexpr Scales scales(int moduli) {
  const Whole product = product_of(moduli);
  // P / 2 is spare x 2^bits, 1 <= spare < 2. The rounding of each integer adds at most the square
  // root of k to a norm of 2^31 or more.
  const int bits = product.bits() - 2;
  double half = product.part(product.bits() - 40, 40) / 2;
  for (int i = 0; i < bits; ++i) half /= 2;
  const double spare = half * (1 - 0x1p-12);
  Scales made{};
  made.bits_a = bits / 2;
  made.bits_b = bits - made.bits_a;
  made.fits = static_cast<float>(1 / square_root(spare) * (1 + 0x1p-22));
  made.unit_a = power_of_2(-made.bits_a);
  made.unit_b = power_of_2(-made.bits_b);
  made.together = power_of_2(-bits);
  return made;
}

// A number for each count of moduli, or for each modulus.
template <class T, int COUNT>
struct Table {
  T of[COUNT];
};
constexpr Table<Scales, kMost - kLeast + 1> scales_by_count() {
  Table<Scales, kMost - kLeast + 1> all{};
  for (int n = kLeast; n <= kMost; ++n) all.of[n - kLeast] = scales(n);
  return all;
}
constexpr Table<Weights, kMost - kLeast + 1> weights_by_count() {
  Table<Weights, kMost - kLeast + 1> all{};
  for (int n = kLeast; n <= kMost; ++n) all.of[n - kLeast] = weights(n);
  return all;
}
constexpr Table<Modulus, kMost> all_moduli() {
  Table<Modulus, kMost> all{};
  for (int l = 0; l < kMost; ++l) all.of[l] = modulus(l);
  return all;
}

}  // namespace tilewise::residues
