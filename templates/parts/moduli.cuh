// Emulated products (families/emulated): how many moduli the device has chosen, and the residue of a sum.
#pragma once
#include "parts/moduli_layout.hpp"
#include "words/integers.cuh"

// RESIDUES 1: a step multiplies residues, or makes something of them: it has nothing to do where the native product runs.
// OF_HALVES 1: a step multiplies halves, or makes something of them. It has nothing to do in the same case.
// CONDITIONAL 1: a step is the native product: it has nothing to do where the others serve.
#ifndef RESIDUES
#define RESIDUES 0
#endif
#ifndef OF_HALVES
#define OF_HALVES 0
#endif
#ifndef CONDITIONAL
#define CONDITIONAL 0
#endif

// What the steps of a plan know of the moduli.
struct ModuliArgs {
  const int* needed;  // the number of moduli that the problem's bound needs, by the certificate; more than kMost: none do
  Int64 parts;        // of k: products of each modulus

  // 0: the native product runs.
  DEVICE_MEMBER int count() const {
    const int count = *needed;
    return count <= tilewise::residues::kMost ? count : 0;  //@ moduli-count
  }
  DEVICE_MEMBER bool native() const { return *needed > tilewise::residues::kMost; }  //@ moduli-native
};

// The byte of (x mod p) - 128, where `sum` is congruent to x + 128 and below 2^20.
DEVICE unsigned residue_byte(const tilewise::residues::Modulus& m, unsigned sum) {
  return (sum - high_product(sum, m.magic) * m.p) ^ 0x80u;  //@ residue-byte
}
// The residue of a sum of products of residues, -128 to 127.
DEVICE signed char residue_of_sum(const tilewise::residues::Modulus& m, int sum) {
  const unsigned bytes = static_cast<unsigned>(sum) ^ 0x80000000u;
  return static_cast<signed char>(residue_byte(m, dot_bytes(bytes, m.powers[0], m.start[0])));
}
