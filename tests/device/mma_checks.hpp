#pragma once
// The tensor core operations of templates/mma.cuh, checked on any machine like warp_checks.hpp.
#include <cstdint>
#include <functional>
#include <limits>

#include "tests/device/warp_checks.hpp"
#include "tilewise/number.hpp"

namespace tilewise::test {

struct ElementAt {
  int row, column;
};

/// An instruction of the PTX ISA: the positions of element i of lane l's part of A, B and C.
struct MmaDocument {
  std::string name;  ///< of the wrapper's type
  int m, n, k;
  int element_bytes;
  int since;                                 ///< first capability with it, times 10
  std::function<std::uint64_t(int)> encode;  ///< bits of a small integer as an element of A or B
  std::function<ElementAt(int group, int in_group, int i)> a, b, c;
};

inline std::uint64_t bits_of_f32(int x) {
  const auto value = static_cast<float>(x);
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline std::uint64_t bits_of_f64(int x) {
  const auto value = static_cast<double>(x);
  std::uint64_t bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}
/// -3 .. 3 only.
inline std::uint64_t bits_of_small_f16(int x) {
  constexpr std::uint64_t kBits[] = {0, 0x3c00, 0x4000, 0x4200};
  return kBits[x < 0 ? -x : x] | (x < 0 ? 0x8000U : 0U);
}

inline std::uint64_t bits_of_small_e5m2(int x) { return bits_of_small_f16(x) >> 8; }
inline std::uint64_t bits_of_small_e4m3(int x) {
  constexpr std::uint64_t kBits[] = {0, 0x38, 0x40, 0x44};
  return kBits[x < 0 ? -x : x] | (x < 0 ? 0x80U : 0U);
}

inline std::vector<MmaDocument> mma_documents() {
  const auto sums = [](int group, int in_group, int i) {
    return ElementAt{i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
  };
  const auto a16 = [](int group, int in_group, int i) {
    return ElementAt{i < 2 || (i >= 4 && i < 6) ? group : group + 8,
                     in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
  };
  const auto b16 = [](int group, int in_group, int i) {
    return ElementAt{in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
  };
  const auto bf16 = [](int x) { return bits_of_f32(x) >> 16; };
  const auto s8 = [](int x) { return static_cast<std::uint64_t>(x & 0xff); };
  const auto a8 = [](int group, int in_group, int i) {
    return ElementAt{i < 4 || (i >= 8 && i < 12) ? group : group + 8,
                     in_group * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
  };
  const auto b8 = [](int group, int in_group, int i) {
    return ElementAt{in_group * 4 + (i & 3) + (i >= 4 ? 16 : 0), group};
  };
  const auto a_single = [](int group, int in_group, int i) {
    return ElementAt{i == 0 || i == 2 ? group : group + 8, i < 2 ? in_group : in_group + 4};
  };
  const auto b_single = [](int group, int in_group, int i) {
    return ElementAt{i == 0 ? in_group : in_group + 4, group};
  };
  return {
      {"MmaF16", 16, 8, 16, 2, 75, bits_of_small_f16, a16, b16, sums},
      {"MmaBf16", 16, 8, 16, 2, 80, bf16, a16, b16, sums},
      {"MmaF16K8", 16, 8, 8, 2, 75, bits_of_small_f16,
       [](int group, int in_group, int i) {
         return ElementAt{i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
       },
       [](int group, int in_group, int i) {
         return ElementAt{in_group * 2 + i, group};
       },
       sums},
      {"MmaTf32", 16, 8, 8, 4, 80, bits_of_f32, a_single, b_single, sums},
      {"MmaS8", 16, 8, 32, 1, 75, s8, a8, b8, sums},
      {"MmaE4m3", 16, 8, 32, 1, 89, bits_of_small_e4m3, a8, b8, sums},
      {"MmaE5m2", 16, 8, 32, 1, 89, bits_of_small_e5m2, a8, b8, sums},
      {"MmaF64", 16, 8, 8, 8, 80, bits_of_f64, a_single, b_single, sums},
  };
}

/// Multiplies each lane's words as given, for 2 x 3 instruction tiles or for one.
inline std::string mma_kernel(const std::string& type) {
  return "#include \"words/mma.cuh\"\ntypedef " + type + R"( Mma;
struct Args { const Mma::Word* a; const Mma::Word* b; Mma::Sum* c; };
KERNEL(32, 1) product(ARGUMENTS Args args) {
  const int lane = threadIdx.x;
  Mma::Word a[ROWS][Mma::A], b[COLUMNS][Mma::B];
  Mma::Sum c[ROWS][COLUMNS][Mma::C];
  for (int i = 0; i < ROWS * Mma::A; ++i) a[i / Mma::A][i % Mma::A] = args.a[lane * ROWS * Mma::A + i];
  for (int i = 0; i < COLUMNS * Mma::B; ++i) b[i / Mma::B][i % Mma::B] = args.b[lane * COLUMNS * Mma::B + i];
  for (int r = 0; r < ROWS; ++r)
    for (int t = 0; t < COLUMNS * Mma::C; ++t)
      c[r][t / Mma::C][t % Mma::C] = args.c[(lane * ROWS + r) * COLUMNS * Mma::C + t];
#if ROWS * COLUMNS == 1
  multiply_fragments<Mma>(c[0][0], a[0], b[0]);
#else
  multiply_blocks<Mma>(c, a, b);
#endif
  for (int r = 0; r < ROWS; ++r)
    for (int t = 0; t < COLUMNS * Mma::C; ++t)
      args.c[(lane * ROWS + r) * COLUMNS * Mma::C + t] = c[r][t / Mma::C][t % Mma::C];
}
)";
}

template <class Sum>
void check_mma(const Machine& machine, const MmaDocument& mma, int rows, int columns) {
  std::mt19937 generator(7);
  const auto matrix = [&](int count) {
    std::vector<int> values(static_cast<std::size_t>(count));
    for (int& value : values) value = static_cast<int>(generator() % 7) - 3;
    return values;
  };
  const auto a = matrix(rows * mma.m * mma.k), b = matrix(columns * mma.n * mma.k),
             c = matrix(rows * mma.m * columns * mma.n);
  const auto at_a = [&](int row, int k) { return a[static_cast<std::size_t>(row * mma.k + k)]; };
  const auto at_b = [&](int k, int column) {
    return b[static_cast<std::size_t>(column * mma.k + k)];
  };
  const auto at_c = [&](int row, int column) {
    return c[static_cast<std::size_t>(row * columns * mma.n + column)];
  };

  std::vector<std::uint8_t> words_a, words_b;
  std::vector<Sum> sums;
  const auto put = [&](std::vector<std::uint8_t>& words, int x) {
    const std::uint64_t bits = mma.encode(x);
    for (int byte = 0; byte < mma.element_bytes; ++byte)
      words.push_back(static_cast<std::uint8_t>(bits >> 8 * byte));
  };
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < mma.m * mma.k / 32; ++i) {
        const ElementAt at = mma.a(group, in_group, i);
        put(words_a, at_a(r * mma.m + at.row, at.column));
      }
    for (int t = 0; t < columns; ++t)
      for (int i = 0; i < mma.n * mma.k / 32; ++i) {
        const ElementAt at = mma.b(group, in_group, i);
        put(words_b, at_b(at.row, t * mma.n + at.column));
      }
    for (int t = 0; t < rows * columns; ++t)
      for (int i = 0; i < mma.m * mma.n / 32; ++i) {
        const ElementAt at = mma.c(group, in_group, i);
        sums.push_back(
            static_cast<Sum>(at_c(t / columns * mma.m + at.row, t % columns * mma.n + at.column)));
      }
  }
  const auto kernel =
      machine.load("product", mma_kernel(mma.name), {{"COLUMNS", columns}, {"ROWS", rows}});
  const DeviceBuffer on_a = machine.upload(words_a), on_b = machine.upload(words_b),
                     on_c = machine.upload(sums);
  machine.launch(*kernel, 32, {on_a.data(), on_b.data(), on_c.data()});
  const auto got = machine.download<Sum>(on_c);
  std::size_t next = 0;
  for (int lane = 0; lane < 32; ++lane)
    for (int t = 0; t < rows * columns; ++t)
      for (int i = 0; i < mma.m * mma.n / 32; ++i) {
        const ElementAt at = mma.c(lane >> 2, lane % 4, i);
        const int row = t / columns * mma.m + at.row, column = t % columns * mma.n + at.column;
        int expected = at_c(row, column);
        for (int k = 0; k < mma.k; ++k) expected += at_a(row, k) * at_b(k, column);
        ASSERT_EQ(got[next++], static_cast<Sum>(expected))
            << mma.name << ": lane " << lane << ", tile " << t << ", sum " << i;
      }
}

inline void check_mma(const Machine& machine, const MmaDocument& mma) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {2, 3}}) {
    if (mma.name == "MmaS8")
      check_mma<int>(machine, mma, rows, columns);
    else if (mma.element_bytes == 8)
      check_mma<double>(machine, mma, rows, columns);
    else
      check_mma<float>(machine, mma, rows, columns);
  }
}

/// Multiplies every number of an 8-bit type by ones, once in A and once in B. It is alone in its
/// row or column, and each has another k. The result is the number itself, including NaN and
/// infinities.
inline void check_every_fp8(const Machine& machine, const MmaDocument& mma) {
  const DType type = mma.name == "MmaE4m3" ? DType::e4m3 : DType::e5m2;
  const auto one = static_cast<std::uint8_t>(mma.encode(1));
  const auto kernel = machine.load("product", mma_kernel(mma.name), {{"COLUMNS", 1}, {"ROWS", 1}});
  for (int first = 0; first < 256; first += 8)
    for (const bool in_a : {true, false}) {
      const auto code = [&](int line) { return static_cast<unsigned>(first + line % 8); };
      const auto place = [&](int line) { return (first / 8 * 5 + line) % mma.k; };
      std::vector<std::uint8_t> words_a, words_b;
      for (int lane = 0; lane < 32; ++lane) {
        const int group = lane >> 2, in_group = lane % 4;
        const auto put = [&](std::vector<std::uint8_t>& to, bool numbers, int line, int k) {
          to.push_back(!numbers           ? one
                       : k == place(line) ? static_cast<std::uint8_t>(code(line))
                                          : std::uint8_t{0});
        };
        for (int i = 0; i < mma.m * mma.k / 32; ++i) {
          const ElementAt at = mma.a(group, in_group, i);
          put(words_a, in_a, at.row, at.column);
        }
        for (int i = 0; i < mma.n * mma.k / 32; ++i) {
          const ElementAt at = mma.b(group, in_group, i);
          put(words_b, !in_a, at.column, at.row);
        }
      }
      const int sums = mma.m * mma.n / 32;
      const DeviceBuffer a = machine.upload(words_a), b = machine.upload(words_b),
                         c = machine.upload(std::vector<float>(std::size_t(32 * sums)));
      machine.launch(*kernel, 32, {a.data(), b.data(), c.data()});
      const auto got = machine.download<float>(c);
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < sums; ++i) {
          const ElementAt at = mma.c(lane >> 2, lane % 4, i);
          const auto meant = static_cast<std::uint8_t>(code(in_a ? at.row : at.column));
          const double x = got[std::size_t(lane * sums + i)], want = to_double(type, &meant);
          ASSERT_TRUE(std::isnan(want) ? std::isnan(x) : x == want)
              << mma.name << ": " << int(meant) << " in " << (in_a ? "A" : "B") << " is " << x
              << ", not " << want;
        }
    }
}

inline const char* const kNarrow = R"(#include "words/mma.cuh"
struct Args { const float* from; unsigned short* f16; unsigned short* bf16; unsigned* tf32; float* back; };
KERNEL(256, 1) narrow(ARGUMENTS Args args) {
  for (int i = threadIdx.x; i < 65536; i += 256) {
    args.f16[i] = f16_of_float(args.from[i]);
    args.bf16[i] = bf16_of_float(args.from[i]);
    args.tf32[i] = tf32_of_float(args.from[i]);
    args.back[i] = float_of_f16(i);
  }
}
)";

/// x in units of the last place of a format with `digits` bits.
inline double unit_at(double x, int digits, int lowest_exponent) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, lowest_exponent) - digits + 1);
}

inline double value_of_f16(unsigned bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

/// Checks the rounding of all f16 numbers, and of floats of every exponent with random digits.
inline void check_narrow(const Machine& machine) {
  std::mt19937 generator(11);
  std::vector<float> from(65536);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::uint32_t bits = generator();
    if (i % 4 == 1) bits = (bits & 0x8fffffff) | 0x38000000;  // the range of f16
    if (i % 4 == 2) bits &= 0xfffff000;                       // often midpoints
    if (i % 4 == 3) bits = (bits & 0x81fff000) | 0x37000000;  // subnormal f16
    std::memcpy(&from[i], &bits, 4);
  }
  from[0] = 65519.0F, from[1] = 65520.0F, from[2] = -INFINITY, from[3] = NAN;
  const auto kernel = machine.load("narrow", kNarrow);
  const DeviceBuffer in = machine.upload(from),
                     f16 = machine.upload(std::vector<std::uint16_t>(65536)),
                     bf16 = machine.upload(std::vector<std::uint16_t>(65536)),
                     tf32 = machine.upload(std::vector<std::uint32_t>(65536)),
                     back = machine.upload(std::vector<float>(65536));
  machine.launch(*kernel, 256, {in.data(), f16.data(), bf16.data(), tf32.data(), back.data()});
  const auto got_f16 = machine.download<std::uint16_t>(f16);
  const auto got_bf16 = machine.download<std::uint16_t>(bf16);
  const auto got_tf32 = machine.download<std::uint32_t>(tf32);
  const auto got_back = machine.download<float>(back);
  const auto float_of = [](std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return static_cast<double>(value);
  };
  const bool to_even = machine.device.info().target.major >= 9;
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double x = from[i];
    double in_f16 = x, in_bf16 = x, in_tf32 = x;
    if (std::isfinite(x)) {
      in_f16 = std::nearbyint(x / unit_at(x, 11, -14)) * unit_at(x, 11, -14);
      if (std::abs(in_f16) > 65504) in_f16 = std::copysign(INFINITY, x);
      in_bf16 = std::nearbyint(x / unit_at(x, 8, -126)) * unit_at(x, 8, -126);
      in_tf32 = (to_even ? std::nearbyint(x / unit_at(x, 11, -126))
                         : std::round(x / unit_at(x, 11, -126))) *
                unit_at(x, 11, -126);
      for (double* y : {&in_bf16, &in_tf32})
        if (std::abs(*y) > std::numeric_limits<float>::max()) *y = std::copysign(INFINITY, x);
    }
    ASSERT_TRUE(same(value_of_f16(got_f16[i]), in_f16)) << x << " as f16";
    ASSERT_TRUE(same(float_of(std::uint32_t{got_bf16[i]} << 16), in_bf16)) << x << " as bf16";
    ASSERT_TRUE(same(float_of(got_tf32[i]), in_tf32)) << x << " as tf32";
    ASSERT_TRUE(same(got_back[i], value_of_f16(static_cast<unsigned>(i)))) << "f16 number " << i;
  }
}

struct FragmentsCase {
  bool bf16;
  int step;
  bool a_transposed, b_transposed;
};

inline std::vector<FragmentsCase> fragments_cases(int capability) {
  std::vector<FragmentsCase> cases;
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      cases.push_back({false, 8, a, b});
      if (capability < 80) continue;
      cases.push_back({false, 16, a, b});
      cases.push_back({true, 16, a, b});
    }
  return cases;
}

inline Defines fragments_defines(const FragmentsCase& c) {
  return {{"A_TRANSPOSED", c.a_transposed},
          {"B_TRANSPOSED", c.b_transposed},
          {"BF16", c.bf16},
          {"FLOATS", 0},
          {"STEP", c.step}};
}

/// Checks an exact product of 16-bit matrices, m x n x k = 45 x 39 x 70.
inline void check_fragments(const Machine& machine, const FragmentsCase& c) {
  constexpr int m = 45, n = 39, k = 70;
  constexpr std::uint32_t kSharedBytes = 2 * 32 * 40 * 2;
  std::mt19937 generator(3);
  std::vector<int> a(m * k), b(k * n);
  std::vector<float> sums(m * n);
  for (int& x : a) x = static_cast<int>(generator() % 7) - 3;
  for (int& x : b) x = static_cast<int>(generator() % 7) - 3;
  for (float& x : sums) x = static_cast<float>(generator() % 9);
  const auto stored = [&](const std::vector<int>& from, int rows, int columns, bool transposed) {
    std::vector<std::uint16_t> to(from.size());
    for (int i = 0; i < rows * columns; ++i) {
      const int at = transposed ? i % columns * rows + i / columns : i;
      const int x = from[static_cast<std::size_t>(i)];
      to[static_cast<std::size_t>(at)] =
          static_cast<std::uint16_t>(c.bf16 ? bits_of_f32(x) >> 16 : bits_of_small_f16(x));
    }
    return to;
  };
  const DeviceBuffer on_a = machine.upload(stored(a, m, k, c.a_transposed)),
                     on_b = machine.upload(stored(b, k, n, c.b_transposed)),
                     on_c = machine.upload(sums);
  const struct {
    const void *a, *b;
    void* c;
    std::int64_t lda, ldb, ldc, m, n, k;
    float alpha, beta;
  } arguments{on_a.data(),
              on_b.data(),
              on_c.data(),
              c.a_transposed ? m : k,
              c.b_transposed ? k : n,
              n,
              m,
              n,
              k,
              2,
              -1};
  const auto kernel = machine.load("fragments", text_of("tests/kernels/fragments.cu"),
                                   fragments_defines(c), kSharedBytes);
  machine.device.launch(*kernel, {{4, 1, 1}, {64, 1, 1}, {}, kSharedBytes, false}, &arguments,
                        nullptr);
  const auto got = machine.download<float>(on_c);
  for (std::size_t row = 0; row < m; ++row)
    for (std::size_t column = 0; column < n; ++column) {
      float expected = -sums[row * n + column];
      for (std::size_t i = 0; i < k; ++i)
        expected += static_cast<float>(2 * a[row * k + i] * b[i * n + column]);
      ASSERT_EQ(got[row * n + column], expected)
          << "C[" << row << "][" << column << "], bf16 " << c.bf16 << ", step " << c.step
          << ", transposed " << c.a_transposed << c.b_transposed;
    }
}

}  // namespace tilewise::test
