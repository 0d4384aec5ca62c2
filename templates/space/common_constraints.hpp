#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "templates/plan/multiply_plan.hpp"
#include "templates/space/constraints.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise {

/// The largest m, n and k of products whose tiles TMA copies. Its coordinates have 32 bits and a
/// sign: the tiles of a cluster, at most 768 rows or columns, end below 2^31.
inline constexpr std::int64_t kMostByTma = (std::int64_t{1} << 31) - 768;

/// Constraints that kernel families share. `Numbers`: a family's configuration as plain numbers;
/// each comment lists the members that are used. `reads`: the parameters these depend on.
template <class Numbers>
struct CommonConstraints : ConstraintsOver<Numbers> {
  using Names = std::vector<std::string>;
  using In = ConstraintInput;
  using ConstraintsOver<Numbers>::constraint;
  using ConstraintsOver<Numbers>::hint;
  using ConstraintsOver<Numbers>::work_hint;

  /// Numbers::threads().
  static Constraint block_size(Names reads) {
    return constraint(
        "block_size", std::move(reads), "a block has at most 1024 threads",
        [](const Numbers& s, const In& in) { return s.threads() <= in.device.threads_per_block; });
  }

  /// Numbers::threads(), Numbers::blocks.
  static Constraint threads_resident(Names reads) {
    return constraint("threads_resident", std::move(reads),
                      "BLOCKS_PER_SM blocks are no more threads than a multiprocessor holds",
                      [](const Numbers& s, const In& in) {
                        return s.threads() * s.blocks <= in.device.threads_per_multiprocessor &&
                               s.blocks <= in.device.blocks_per_multiprocessor;
                      });
  }

  /// Numbers::shared_bytes(), blocks. `what`: the text's subject, "the stages of BLOCKS_PER_SM
  /// blocks".
  static Constraint shared_fits(Names reads, const std::string& what) {
    return constraint("shared_fits", std::move(reads), what + " fit into shared memory",
                      [](const Numbers& s, const In& in) {
                        return blocks_fit(s.blocks, {.shared_bytes = s.shared_bytes()}, in.device);
                      });
  }

  /// Numbers::registers(device), threads(), blocks. `what`: the text's subject, "sums and
  /// fragments".
  static Constraint registers_fit(Names reads, const std::string& what) {
    return constraint(
        "registers_fit", std::move(reads),
        what + " fit the registers that BLOCKS_PER_SM leaves a thread (at most 255)",
        [](const Numbers& s, const In& in) {
          const int registers = s.registers(in.device);
          return registers <= 255 &&
                 blocks_fit(s.blocks, {.threads = s.threads(), .registers = registers}, in.device);
        });
  }

  /// Numbers::tile_m, tile_n, tile_k, parts(problem, device).
  static Constraint grid_fits(Names reads) {
    return constraint("grid_fits", std::move(reads),
                      "there are fewer than 2^31 blocks and 2^31 tiles of k",
                      [](const Numbers& s, const In& in) {
                        return tilewise::grid_fits(in.problem, s.tile_m, s.tile_n, s.tile_k,
                                                   s.parts(in.problem, in.device));
                      });
  }

  /// Numbers::by_tma(): whether TMA copies any tile. `parameter`: the one that selects TMA.
  static Constraint has_tma(const std::string& parameter) {
    return constraint("has_tma", {parameter}, parameter + " by TMA needs the feature tma",
                      [](const Numbers& s, const In& in) {
                        return !s.by_tma() || has(in.device.features, Feature::tma);
                      });
  }

  /// Numbers::by_tma(). TMA's matrices have no empty dimension.
  static Constraint tma_sizes(const std::string& parameter) {
    return constraint(
        "tma_sizes", {parameter},
        parameter +
            " by TMA needs k of at least 1, m, n, k of at most 2^31 - 768, "
            "and one product, not a batch",
        [](const Numbers& s, const In& in) {
          const Problem& p = in.problem;
          return !s.by_tma() ||
                 (p.k >= 1 && std::max({p.m, p.n, p.k}) <= kMostByTma && !is_batched(p));
        });
  }

  /// Numbers::tile_m, tile_n, split. Split tiles are at most `waves` blocks a multiprocessor.
  static Constraint split_needed(double waves, Names reads = {"TILE_M", "TILE_N", "SPLIT_K"}) {
    return hint("split_needed", std::move(reads),
                "k is split only where tiles alone leave multiprocessors idle, or for an order",
                [waves](const Numbers& s, const In& in) {
                  if (in.problem.order) return true;
                  const double tiles = double(in.problem.m + s.tile_m - 1) / s.tile_m *
                                       (double(in.problem.n + s.tile_n - 1) / s.tile_n) *
                                       double(in.problem.batch);
                  return s.split == 1 || tiles * s.split <= waves * in.device.multiprocessors;
                });
  }

  /// Numbers::tile_k, split.
  static Constraint split_has_work() {
    return hint("split_has_work", {"TILE_K", "SPLIT_K"},
                "each part of k has at least four tiles, but for an order",
                [](const Numbers& s, const In& in) {
                  return s.split <= 1 || in.problem.order ||
                         in.problem.k >= std::int64_t{4} * s.split * s.tile_k;
                });
  }

  /// Numbers::specialize_size.
  static Constraint specializing_pays() {
    return hint("specializing_pays", {"SPECIALIZE_SIZE"},
                "sizes are constants only up to 2^32 operations, or where k is small",
                [](const Numbers& s, const In& in) {
                  return !s.specialize_size || flops_of(in.problem) <= 0x1p32 ||
                         in.problem.k <= 512;
                });
  }

  /// Numbers::group_m, tile_m, and cluster_m if there is one. `values` are those of GROUP_M, from
  /// the least on.
  static Constraint group_m_matters(std::vector<int> values, Names reads = {"TILE_M", "GROUP_M"}) {
    return hint("group_m_matters", std::move(reads),
                "GROUP_M gives another tile order than the next smaller value",
                [values = std::move(values)](const Numbers& s, const In& in) {
                  const auto value = std::find(values.begin(), values.end(), s.group_m);
                  if (value == values.begin() || value == values.end()) return true;
                  std::int64_t rows = s.tile_m;
                  if constexpr (requires { s.cluster_m; }) rows *= s.cluster_m;
                  const std::int64_t m = most_rows(in.problem);
                  return group_m_of(m, rows, *value) != group_m_of(m, rows, *std::prev(value));
                });
  }
};

}  // namespace tilewise
