#include "cli/tune/choose_orders.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/common/signals.hpp"
#include "matmul/kept_orders.hpp"
#include "matmul/stored_corrections.hpp"
#include "templates/cost_model.hpp"
#include "tuner/expected_loss.hpp"
#include "tuner/search/search_memory.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

/// The invariant problems of a task with one key.
struct Group {
  Problem of;  ///< one of them
  std::vector<WeightedM> sizes;
  double seconds = 0;  ///< of their searches
};

std::map<Problem, Group> groups_of(const Task& task) {
  std::map<Problem, Group> groups;
  for (std::size_t i = 0; i < task.problems.size(); ++i) {
    const Problem& problem = task.problems[i];
    if (problem.order != kept_order()) continue;
    Group& group = groups[order_key(problem)];
    group.of = problem;
    group.sizes.push_back({problem.m, task.budgets[i]});
    group.seconds += task.budgets[i];
  }
  return groups;
}

/// The problem of a probe, in an order.
Problem problem_of_probe(Problem of, const WeightedM& probe, const SumOrder& order) {
  of.m = probe.m;
  set_alignment(of, natural_alignment(of));
  of.order = interned(order);
  return of;
}

/// A task that measures the orders of each choice at its probes, in this order.
Task probing_task(const Task& task, const std::map<Problem, Group>& groups,
                  const std::vector<ChosenOrder>& choices, double share) {
  Task probing = task;
  probing.problems.clear();
  probing.budgets.clear();
  probing.tune.brief = true;
  for (const ChosenOrder& choice : choices) {
    const Group& group = groups.at(choice.key);
    const double seconds =
        probe_seconds(share * group.seconds, choice.measured.size() * choice.probes.size(),
                      can_estimate(task.gpus.front().info));
    if (seconds == 0) continue;
    for (const ProbedOrder& measured : choice.measured)
      for (const WeightedM& probe : choice.probes) {
        probing.problems.push_back(problem_of_probe(group.of, probe, measured.order));
        probing.budgets.push_back(seconds);
      }
  }
  return probing;
}

/// Adds the times that the cost model expects at the probes at which an order was not measured, as
/// where the reference of a large product takes longer than the search.
void add_expected(ChosenOrder& choice, const Problem& of, const Database& database,
                  const DeviceInfo& device) {
  for (std::size_t i = 0; i < choice.probes.size(); ++i) {
    if (!lacks_time(choice.measured, i)) continue;
    for (ProbedOrder& measured : choice.measured) {
      const Problem problem = problem_of_probe(of, choice.probes[i], measured.order);
      const auto corrections = own_or_shipped_corrections(database, problem, device);
      measured.expected_us.resize(choice.probes.size());
      measured.expected_us[i] =
          1e6 * expected_seconds(problem, corrections ? &*corrections : nullptr, device);
    }
  }
}

double time_of(const std::vector<Tuned>& results, const Problem& problem) {
  for (const Tuned& tuned : results)
    if (tuned.problem == problem && tuned.result.winner && tuned.result.winner->record.measurement)
      return tuned.result.winner->record.measurement->median_us;
  return 0;
}

}  // namespace

std::vector<ChosenOrder> choose_orders(std::vector<Task>& tasks, Database& database,
                                       ImageCache* cache, const BenchOptions& bench,
                                       const Output& output, bool again, double share) {
  std::vector<ChosenOrder> chosen;
  for (Task& task : tasks) {
    const DeviceInfo& info = task.gpus.front().info;
    const std::string gpu = gpu_key(info);
    const std::map<Problem, Group> groups = groups_of(task);
    std::vector<ChosenOrder> choices;
    for (const auto& [key, group] : groups) {
      if (const auto kept = database.order(key, gpu); kept && !again) {
        chosen.push_back({key, gpu, kept->sum_order, {}, {}});
        continue;
      }
      ChosenOrder choice{key, gpu, "", {}, {}};
      const std::vector<SumOrder> orders = candidate_orders(key, group.sizes, info);
      if (orders.size() > 1) choice.probes = probes_of(group.sizes);
      for (const SumOrder& order : orders) choice.measured.push_back({order, {}, {}, 0});
      choices.push_back(std::move(choice));
    }
    const Task probing = probing_task(task, groups, choices, share);
    std::vector<Tuned> results;
    if (!probing.problems.empty()) {
      note(output, "orders of sums: " + std::to_string(probing.problems.size()) +
                       " short searches choose them");
      TasksResult probed = tune_tasks({probing}, database, cache, bench, output);
      if (probed.failure) throw Error(*probed.failure);
      results = std::move(probed.results);
    }
    if (interrupted()) choices.clear();
    for (ChosenOrder& choice : choices) {
      for (ProbedOrder& measured : choice.measured)
        for (const WeightedM& probe : choice.probes)
          measured.us.push_back(
              time_of(results, problem_of_probe(groups.at(choice.key).of, probe, measured.order)));
      if (can_estimate(info)) add_expected(choice, groups.at(choice.key).of, database, info);
      const std::size_t best =
          choice.probes.empty() ? 0 : best_order(choice.measured, choice.probes);
      choice.order = to_string(choice.measured[best].order);
      database.put(KeptOrder{choice.key, gpu, choice.order, now_text()});
      chosen.push_back(std::move(choice));
    }
    set_kept_orders(task, database);
  }
  return chosen;
}

void set_kept_orders(Task& task, const Database& database) {
  Task all = std::move(task);
  task = all;
  task.problems.clear();
  task.budgets.clear();
  for (std::size_t i = 0; i < all.problems.size(); ++i) {
    const Problem problem = in_kept_order(all.problems[i], task.gpus.front().info, &database);
    const auto known = std::find(task.problems.begin(), task.problems.end(), problem);
    if (known == task.problems.end()) {
      task.problems.push_back(problem);
      task.budgets.push_back(all.budgets[i]);
    } else {
      task.budgets[static_cast<std::size_t>(known - task.problems.begin())] += all.budgets[i];
    }
  }
}

void note_orders(const std::vector<ChosenOrder>& chosen, const Output& output) {
  for (const ChosenOrder& choice : chosen) {
    std::string text = "order of " + table_text(choice.key) + " for every m: " + choice.order;
    if (choice.probes.empty()) {
      note(output, text);
      continue;
    }
    text += ", of " + join(choice.measured, ", ", [](const ProbedOrder& one) {
              return to_string(one.order) + " " + in_decimals(one.loss, 3);
            });
    note(output, text + " (time over the fastest, at m = " +
                     join(choice.probes, ", ",
                          [](const WeightedM& probe) { return std::to_string(probe.m); }) +
                     ")");
  }
}

Json orders_json(const std::vector<ChosenOrder>& chosen) {
  return array_of(chosen, [](const ChosenOrder& choice) {
    Json measured = Json::array();
    if (!choice.probes.empty())
      for (const ProbedOrder& one : choice.measured) {
        Json times = Json::array();
        for (std::size_t i = 0; i < choice.probes.size(); ++i) {
          times.push_back({{"m", choice.probes[i].m}, {"us", one.us[i]}});
          if (i < one.expected_us.size() && one.expected_us[i] > 0)
            times.back()["expected_us"] = one.expected_us[i];
        }
        measured.push_back({{"order", to_string(one.order)},
                            {"loss", positive_or_null(one.loss)},
                            {"times", times}});
      }
    return Json{{"problem", json_of(choice.key)},
                {"gpu", choice.gpu},
                {"order", choice.order},
                {"measured", measured}};
  });
}

}  // namespace tilewise::cli
