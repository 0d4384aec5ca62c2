// The order of the tiles of a split product, and the copies for each tile.
#include <algorithm>
#include <map>
#include <tuple>

#include "api/host_pointers/host_plan.hpp"

namespace tilewise {
namespace {

/// The blocks in the slots of one operand. A new block replaces the least recently used one.
class Slots {
 public:
  explicit Slots(std::int64_t count) : last_use_(static_cast<std::size_t>(count), -1) {}

  using Block = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  struct Found {
    int slot;
    bool is_new;
    std::int64_t after;  ///< last tile that used the previous block of the slot; -1: none
  };
  Found use(const Block& block, std::int64_t tile) {
    const auto [known, is_new] = slots_.try_emplace(block, 0);
    if (!is_new) {
      last_use_[static_cast<std::size_t>(known->second)] = tile;
      return {known->second, false, -1};
    }
    const auto oldest = std::min_element(last_use_.begin(), last_use_.end());
    const int slot = static_cast<int>(oldest - last_use_.begin());
    const std::int64_t after = *oldest;
    std::erase_if(slots_,
                  [&](const auto& held) { return held.second == slot && held.first != block; });
    slots_[block] = slot;
    *oldest = tile;
    return {slot, true, after};
  }

 private:
  std::map<Block, int> slots_;
  std::vector<std::int64_t> last_use_;
};

class Order {
 public:
  explicit Order(HostPlan& plan)
      : plan_(plan), a_(plan.shape.slots[0]), b_(plan.shape.slots[1]), c_(plan.shape.slots[2]) {}

  void make() {
    for (std::int64_t z = 0; z < plan_.parts_batch(); ++z)
      plan_.parts_k() > 1 ? by_parts(z) : by_groups(z);
  }

 private:
  /// Splits k: a tile of C stays while blocks of A and B pass. Every second row of tiles and every
  /// second sum run backwards, so that their first blocks are already there.
  void by_parts(std::int64_t z) {
    const std::int64_t parts = plan_.parts_k(), columns = plan_.parts_n();
    bool back = false;
    for (std::int64_t i = 0; i < plan_.parts_m(); ++i)
      for (std::int64_t step = 0; step < columns; ++step, back = !back)
        for (std::int64_t part = 0; part < parts; ++part) {
          HostTile tile{z, i, i % 2 ? columns - 1 - step : step, back ? parts - 1 - part : part};
          tile.begins = part == 0;
          tile.ends = part == parts - 1;
          add(tile);
        }
  }

  /// All of k in a tile: a group of blocks of one operand stays while those of the other pass, back
  /// and forth.
  void by_groups(std::int64_t z) {
    const bool rows_pass = plan_.shape.passing == HostOperand::a;
    const std::int64_t passing = rows_pass ? plan_.parts_m() : plan_.parts_n();
    const std::int64_t staying = rows_pass ? plan_.parts_n() : plan_.parts_m();
    const std::int64_t kept = std::min(passing, plan_.shape.slots[rows_pass ? 0 : 1]);
    bool back = false;
    for (std::int64_t first = 0; first < staying; first += plan_.shape.group, back = !back) {
      const std::int64_t group = std::min(plan_.shape.group, staying - first);
      const auto tile = [&](std::int64_t p, std::int64_t s) {
        const std::int64_t pass = back ? passing - 1 - p : p, stay = first + s;
        add(rows_pass ? HostTile{z, pass, stay, 0} : HostTile{z, stay, pass, 0});
      };
      begin_group(first > 0 ? kept : 0, kept, group, rows_pass, tile);
      for (std::int64_t p = kept; p < passing; ++p)
        for (std::int64_t s = 0; s < group; ++s) tile(p, s);
    }
  }

  /// Adds the tiles of the first `kept` passing blocks with a group, in an order that gives work
  /// early: the next block to copy is the one that makes the most tiles possible for its bytes.
  /// `there`: number of passing blocks on the device from the previous group.
  template <class Add>
  void begin_group(std::int64_t there, std::int64_t kept, std::int64_t group, bool rows_pass,
                   Add tile) {
    const auto pass_bytes =
        static_cast<double>(plan_.slot_bytes(rows_pass ? HostOperand::a : HostOperand::b));
    const auto stay_bytes =
        static_cast<double>(plan_.slot_bytes(rows_pass ? HostOperand::b : HostOperand::a));
    std::int64_t p = there, s = 0;
    while (p < kept || s < group) {
      const bool next_passes = p < kept && (s == group || static_cast<double>(s) * stay_bytes >=
                                                              static_cast<double>(p) * pass_bytes);
      if (next_passes) {
        for (std::int64_t with = 0; with < s; ++with) tile(p, with);
        ++p;
      } else {
        for (std::int64_t with = 0; with < p; ++with) tile(with, s);
        ++s;
      }
    }
  }

  void add(HostTile tile) {
    const auto number = static_cast<std::int64_t>(plan_.tiles.size());
    const HostTask& task = plan_.task;
    if (task.problem.k > 0) {
      use(a_, HostOperand::a, {task.shares_a ? 0 : tile.z, tile.i, tile.p}, tile, number);
      use(b_, HostOperand::b, {task.shares_b ? 0 : tile.z, tile.j, tile.p}, tile, number);
    }
    const Slots::Found c = c_.use({tile.z, tile.i, tile.j}, number);
    tile.slots[2] = c.slot;
    if (tile.begins) {
      tile.c_after = c.after;
      if (task.reads_c) plan_.copies.push_back({HostOperand::c, c.slot, number, c.after});
    }
    tile.next_copy = static_cast<std::int64_t>(plan_.copies.size());
    plan_.tiles.push_back(tile);
  }

  void use(Slots& slots, HostOperand operand, const Slots::Block& block, HostTile& tile,
           std::int64_t number) {
    const Slots::Found found = slots.use(block, number);
    tile.slots[operand == HostOperand::a ? 0 : 1] = found.slot;
    if (found.is_new) plan_.copies.push_back({operand, found.slot, number, found.after});
  }

  HostPlan& plan_;
  Slots a_, b_, c_;
};

}  // namespace

void put_in_order(HostPlan& plan) { Order(plan).make(); }

}  // namespace tilewise
