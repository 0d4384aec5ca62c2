#pragma once
#include <algorithm>
#include <cstdint>

#include "templates/families/wgmma/layout.hpp"
#include "templates/kernel_template.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "templates/plan/stream_k.hpp"
#include "templates/space/constraints.hpp"
#include "vocabulary/configuration.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::wgmma {

/// The configuration as plain numbers, and what follows from them.
struct Wgmma {
  int tile_m, tile_n, tile_k, consumers;
  bool ping_pong;
  int cluster_m, cluster_n, stages;
  bool swap;
  int epilogue, vector_c;
  Pack pack_a, pack_b;
  int blocks, split;
  bool stream_k;
  int promote;  ///< PROMOTE
  int group_m;
  int element, result, sum;  ///< bytes
  int parts_of_element;      ///< 2: operands have a large and a small part (f32x3, halves)
  int scales;                ///< registers of the main loop beside sums, where it scales them
  int narrow;                ///< bits of an element of B that the warpgroups widen; 0: they do not
  bool residues;             ///< results are bytes of sums of integers (families/emulated)
  bool by_depth;             ///< Grouping::depth
  std::int64_t table_bytes;  ///< of the products' rows in shared memory, of a grouped problem
  TileLayout a, b;

  Wgmma(const Problem& p, const Configuration& c)
      : tile_m(value_or_1(c, "TILE_M")),
        tile_n(value_or_1(c, "TILE_N")),
        tile_k(value_or_1(c, "TILE_K")),
        consumers(value_or_1(c, "CONSUMERS")),
        ping_pong(value_or_1(c, "PING_PONG") == 1),
        cluster_m(value_or_1(c, "CLUSTER_M")),
        cluster_n(value_or_1(c, "CLUSTER_N")),
        stages(value_or_1(c, "STAGES")),
        swap(value_or_1(c, "SWAP_AB") == 1),
        epilogue(value_or_1(c, "EPILOGUE")),
        vector_c(value_or_1(c, "VECTOR_C")),
        pack_a(Pack(value_or_1(c, "PACK_A"))),
        pack_b(Pack(value_or_1(c, "PACK_B"))),
        blocks(value_or_1(c, "BLOCKS_PER_SM")),
        split(value_or_1(c, "SPLIT_K")),
        stream_k(c.find("STREAM_K") && c.at("STREAM_K") == 1),
        promote(c.find("PROMOTE") ? c.at("PROMOTE") : 0),
        group_m(value_or_1(c, "GROUP_M")),
        element(bytes_of(p.a.type)),
        result(bytes_of(p.c.type)),
        sum(bytes_of(p.accumulator)),
        parts_of_element(p.math == MathMode::f32x3 ? 2 : 1),
        scales(0),
        narrow(p.b.type == p.a.type ? 0 : bits_of(p.b.type)),
        residues(p.c.type == DType::i8),
        by_depth(p.grouping == Grouping::depth),
        table_bytes(is_grouped(p) && !by_depth ? layout::group_table_bytes(p.batch) : 0),
        a{tile_m, tile_k, !reads_a_transposed(p, pack_a), cluster_n, element},
        b{tile_n,
          narrow ? tile_k * narrow / 8 : tile_k,  // copied as bytes
          reads_b_transposed(p, pack_b), cluster_m, narrow ? 1 : element} {
    if (has_scales(p)) scales = scale_registers(p);
  }

  /// Whether tiles reach past A, B or a group, by rows or by whole panels.
  bool skips(const Problem& p) const {
    const auto outside = [](std::int64_t size, const TileLayout& tile, int sharing) {
      return round_up(size, std::int64_t{tile.span} * sharing) - size >=
             (tile.along_k ? 1 : tile.panel_columns());
    };
    return rows_vary(p) || outside(p.m, a, cluster_m) || outside(p.n, b, cluster_n);
  }
  bool rows_vary(const Problem& p) const { return is_grouped(p) && !by_depth; }
  int edge_rows_a(const Problem& p) const {
    return a.edge_rows(rows_vary(p) ? 0 : static_cast<int>(p.m));
  }
  int edge_rows_b(const Problem& p) const { return b.edge_rows(static_cast<int>(p.n)); }
  int parts(const Problem&, const DeviceInfo&) const { return split; }
  int cluster() const { return cluster_m * cluster_n; }
  /// Clusters that run at a time, at least 1.
  std::int64_t resident(const DeviceInfo& device) const {
    return std::max<std::int64_t>(1, std::int64_t{device.multiprocessors} * blocks / cluster());
  }
  /// A cluster's tiles of C, of each part of k and each product.
  std::int64_t items(const Problem& p) const {
    return row_tiles(p, std::int64_t{tile_m} * cluster_m) *
           ceil_div(p.n, std::int64_t{tile_n} * cluster_n) * split;
  }
  StreamK stream_k_of(const Problem& p, const DeviceInfo& device) const {
    return tilewise::stream_k_of(p, std::int64_t{tile_m} * cluster_m,
                                 std::int64_t{tile_n} * cluster_n, tile_k, resident(device));
  }
  int threads() const { return (consumers + 1) * 128; }
  /// The operands as the instruction sees them: 64 rows by `width()` columns.
  const TileLayout& left() const { return swap ? b : a; }
  const TileLayout& right() const { return swap ? a : b; }
  /// Instructions side by side, and the columns of each.
  int across() const { return ceil_div(right().span, 256); }
  int width() const { return right().span / across(); }
  /// Warpgroups that multiply one tile.
  int readers() const { return ping_pong ? 1 : consumers; }
  /// Blocks of 64 rows of a warpgroup.
  int row_blocks() const { return left().span / 64 / readers(); }
  /// Bytes of an element that the multiply step writes.
  int out_bytes() const { return split > 1 ? sum : result; }
  /// Whether TMA can store C: it writes whole 16 bytes of a row, of matrices at even distances.
  bool rows_by_tma(const Problem& p) const {
    return p.c.alignment == 16 && p.n * result % 16 == 0 && !p.pointers;
  }
  bool shift_c(const Problem& p) const {
    return vector_c * out_bytes() > stored_alignment(p, split);
  }
  /// Columns of C that a warp stages at a time.
  int staged_columns() const { return swap ? 16 : wgmma::staged_columns(width()); }
  EpilogueLayout epilogue_layout(bool shifted) const {
    return {epilogue, width(), result, swap, shifted};
  }
  StoredLayout stored() const { return epilogue_layout(false).stored(); }
  std::uint32_t shared_bytes(bool shifted) const {
    const ConsumerBarriers barriers{consumers, ping_pong, epilogue == 2, swap};
    const BlockLayout block{parts_of_element * (a.bytes() + b.bytes()), stages,
                            epilogue_layout(shifted).bytes(), consumers * 4,
                            barriers.all() + by_depth};
    // A table that is larger than any shared memory stays so.
    constexpr std::int64_t most = 1 << 30;
    return static_cast<std::uint32_t>(block.shared_bytes() + std::min(table_bytes, most));
  }
  std::uint32_t shared_bytes() const { return shared_bytes(true); }
  int sums() const { return row_blocks() * right().span / 2; }
  /// Registers of a thread's sums, with those that are promoted.
  int sum_registers() const { return (1 + promoted_at_once(promote)) * sums(); }
  RegisterLayout register_layout() const { return {consumers, blocks, sum_registers()}; }
  /// Steps of k, one instruction each, of a tile.
  int steps() const { return tile_k * element / kStepBytes; }
  /// Whether a block adds the parts of k of the problem's order itself.
  bool adds_parts() const { return promote == kPromotesParts; }
  /// Whether ordinary additions sum the tiles of k: the instruction alone would be too coarse, or
  /// tiles have scales.
  static bool must_promote(const Problem& p) {
    const ProductKind* kind = product_kind(p);  // null: of residues, whose sums are exact
    return p.math == MathMode::f32x3 || has_scales(p) || (kind && kind->promoted_every > 0);
  }
  /// Whether the operands of a problem have their parts already (families/emulated).
  static bool has_halves(const Problem& p) {
    return p.math == MathMode::f32x3 && p.a.type == DType::f16;
  }
  /// Products of the operands' parts that are summed.
  int products() const { return parts_of_element == 2 ? 3 : 1; }
  /// Of a main loop that scales blocks of k, from ptxas's results for 20 kernels: addresses of each
  /// block of 64 rows, scales of the tiles in flight, and reads of single columns' scales. Of a
  /// narrow B, from 48 further results: it has scales of rows alone.
  int scale_registers(const Problem& p) const {
    const EpilogueOver by_column = swap ? EpilogueOver::row_blocks : EpilogueOver::column_blocks;
    const auto& operands = p.epilogue->operands;
    const bool columns = std::any_of(operands.begin(), operands.end(),
                                     [&](const EpilogueSlot& x) { return x.over == by_column; });
    const int at_once = promoted_at_once(promote);
    // Columns that have one scale: an instruction's begin at multiples of its width.
    const int held = swap || columns ? 1 : across() * width() / std::min(width() & -width(), 128);
    const int of_zeros = zero_points_of(p) ? 8 * row_blocks() : 0;
    return (narrow ? 28 : 38) + (4 + 2 * at_once) * row_blocks() + (columns ? 12 : 0) +
           (2 + at_once) * (held - 1) + of_zeros;
  }
  /// Of a thread's elements of B: those of a unit as they are stored, and of two widened units.
  int narrow_registers() const { return narrow ? row_blocks() * (2 * narrow + 16) + 6 : 0; }
  /// Whether ptxas compiles the kernel without spills, from its results for 330 kernels: sums and
  /// what else a thread that multiplies holds; and one instruction, for which the registers at the
  /// launch count (ptxas's message C7602).
  bool registers_fit() const {
    constexpr int kInstruction = 26;
    // Of sums that are stored as single bytes: conversions and stores hold more at a time.
    constexpr int kBytes = 48;
    if (result == 1 && !residues && split == 1 &&
        sum_registers() + kBytes > register_layout().at_launch())
      return false;
    constexpr int kOther[2][4] = {{32, 28, 44, 32}, {44, 30, 54, 54}};  // by SWAP_AB, EPILOGUE
    if (scales > 0 &&
        sum_registers() + scales + narrow_registers() > register_layout().multiplying())
      return false;
    const int blocks_in_parts = adds_parts() && row_blocks() > 1 ? 8 : 0;
    return sum_registers() + kOther[swap][epilogue] + blocks_in_parts + narrow_registers() <=
               register_layout().multiplying() &&
           width() / 2 + kInstruction <= register_layout().at_launch();
  }
};

/// The packs that TMA and the instruction need.
Pack needed_pack_a(const Problem& problem);
Pack needed_pack_b(const Problem& problem);

/// wgmma's multiply-adds of 2-byte elements per clock of a multiprocessor, as a multiple of f32's
/// on the ordinary units. Those of 4 bytes are half, of 1 byte twice as many.
inline constexpr double kRate = 16;

std::vector<Parameter> parameters();
std::vector<Constraint> constraints();

}  // namespace tilewise::wgmma
