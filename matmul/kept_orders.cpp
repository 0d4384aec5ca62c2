#include "matmul/kept_orders.hpp"

#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {

const SumOrder* order_of(const KeptOrder& kept) try {
  return interned(parse_sum_order(kept.sum_order));
} catch (const Error& error) {
  throw Error(ErrorKind::unsupported, "the order of sums that is kept for " +
                                          table_text(kept.problem) + " on " + kept.gpu +
                                          " is of a newer version of Tilewise: " + error.what());
}

Problem in_kept_order(Problem problem, const DeviceInfo& device, const Database* database) {
  if (problem.order != kept_order()) return problem;
  const Problem key = order_key(problem);
  const auto kept = database ? database->order(key, gpu_key(device)) : std::nullopt;
  problem.order = kept ? order_of(*kept) : interned(default_order(key, device));
  return problem;
}

std::vector<std::string> foreign_orders(const Database& database, const Problem& key,
                                        const std::string& gpu, const SumOrder& order) {
  std::vector<std::string> texts;
  for (const KeptOrder& other : database.orders())
    if (other.problem == key && other.gpu != gpu)
      texts.push_back("an order of sums is kept for invariant products of " + table_text(key) +
                      " on " + other.gpu + " (" + other.sum_order + "), and none there on " + gpu +
                      ", which uses " + to_string(order) + ": the bits of the two GPUs may differ");
  return texts;
}

Problem KeptOrders::in_order(Problem problem) {
  if (problem.order != kept_order()) return problem;
  const std::lock_guard lock(mutex_);
  const SumOrder*& order = found_[order_key(problem)];
  if (!order) order = find(order_key(problem));
  problem.order = order;
  return problem;
}

const SumOrder* KeptOrders::find(const Problem& key) {
  const std::string gpu = gpu_key(device_);
  const std::optional<Database>&bundle = stores_.bundle(), &database = stores_.database();
  // The bundle first: all processes that read it have its orders, whatever their machines have.
  if (const auto kept = bundle ? bundle->order(key, gpu) : std::nullopt) return order_of(*kept);
  const auto own = database ? database->order(key, gpu) : std::nullopt;
  const SumOrder* order = own ? order_of(*own) : interned(default_order(key, device_));
  for (const std::optional<Database>* from : {&bundle, &database})
    if (*from && !(own && from == &database))
      for (const std::string& text : foreign_orders(**from, key, gpu, *order)) warnings_.once(text);
  return order;
}

}  // namespace tilewise
