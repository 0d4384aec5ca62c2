#include "api/host_pointers/host_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kMostTiles = std::int64_t{1} << 20;
/// Host time in seconds for a launch with its events, and for a copy.
constexpr double kLaunch = 30e-6, kCopy = 10e-6;
/// Link time in seconds lost for each row of a block with non-contiguous rows: rows of 4 KiB
/// reached 40 GB/s instead of 55 (bench/results/h200_host_stream_trace.txt).
constexpr double kRow = 28e-9;

std::int64_t divided_up(std::int64_t x, std::int64_t y) { return y > 0 ? (x + y - 1) / y : 1; }
std::int64_t rounded_up(std::int64_t x, std::int64_t to) { return divided_up(x, to) * to; }

/// Candidate lengths of tiles: the whole extent, and about 1/2, 1/3, 1/4, 1/6, 1/8, ... of it.
std::vector<std::int64_t> lengths(std::int64_t extent, std::int64_t granule) {
  std::vector<std::int64_t> all{extent};
  for (std::int64_t power = 2; all.back() > granule; power *= 2)
    for (const std::int64_t parts : {power, power / 2 * 3}) {
      const std::int64_t length = rounded_up(divided_up(extent, parts), granule);
      if (length < all.back()) all.push_back(length);
    }
  return all;
}

/// Bytes of all of A, B or C.
double bytes_of_all(const HostTask& task, HostOperand operand) {
  const Problem& p = task.problem;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k), batch = static_cast<double>(p.batch);
  if (operand == HostOperand::a) return (task.shares_a ? 1 : batch) * m * k * bits_of(p.a.type) / 8;
  if (operand == HostOperand::b) return (task.shares_b ? 1 : batch) * k * n * bits_of(p.b.type) / 8;
  return batch * m * n * bits_of(p.c.type) / 8;
}

/// Enumerates splits and keeps the one that is expected to be fastest.
class SplitSearch {
 public:
  SplitSearch(const HostTask& task, std::int64_t budget, const HostSettings& settings,
              const HostRates& rates)
      : task_(task), budget_(budget), settings_(settings), rates_(rates) {
    a_ = bytes_of_all(task, HostOperand::a), b_ = bytes_of_all(task, HostOperand::b);
    c_ = bytes_of_all(task, HostOperand::c);
    flops_ = rates.flops > 0 ? flops_of(task.problem) / rates.flops : 0;
  }

  HostPlan made() {
    try_all();
    if (!best_)
      throw Error(ErrorKind::out_of_memory,
                  to_string(task_.problem) + " on host pointers needs " + std::to_string(least_) +
                      " bytes of device memory in its smallest split, and it may have " +
                      std::to_string(std::max<std::int64_t>(budget_, 0)));
    return *best_;
  }

  /// Bytes of the smallest split, for a search with a budget of 0.
  std::int64_t least_bytes() {
    try_all();
    return least_;
  }

 private:
  void try_all() {
    const Problem& p = task_.problem;
    if (a_ + b_ + c_ <= static_cast<double>(settings_.single_bytes) && try_single()) return;
    const auto of_m = lengths(p.m, settings_.granule), of_n = lengths(p.n, settings_.granule);
    if (p.batch > 1)
      for (const std::int64_t batch : lengths(p.batch, 1)) try_batch(batch);
    for (const std::int64_t m : of_m)
      for (const std::int64_t n : of_n) try_groups(m, n);
    // Splitting k needs sums on the device, and more bytes if tiles are small.
    if (p.k > settings_.granule && (!best_ || best_->shape.seconds > 1.25 * bound()))
      for (const std::int64_t m : of_m)
        for (const std::int64_t n : of_n)
          for (const std::int64_t k : lengths(p.k, settings_.granule))
            if (k < p.k) try_parts(m, n, k);
  }

  /// A lower bound of the time of every split.
  double bound() const { return std::max({(a_ + b_) / rates_.link, c_ / rates_.link, flops_}); }

  /// Bytes of a block of A, B and C.
  struct Bytes {
    double a, b, c;
  };
  static Bytes slots_of(const HostPlan& plan) {
    return {static_cast<double>(plan.slot_bytes(HostOperand::a)),
            static_cast<double>(plan.slot_bytes(HostOperand::b)),
            static_cast<double>(plan.slot_bytes(HostOperand::c))};
  }

  /// Link time in seconds for all blocks of A, B and C, each once, in addition to the time for
  /// their bytes.
  struct Rows {
    double a, b, c;
  };
  Rows rows_of(const HostPlan& plan) const {
    const Problem& p = task_.problem;
    const auto seconds = [&](HostOperand operand, std::int64_t columns, double blocks) {
      const HostBlock block = plan.block(operand, {});
      return block.columns == columns ? 0 : kRow * blocks * static_cast<double>(block.rows);
    };
    const auto m = static_cast<double>(plan.parts_m()), n = static_cast<double>(plan.parts_n()),
               k = static_cast<double>(plan.parts_k()),
               batch = static_cast<double>(plan.parts_batch());
    return {seconds(HostOperand::a, min_lda(p), m * k * batch),
            seconds(HostOperand::b, min_ldb(p), k * n * batch),
            seconds(HostOperand::c, p.n, m * n * batch)};
  }

  HostPlan plan_of(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) const {
    HostPlan plan;
    plan.task = task_;
    plan.shape.tile = {m, n, k, batch};
    plan.shape.c = k < task_.problem.k ? task_.problem.accumulator : task_.problem.c.type;
    return plan;
  }

  bool try_single() {
    const Problem& p = task_.problem;
    HostPlan plan = plan_of(p.m, p.n, p.k, p.batch);
    plan.shape.single = true;
    plan.shape.seconds = bound() + (flops_ > 0 ? kLaunch : 0);
    keep(plan);
    return best_.has_value();
  }

  /// Seconds of one tile's product. A tile of few blocks leaves multiprocessors idle at its end. A
  /// tile that adds to C also reads and writes C. Blocks are 128 x 128, on tensor cores 128 x 256.
  double seconds_of(const HostTileSize& tile) const {
    if (rates_.flops <= 0) return kLaunch;
    const Problem& p = task_.problem;
    const bool is_wide =
        bytes_of(p.a.type) < 4 || (p.a.type == DType::f32 && p.math != MathMode::strict);
    const auto m = static_cast<double>(tile.m), n = static_cast<double>(tile.n);
    const double blocks =
        std::ceil(m / 128) * std::ceil(n / (is_wide ? 256 : 128)) * static_cast<double>(tile.batch);
    const double waves = blocks / std::max(1, rates_.multiprocessors);
    double seconds = 2 * m * n * static_cast<double>(tile.k) * static_cast<double>(tile.batch) /
                     rates_.flops * std::ceil(waves) / waves;
    if (tile.k < task_.problem.k) seconds += 8 * m * n / 3e12;
    return std::max(seconds, kLaunch);
  }

  /// Tries tiles of several whole products.
  void try_batch(std::int64_t batch) {
    const Problem& p = task_.problem;
    HostPlan plan = plan_of(p.m, p.n, p.k, batch);
    const Bytes slot = slots_of(plan);
    const double tiles = static_cast<double>(plan.parts_batch()), one = seconds_of(plan.shape.tile);
    const double up = a_ + b_ + (task_.reads_c ? c_ : 0);
    for (const std::int64_t deep : {3, 2, 1}) {
      plan.shape.slots = {task_.shares_a ? 1 : deep, task_.shares_b ? 1 : deep, deep};
      const double copy = up / rates_.link + 2 * tiles * kCopy;
      const double ends = (slot.a + slot.b + slot.c) / rates_.link + one;
      plan.shape.seconds =
          (deep > 1 ? std::max(copy, one * tiles) : copy + one * tiles + c_ / rates_.link) + ends;
      keep(plan);
    }
  }

  /// Tries tiles with all of k. Everything stays on the device if it fits; otherwise blocks of one
  /// operand pass while groups of the other's stay.
  void try_groups(std::int64_t m, std::int64_t n) {
    HostPlan plan = plan_of(m, n, task_.problem.k, 1);
    const Bytes slot = slots_of(plan);
    for (const std::int64_t c : {3, 2, 1}) {
      plan.shape.slots = {1, 1, c};
      if (c == 1) keep(plan, /*only_size=*/true);
      const double rest = static_cast<double>(budget_) - static_cast<double>(c) * slot.c;
      const std::int64_t rows = plan.parts_m(), columns = plan.parts_n();
      if (static_cast<double>(rows) * slot.a + static_cast<double>(columns) * slot.b <= rest) {
        plan.shape.slots = {rows, columns, c};
        plan.shape.passing = HostOperand::a;
        plan.shape.group = columns;
        estimate_groups(plan, slot);
        continue;
      }
      for (const HostOperand passing : {HostOperand::a, HostOperand::b})
        for (const std::int64_t deep : {3, 2, 1}) try_group(plan, slot, passing, deep, rest);
    }
  }

  void try_group(HostPlan& plan, const Bytes& slot, HostOperand passing, std::int64_t deep,
                 double rest) {
    const bool rows_pass = passing == HostOperand::a;
    const double pass_bytes = rows_pass ? slot.a : slot.b, stay_bytes = rows_pass ? slot.b : slot.a;
    const std::int64_t pass = rows_pass ? plan.parts_m() : plan.parts_n(),
                       stay = rows_pass ? plan.parts_n() : plan.parts_m();
    const double fits =
        (rest - static_cast<double>(std::min(deep, pass)) * pass_bytes) / std::max(stay_bytes, 1.0);
    if (!(fits >= 1)) return;
    const std::int64_t most =
        fits < static_cast<double>(stay) ? static_cast<std::int64_t>(fits) : stay;
    const std::int64_t group = divided_up(stay, divided_up(stay, most));  // equal groups
    const double left = rest - static_cast<double>(group) * stay_bytes;
    const std::int64_t kept = static_cast<std::int64_t>(
        std::min(static_cast<double>(pass), left / std::max(pass_bytes, 1.0)));
    plan.shape.passing = passing;
    plan.shape.group = group;
    plan.shape.slots[0] = rows_pass ? kept : group;
    plan.shape.slots[1] = rows_pass ? group : kept;
    estimate_groups(plan, slot);
  }

  void estimate_groups(HostPlan& plan, const Bytes& slot) {
    const HostShape& x = plan.shape;
    const bool rows_pass = x.passing == HostOperand::a;
    const double pass_bytes = rows_pass ? slot.a : slot.b, stay_bytes = rows_pass ? slot.b : slot.a;
    const auto pass = static_cast<double>(rows_pass ? plan.parts_m() : plan.parts_n()),
               stay = static_cast<double>(rows_pass ? plan.parts_n() : plan.parts_m()),
               group = static_cast<double>(x.group),
               kept = static_cast<double>(x.slots[rows_pass ? 0 : 1]),
               batch = static_cast<double>(plan.parts_batch());
    const double groups = std::ceil(stay / group);
    const double passes = groups * (rows_pass ? a_ : b_) - batch * (groups - 1) * kept * pass_bytes;
    const double copies = batch * (groups * pass + stay);
    const double up = passes + (rows_pass ? b_ : a_) + (task_.reads_c ? c_ : 0);
    double one = seconds_of(x.tile);
    if (x.slots[2] == 1) one += (task_.reads_c ? 2 : 1) * slot.c / rates_.link;
    const Rows rows = rows_of(plan);
    const double rows_pass_once = rows_pass ? rows.a : rows.b,
                 rows_stay = rows_pass ? rows.b : rows.a, down = c_ / rates_.link + rows.c;
    const double copy = up / rates_.link + copies * kCopy + rows_stay +
                        rows_pass_once * passes / std::max(rows_pass ? a_ : b_, 1.0) +
                        (task_.reads_c ? rows.c : 0),
                 work = batch * pass * stay * one;
    // At first only the blocks that have arrived give work.
    const double first_copy = (group * stay_bytes + kept * pass_bytes) / rates_.link +
                              rows_stay * group / (stay * batch) +
                              rows_pass_once * kept / (pass * batch),
                 first_work = kept * group * one;
    double seconds =
        std::max(first_copy, first_work) + std::max({copy - first_copy, work - first_work, 0.0});
    if (kept == 1 && pass > 1) seconds = copy + work;  // no copy overlaps a product
    if (group == 1 && stay > 1) seconds += (groups - 1) * stay_bytes / rates_.link;
    plan.shape.seconds = std::max(seconds, down) + (slot.a + slot.b + slot.c) / rates_.link + one;
    keep(plan);
  }

  /// Tries tiles of C that stay while parts of k pass.
  void try_parts(std::int64_t m, std::int64_t n, std::int64_t k) {
    HostPlan plan = plan_of(m, n, k, 1);
    const Bytes slot = slots_of(plan);
    const Rows rows = rows_of(plan);
    const auto of_m = static_cast<double>(plan.parts_m()),
               of_n = static_cast<double>(plan.parts_n()),
               parts = static_cast<double>(plan.parts_k()),
               batch = static_cast<double>(plan.parts_batch());
    const double up = a_ * of_n + b_ * of_m + (task_.reads_c ? batch * of_m * of_n * slot.c : 0),
                 tiles = batch * of_m * of_n;
    for (const std::int64_t c : {2, 1})
      for (const std::int64_t deep : {3, 2, 1}) {
        plan.shape.slots = {deep, deep, c};
        const double copy = up / rates_.link + 2 * tiles * parts * kCopy + rows.a * of_n +
                            rows.b * of_m + (task_.reads_c ? rows.c : 0),
                     work = tiles * parts * seconds_of(plan.shape.tile) +
                            (c == 1 ? tiles * slot.c / rates_.link : 0);
        plan.shape.seconds =
            (deep > 1 ? std::max({copy, work, tiles * slot.c / rates_.link + rows.c})
                      : copy + work) +
            (slot.a + slot.b + slot.c) / rates_.link + seconds_of(plan.shape.tile);
        keep(plan);
      }
  }

  void keep(const HostPlan& plan, bool only_size = false) {
    const double tiles = static_cast<double>(plan.parts_m()) * static_cast<double>(plan.parts_n()) *
                         static_cast<double>(plan.parts_k()) *
                         static_cast<double>(plan.parts_batch());
    if (tiles > static_cast<double>(kMostTiles)) return;
    const std::int64_t bytes = plan.slots_bytes();
    least_ = std::min(least_, bytes);
    if (only_size || bytes > budget_) return;
    if (!best_ || plan.shape.seconds < best_->shape.seconds) best_ = plan;
  }

  const HostTask& task_;
  const std::int64_t budget_;
  const HostSettings& settings_;
  const HostRates& rates_;
  double a_, b_, c_;  ///< bytes of the operands
  double flops_;      ///< time of all products in seconds
  std::optional<HostPlan> best_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

std::int64_t HostPlan::parts_m() const { return divided_up(task.problem.m, shape.tile.m); }
std::int64_t HostPlan::parts_n() const { return divided_up(task.problem.n, shape.tile.n); }
std::int64_t HostPlan::parts_k() const { return divided_up(task.problem.k, shape.tile.k); }
std::int64_t HostPlan::parts_batch() const {
  return divided_up(task.problem.batch, shape.tile.batch);
}

DType HostPlan::type_of(HostOperand operand) const {
  return operand == HostOperand::a   ? task.problem.a.type
         : operand == HostOperand::b ? task.problem.b.type
                                     : shape.c;
}

HostBlock HostPlan::block(HostOperand operand, const HostTile& tile) const {
  const Problem& p = task.problem;
  struct Part {
    std::int64_t begin, length;
  };
  const auto part = [](std::int64_t index, std::int64_t length, std::int64_t extent) {
    return Part{index * length, std::min(length, extent - index * length)};
  };
  const Part m = part(tile.i, shape.tile.m, p.m), n = part(tile.j, shape.tile.n, p.n),
             k = part(tile.p, shape.tile.k, p.k), z = part(tile.z, shape.tile.batch, p.batch);
  const bool is_a = operand == HostOperand::a, is_b = operand == HostOperand::b;
  const bool shared = (is_a && task.shares_a) || (is_b && task.shares_b);
  Part rows = is_b ? k : m, columns = is_a ? k : n;
  if ((is_a && p.a.transposed) || (is_b && p.b.transposed)) std::swap(rows, columns);
  return {shared ? 0 : z.begin, shared ? 1 : z.length, rows.begin,
          rows.length,          columns.begin,         columns.length};
}

std::int64_t HostPlan::pitch(HostOperand operand, std::int64_t columns) const {
  const std::int64_t bytes = columns * bytes_of(type_of(operand));
  return shape.single || bytes < 128 ? bytes : rounded_up(bytes, 16);
}

/// Saturates at 2^60: a larger block fits nowhere.
std::int64_t HostPlan::bytes(HostOperand operand, const HostBlock& block) const {
  std::int64_t all = 0;
  if (__builtin_mul_overflow(block.count, block.rows, &all) ||
      __builtin_mul_overflow(all, pitch(operand, block.columns), &all))
    return std::int64_t{1} << 60;
  return std::min(all, std::int64_t{1} << 60);
}

std::int64_t HostPlan::slot_bytes(HostOperand operand) const {
  return rounded_up(bytes(operand, block(operand, {})), 256);
}

std::int64_t HostPlan::slots_bytes() const {
  double all = 0;
  for (const HostOperand operand : kHostOperands)
    all += static_cast<double>(shape.slots[static_cast<std::size_t>(operand)]) *
           static_cast<double>(slot_bytes(operand));
  return static_cast<std::int64_t>(std::min(all, 0x1p62));
}

Problem HostPlan::problem_of(const HostTile& tile) const {
  const HostBlock a = block(HostOperand::a, tile), b = block(HostOperand::b, tile),
                  c = block(HostOperand::c, tile);
  Problem problem = task.problem;
  problem.m = c.rows, problem.n = c.columns, problem.batch = c.count;
  problem.k = problem.a.transposed ? a.rows : a.columns;
  problem.c.type = shape.c;
  const auto aligned = [&](HostOperand operand, const HostBlock& x) {
    return common_alignment({static_cast<std::uint64_t>(pitch(operand, x.columns))});
  };
  set_alignment(problem, {aligned(HostOperand::a, a), aligned(HostOperand::b, b),
                          aligned(HostOperand::c, c)});
  return problem;
}

std::vector<Problem> HostPlan::problems() const {
  const auto ends = [](std::int64_t parts) {
    return parts > 1 ? std::vector<std::int64_t>{0, parts - 1} : std::vector<std::int64_t>{0};
  };
  std::vector<Problem> all;
  for (const std::int64_t z : ends(parts_batch()))
    for (const std::int64_t i : ends(parts_m()))
      for (const std::int64_t j : ends(parts_n()))
        for (const std::int64_t p : ends(parts_k())) {
          const Problem problem = problem_of({z, i, j, p});
          if (std::find(all.begin(), all.end(), problem) == all.end()) all.push_back(problem);
        }
  return all;
}

HostSplit HostPlan::split() const {
  HostSplit split;
  split.tile_m = shape.tile.m, split.tile_n = shape.tile.n, split.tile_k = shape.tile.k;
  split.tile_batch = shape.tile.batch;
  split.tiles = static_cast<std::int64_t>(tiles.size());
  split.device_bytes = slots_bytes();
  for (const HostCopy& copy : copies)
    split.bytes_up +=
        bytes(copy.operand, block(copy.operand, tiles[static_cast<std::size_t>(copy.tile)]));
  for (const HostTile& tile : tiles)
    if (tile.ends) split.bytes_down += bytes(HostOperand::c, block(HostOperand::c, tile));
  split.expected_seconds = shape.seconds;
  return split;
}

HostPlan chosen_split(const HostTask& task, std::int64_t budget, const HostSettings& settings,
                      const HostRates& rates) {
  HostPlan plan = SplitSearch(task, budget, settings, rates).made();
  if (rates.flops <= 0) plan.shape.seconds = 0;
  return plan;
}

std::int64_t smallest_split(const HostTask& task, const HostSettings& settings) {
  return SplitSearch(task, 0, settings, HostRates{}).least_bytes();
}

}  // namespace tilewise
