#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "tilewise/host_split.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

/// The split of a product on host pointers into tiles. Pure functions: the split that is said in
/// advance is the one that StreamedProduct carries out.
namespace tilewise {

/// Settings of products on host pointers; tests make them small.
struct HostSettings {
  std::int64_t memory_limit = 0;                       ///< device bytes; 0: what is free
  std::int64_t granule = 256;                          ///< tiles are multiples of it
  std::int64_t single_bytes = std::int64_t{32} << 20;  ///< up to these A, B and C are one tile
  std::int64_t chunk_bytes = std::int64_t{4} << 20;    ///< of one staging buffer
  int threads = 0;  ///< that copy in each direction; 0: half the cores, at most 12
};

enum class HostOperand : std::uint8_t { a, b, c };
inline constexpr std::array kHostOperands{HostOperand::a, HostOperand::b, HostOperand::c};

struct HostTileSize {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
};

/// One launch: the tile (i, j) of C, part p of k, of the z-th tile of the batch.
struct HostTile {
  std::int64_t z = 0, i = 0, j = 0, p = 0;
  std::array<int, 3> slots{};  ///< where its blocks of A, B and C are
  bool begins = true;          ///< the first part of k
  bool ends = true;            ///< the last part of k
  std::int64_t c_after = -1;   ///< begins when that tile is copied back; -1: at once
  std::int64_t next_copy = 0;  ///< begins when the copies below this number are made
};

/// A block that is copied to the device for `tile`, and perhaps later ones.
struct HostCopy {
  HostOperand operand = HostOperand::a;
  int slot = 0;
  std::int64_t tile = 0;
  /// The slot is free when this tile is computed (A, B) or copied back (C); -1: at once.
  std::int64_t after = -1;
};

/// A part of an operand as stored: `count` matrices from the z-th on.
struct HostBlock {
  std::int64_t z = 0, count = 1, row = 0, rows = 0, column = 0, columns = 0;
};

/// What a split is made for.
struct HostTask {
  Problem problem;                          ///< with k = 0 where A and B are not read
  bool shares_a = false, shares_b = false;  ///< a batch stride of 0
  bool reads_c = false;
  bool operator==(const HostTask&) const = default;
};

/// A split without its order.
struct HostShape {
  HostTileSize tile;
  DType c = DType::f32;  ///< of C on the device: the accumulator's where several parts add up
  bool single = false;   ///< one tile, rows without padding
  std::array<std::int64_t, 3> slots{1, 1, 1};
  /// With all of k in a tile: blocks of this operand pass while groups of the other's stay.
  HostOperand passing = HostOperand::a;
  std::int64_t group = 1;  ///< blocks of a group
  double seconds = 0;      ///< expected
};

/// The rate of products in flop/s (0: not known) and of copies.
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
  DType type_of(HostOperand operand) const;  ///< on the device
  HostBlock block(HostOperand operand, const HostTile& tile) const;
  /// Bytes between rows of a block on the device. Rows of 128 bytes and more are padded to 16, so
  /// that kernels may load 16 bytes at a time whatever the caller's leading dimension.
  std::int64_t pitch(HostOperand operand, std::int64_t columns) const;
  std::int64_t bytes(HostOperand operand, const HostBlock& block) const;
  std::int64_t slot_bytes(HostOperand operand) const;
  std::int64_t slots_bytes() const;  ///< of all slots
  Problem problem_of(const HostTile& tile) const;
  /// The problem of each tile, each once.
  std::vector<Problem> problems() const;
  /// Without the staging and the workspace.
  HostSplit split() const;
};

/// The split expected to be fastest within `budget` bytes of device memory, workspace apart; its
/// order is empty. Throws Error(out_of_memory) with the bytes that the smallest split needs.
HostPlan chosen_split(const HostTask& task, std::int64_t budget, const HostSettings& settings,
                      const HostRates& rates);

/// Bytes of device memory of the smallest split, workspace apart.
std::int64_t smallest_split(const HostTask& task, const HostSettings& settings);

/// A split and the workspace of the kernels that serve its tiles.
struct HostFit {
  HostPlan plan;
  std::int64_t workspace = 0;  ///< the most of one tile, edge tiles included
  std::int64_t bytes() const { return plan.slots_bytes() + workspace; }
};

/// The workspace of the kernel that serves a problem, in bytes.
using WorkspaceOf = std::function<std::int64_t(const Problem&)>;

/// The split expected to be fastest whose tiles fit into `budget` together with the workspace of
/// their kernels; its order is empty. `workspace_of` is called once for each problem of the splits
/// that are considered, about 20 at most. Where the workspace of tiles of one granule does not fit,
/// the granule is halved, down to 64. Throws Error(out_of_memory) where the smallest split does not
/// fit, with the bytes that it and its workspace need.
HostFit fitting_split(const HostTask& task, std::int64_t budget, const HostSettings& settings,
                      const HostRates& rates, const WorkspaceOf& workspace_of);

/// Fills in the tiles and copies in their order.
void put_in_order(HostPlan& plan);

}  // namespace tilewise
