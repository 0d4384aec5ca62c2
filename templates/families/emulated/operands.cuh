// What the steps around products of residues, and with OF_HALVES around those of halves, share: see docs/emulation.md.
#pragma once
#include "families/emulated/layout.hpp"
#include "parts/moduli.cuh"
#include "words/types.cuh"

// Of a row of A, or a column of B. |x| < 2^exponent for its elements. Numbers are relative to 2^exponent, rounded up.
struct RowScale {
  int exponent;
  float sum;        // of magnitudes; NaN: the row cannot be a row of integers (NaN, infinity, very large or small numbers)
  float norm;       // Euclidean
  float magnitude;  // the unit of 7-bit magnitudes
};
static_assert(sizeof(RowScale) == tilewise::residues::kScaleBytes, "the plan reserves this much");

#if OF_HALVES
// The exponent of the unit of a row's numbers.
DEVICE int unit_exponent(const RowScale& row) { return row.exponent - tilewise::residues::kHalfBits; }
#else
// The power of two at or above a norm that fits (tilewise::residues::Scales); 0 of a row of zeros.
DEVICE float unit_of(float norm, float fits) {
  return float_of((bits_of(norm * fits * (1 + 0x1p-20f)) + 0x7fffffu) & 0xff800000u);  //@ residues-unit
}
// Of a power of two.
DEVICE int exponent_of(float power) { return int(bits_of(power) >> 23) - 127; }

CONSTANTS tilewise::residues::Table<tilewise::residues::Scales, tilewise::residues::kMost - tilewise::residues::kLeast + 1>
    kScales = tilewise::residues::scales_by_count();
DEVICE const tilewise::residues::Scales& scales_of(int moduli) { return kScales.of[moduli - tilewise::residues::kLeast]; }

// The exponent of the unit of a row's integers.
DEVICE int unit_exponent(const RowScale& row, float fits, int bits) {
  return row.exponent - bits + (row.norm > 0 ? exponent_of(unit_of(row.norm, fits)) : 0);
}
#endif
