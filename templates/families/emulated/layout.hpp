// The blocks of the steps around products of residues or of halves, and what their kernels and the
// plan share.
#pragma once

namespace tilewise::residues {

// Halves: a row is scaled by a power of two to magnitudes below 2^kHalfBits, and an element is the
// sum of two numbers of f16, the nearest one and the nearest to the rest. It is off by at most
// 2^-23 of itself or 2^-25, whichever is more.
constexpr int kHalfBits = 15;
// Twice 2^-25, relative to the scaled row's bound.
constexpr float kHalfUnit = 0x1p-39f;

// Neighbouring steps of k that the magnitudes have all or none of.
constexpr int kSampled = 16;

// Bytes that the scale of a row of A or a column of B takes.
constexpr int kScaleBytes = 16;

// A block of scales: rows of an operand, with k contiguous or not.
struct ScalesLayout {
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  bool along_k;
  // A warp takes a row; or 32 neighbouring rows, and the block's warps share k.
  constexpr int rows() const { return along_k ? kWarps : 32; }
};

// A block of planes. A thread takes kValues steps of k of a row, as four words of bytes. Where k is
// contiguous a warp takes one row, so that a word's neighbours are those of the neighbouring lanes;
// else a thread's words lie side by side, and half a warp takes neighbouring rows.
struct PlanesLayout {
  static constexpr int kThreads = 256, kValues = 16, kWords = 4, kLine = 128;
  bool along_k;
  constexpr int rows() const { return along_k ? kThreads / 32 : 64; }
  constexpr int depth() const { return along_k ? 32 * kValues : 64; }
  // Steps of k from a thread's word to its next.
  constexpr int apart() const { return along_k ? kLine : 4; }
};

// A thread of certify and of combine takes neighbours of C: kTogether of each of kDown rows.
constexpr int kTogether = 4, kDown = 2, kThreads = 256;

}  // namespace tilewise::residues
