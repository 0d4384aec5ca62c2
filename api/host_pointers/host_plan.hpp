#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "tilewise/host_split.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

/// Splits a product on host pointers into tiles. These are pure functions, so host_split() returns
/// the split that StreamedProduct executes.
namespace tilewise {

/// Settings of products on host pointers; tests make them small.
struct HostSettings {
  std::int64_t memory_limit = 0;                       ///< device bytes; 0: the free memory
  std::int64_t granule = 256;                          ///< tiles are multiples of it
  std::int64_t single_bytes = std::int64_t{32} << 20;  ///< A, B and C up to this total are one tile
  std::int64_t chunk_bytes = std::int64_t{4} << 20;    ///< bytes of one staging buffer
  int threads = 0;  ///< copying threads in each direction; 0: half the cores, at most 12
};

enum class HostOperand : std::uint8_t { a, b, c };
inline constexpr std::array kHostOperands{HostOperand::a, HostOperand::b, HostOperand::c};

struct HostTileSize {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
};

/// One launch: tile (i, j) of C, part p of k, of the z-th tile of the batch.
struct HostTile {
  std::int64_t z = 0, i = 0, j = 0, p = 0;
  std::array<int, 3> slots{};  ///< slots of its blocks of A, B and C
  bool begins = true;          ///< whether p is the first part of k
  bool ends = true;            ///< whether p is the last part of k
  std::int64_t c_after = -1;   ///< starts after that tile is copied back; -1: at once
  std::int64_t next_copy = 0;  ///< starts after the copies below this number are made
};

/// Copies a block to the device for `tile`, and perhaps for later tiles.
struct HostCopy {
  HostOperand operand = HostOperand::a;
  int slot = 0;
  std::int64_t tile = 0;
  /// The copy starts after this tile is computed (A, B) or copied back (C); -1: at once.
  std::int64_t after = -1;
};

/// A part of an operand as stored: `count` matrices starting at the z-th.
struct HostBlock {
  std::int64_t z = 0, count = 1, row = 0, rows = 0, column = 0, columns = 0;
};

/// The input of a split.
struct HostTask {
  Problem problem;                          ///< with k = 0 if A and B are not read
  bool shares_a = false, shares_b = false;  ///< whether the batch stride is 0
  bool reads_c = false;
  bool operator==(const HostTask&) const = default;
};

/// A split without its order.
struct HostShape {
  HostTileSize tile;
  DType c = DType::f32;  ///< type of C on the device: the accumulator's if several parts add up
  bool single = false;   ///< one tile, rows without padding
  std::array<std::int64_t, 3> slots{1, 1, 1};
  /// If a tile has all of k: blocks of this operand pass while groups of the other operand's stay.
  HostOperand passing = HostOperand::a;
  std::int64_t group = 1;  ///< number of blocks in a group
  double seconds = 0;      ///< expected time
};

/// The rates of products in flop/s (0: not known) and of copies.
struct HostRates {
  double flops = 0;
  int multiprocessors = 0;
  double link = 50e9;  ///< bytes/s each way: about PCIe 5.0 x16
};

struct HostPlan {
  HostTask task;
  HostShape shape;
  std::vector<HostTile> tiles;
  std::vector<HostCopy> copies;  ///< in the order of their tiles

  std::int64_t parts_m() const;
  std::int64_t parts_n() const;
  std::int64_t parts_k() const;
  std::int64_t parts_batch() const;
  DType type_of(HostOperand operand) const;  ///< type on the device
  HostBlock block(HostOperand operand, const HostTile& tile) const;
  /// Bytes between rows of a block on the device. Rows of 128 bytes and more are padded to a
  /// multiple of 16, so that kernels may load 16 bytes at a time for any leading dimension of the
  /// caller.
  std::int64_t pitch(HostOperand operand, std::int64_t columns) const;
  std::int64_t bytes(HostOperand operand, const HostBlock& block) const;
  std::int64_t slot_bytes(HostOperand operand) const;
  std::int64_t slots_bytes() const;  ///< bytes of all slots
  Problem problem_of(const HostTile& tile) const;
  /// The distinct problems of the tiles.
  std::vector<Problem> problems() const;
  /// The public form, without staging and workspace.
  HostSplit split() const;
};

/// The split that is expected to be fastest within `budget` bytes of device memory, excluding the
/// workspace; its order is empty. Throws Error(out_of_memory) with the bytes that the smallest
/// split needs.
HostPlan chosen_split(const HostTask& task, std::int64_t budget, const HostSettings& settings,
                      const HostRates& rates);

/// Bytes of device memory of the smallest split, excluding the workspace.
std::int64_t smallest_split(const HostTask& task, const HostSettings& settings);

/// A split and the workspace of the kernels that serve its tiles.
struct FittingSplit {
  HostPlan plan;
  std::int64_t workspace = 0;  ///< the largest of all tiles, including edge tiles
  std::int64_t bytes() const { return plan.slots_bytes() + workspace; }
};

/// The workspace of the kernel that serves a problem, in bytes.
using WorkspaceOf = std::function<std::int64_t(const Problem&)>;

/// The split that is expected to be fastest among those whose tiles and kernels' workspace fit into
/// `budget`; its order is empty. `workspace_of` is called once for each problem of at most
/// about 20 splits. If the workspace of tiles of one granule does
/// not fit, the granule is halved, down to 64. Throws Error(out_of_memory) if the smallest split
/// does not fit, with the bytes that it and its workspace need.
FittingSplit fitting_split(const HostTask& task, std::int64_t budget, const HostSettings& settings,
                           const HostRates& rates, const WorkspaceOf& workspace_of);

/// Fills in the tiles and copies in their order.
void put_in_order(HostPlan& plan);

}  // namespace tilewise
