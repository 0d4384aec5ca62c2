#pragma once
#include <string>
#include <vector>

#include "cli/common/json.hpp"
#include "cli/tune/tune_tasks.hpp"
#include "tuner/order_choice.hpp"

namespace tilewise::cli {

/// The order of sums of the invariant products of a key on a GPU model.
struct ChosenOrder {
  Problem key;
  std::string gpu;
  std::string order;
  std::vector<WeightedM> probes;      ///< empty: it was kept before, or there was no choice
  std::vector<ProbedOrder> measured;  ///< at the probes
};

/// Chooses and keeps an order for the invariant problems of the tasks (--invariant) that have none;
/// `again`: for those that have one, too. The measurements take `share` of the problems' budgets.
/// Sets the order of every such problem of the tasks. An interrupt leaves keys without an order,
/// and the problems of the tasks then have the default order.
std::vector<ChosenOrder> choose_orders(std::vector<Task>& tasks, Database& database,
                                       ImageCache* cache, const BenchOptions& bench,
                                       const Output& output, bool again, double share = 0.25);

/// Sets the order of every invariant problem of a task: the one that is kept, else the default. A
/// problem that was there in this order is searched for once, with both budgets.
void set_kept_orders(Task& task, const Database& database);

void note_orders(const std::vector<ChosenOrder>& chosen, const Output& output);
Json orders_json(const std::vector<ChosenOrder>& chosen);

}  // namespace tilewise::cli
