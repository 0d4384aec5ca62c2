#pragma once
#include <algorithm>

#include "templates/families/mma/layout.hpp"
#include "templates/kernel_template.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/space/constraints.hpp"
#include "vocabulary/configuration.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::mma {

/// One operand's tile in shared memory, and how warps read it.
struct Tile : TileLayout {
  bool is_a = false;

  /// Row groups (8 of m or n) that one read of a lane serves.
  int together() const {
    if (row_classes() > 1 || by_matrix() || along_k) return 1;
    return element == 1 ? 4 : (is_a ? 2 : 1);
  }
  /// Whether TMA can copy the tile: aligned rows, or row classes of 4- or 8-byte elements. A box
  /// has at most 256 elements a row.
  bool by_tma() const {
    if (row_classes() == 1) return !bytes_across();
    return element >= 4 && bytes == element && row_bytes() / element + row_classes() <= 256;
  }
  /// The number of rows (of m or n) that a warp's part is a multiple of.
  int least_part() const {
    if (row_classes() > 1) return 8 * row_classes();
    if (by_matrix() || along_k) return 16;
    return element == 8 ? 16 : 32;
  }
  /// Whether a lane's two sums of a row of C are neighbours in C (Reader::PAIRS).
  bool pairs() const { return row_classes() == 1 && (by_matrix() || (element >= 4 && !along_k)); }
  /// Whether rows are whole lines of 128 bytes, or 64 or 32 bytes where ldmatrix reads them.
  bool lines() const {
    const int row = row_bytes();
    if (row % 128 == 0) return true;
    return (element == 2 || along_k) && (row == 64 || (row == 32 && element < 8));
  }
  /// Whether lines() holds for no narrower tile.
  bool least_line() const { return !along_k && element != 2 && row_bytes() == 128; }
  /// Instructions by which a warp reads fragments of `across` rows (of m or n) in one step of k.
  int reads(int across) const {
    const int row_groups = across / 8;
    if (by_matrix()) return row_groups / 2;
    return row_groups / together() * 2 * (element == 1 ? 4 : 1);
  }
};

/// The configuration as plain numbers, and what follows from them.
struct Mma {
  int tile_m, tile_n, tile_k, warp_m, warp_n, slice_k, stages, fragments, promote, epilogue,
      vector_c;
  Pack pack_a, pack_b;
  int blocks, split, group_m;
  bool tma, specialize_size;
  int skip_edge_warps;
  int element, result, sum;  ///< bytes
  bool integers, fp8;
  MathMode math;
  Tile a, b;

  Mma(const Problem& p, const Configuration& c)
      : tile_m(value_or_1(c, "TILE_M")),
        tile_n(value_or_1(c, "TILE_N")),
        tile_k(value_or_1(c, "TILE_K")),
        warp_m(value_or_1(c, "WARP_M")),
        warp_n(value_or_1(c, "WARP_N")),
        slice_k(value_or_1(c, "SLICE_K")),
        stages(value_or_1(c, "STAGES")),
        fragments(value_or_1(c, "FRAGMENTS")),
        promote(value_or_1(c, "PROMOTE")),
        epilogue(value_or_1(c, "EPILOGUE")),
        vector_c(value_or_1(c, "VECTOR_C")),
        pack_a(Pack(value_or_1(c, "PACK_A"))),
        pack_b(Pack(value_or_1(c, "PACK_B"))),
        blocks(value_or_1(c, "BLOCKS_PER_SM")),
        split(value_or_1(c, "SPLIT_K")),
        group_m(value_or_1(c, "GROUP_M")),
        tma(value_or_1(c, "TMA") == 1),
        specialize_size(value_or_1(c, "SPECIALIZE_SIZE") == 1),
        skip_edge_warps(value_or_1(c, "SKIP_EDGE_WARPS")),
        element(bytes_of(p.a.type)),
        result(bytes_of(p.c.type)),
        sum(bytes_of(p.accumulator)),
        integers(is_integer(p.a.type)),
        fp8(is_fp8(p.a.type)),
        math(p.math),
        a{{tile_m, tile_k, element, !reads_a_transposed(p, pack_a), value_or_1(c, "BYTES_A"), tma},
          true},
        b{{tile_n, tile_k, element, reads_b_transposed(p, pack_b), value_or_1(c, "BYTES_B"), tma},
          false} {}

  bool by_tma() const { return tma; }
  int parts(const Problem&, const DeviceInfo&) const { return split; }
  /// Elements of k in one instruction: 32 bytes, of f64 64.
  int step() const { return element == 8 ? 8 : 32 / element; }
  int steps() const { return tile_k / step() / slice_k; }
  int warps() const { return (tile_m / warp_m) * (tile_n / warp_n); }
  int threads() const { return warps() * 32 * slice_k; }
  /// Whether the threads copy whole rows; where rows are realigned, whether each warp does.
  bool takes_rows(const Tile& tile) const {
    return (tile.shifts() ? 32 : threads()) % tile.chunks_across() == 0;
  }
  /// Bytes of an element that the multiply step writes.
  int out_bytes() const { return split > 1 ? sum : result; }
  bool shift_c(const Problem& p) const {
    return vector_c * out_bytes() > stored_alignment(p, split);
  }
  /// Whether fp8 is multiplied as f16, for lack of an instruction: TILEWISE_WIDENS_FP8 in mma.cuh.
  bool multiplies_as_f16(const DeviceInfo& device) const {
    return fp8 && device.target.major >= 9 && device.target.major < 12;
  }
  /// Whether copies to shared memory bypass registers.
  bool async(const DeviceInfo& device) const {
    return tma || has(device.features, Feature::cp_async);
  }
  std::uint32_t shared_bytes() const {
    const BlockLayout block{a.staged_bytes() + b.staged_bytes(),
                            stages,
                            tile_m,
                            tile_n,
                            warp_n,
                            slice_k,
                            warps(),
                            sum,
                            epilogue != 0,
                            tma};
    return static_cast<std::uint32_t>(block.shared_bytes());
  }
  /// Registers that ptxas needs to avoid spills: sums, fragments, chunks in flight, addresses.
  int registers(const DeviceInfo& device) const {
    const int sums = warp_m * warp_n / 32 * sum / 4;
    const int word = element == 8 ? 2 : 1;
    const int set = (warp_m / 16 * 4 + warp_n / 8 * 2) * word;
    const int small = math == MathMode::f32x3 ? set : 0;
    const int widened = multiplies_as_f16(device) ? set : 0;
    const int promoted = promote > 1 ? sums : (promote == 1 ? warp_n / 8 * 4 : 0);
    const int waiting = async(device) ? 0 : waits(a) + waits(b);
    const int shifted = 4 * std::max(shifted_run(a), shifted_run(b));
    // An operand whose k is not contiguous needs an address for each ldmatrix or read of bytes.
    const auto offsets = [](const Tile& tile, int across) {
      return !tile.along_k && tile.element < 4 ? across / 16 : 0;
    };
    const int addresses = offsets(a, warp_m) + offsets(b, warp_n) + 22;
    // ptxas refuses f64's instruction where a thread may have 56 registers.
    const int least = element == 8 ? 64 : 0;
    return std::max(
        least, sums + fragments * set + small + widened + promoted + waiting + shifted + addresses);
  }

 private:
  /// Chunks that a lane realigns at a time; 0 where rows need none.
  int shifted_run(const Tile& tile) const { return tile.shifts() ? tile.run(threads()) : 0; }
  /// Registers of the chunks in flight through them.
  int waits(const Tile& tile) const {
    const int pieces = tile.chunks(threads());
    return 4 * (tile.shifts() ? pieces + pieces / tile.run(threads()) : pieces);
  }
};

/// Multiply-adds of mma.sync per clock of a multiprocessor, as a multiple of f32's on the ordinary
/// units. Of 9.0: measured (bench/results/h200_mma_rates.txt: 0.59 of wgmma's). Of others: NVIDIA's
/// architecture whitepapers. fp8 is multiplied as f16 on 9.0 and 10.0.
double tensor_rate(const Problem& problem, const Target& target);

std::vector<Parameter> parameters();
std::vector<Constraint> constraints();

}  // namespace tilewise::mma
