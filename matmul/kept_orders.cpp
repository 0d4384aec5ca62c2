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
  // The bundle first: all processes that read it have its orders, whatever their machines have.
  for (std::optional<Database>* from : {&stores_.bundle(), &stores_.database()})
    if (*from)
      if (const auto kept = (*from)->order(key, gpu)) return order_of(*kept);
  const SumOrder* usual = interned(default_order(key, device_));
  for (std::optional<Database>* from : {&stores_.database(), &stores_.bundle()}) {
    if (!*from) continue;
    for (const KeptOrder& other : (*from)->orders())
      if (other.problem == key)
        warnings_.once("an order of sums is kept for invariant products of " + table_text(key) +
                       " on " + other.gpu + " (" + other.sum_order + "), and none on " + gpu +
                       ", which uses " + to_string(*usual) +
                       ": the bits of the two GPUs may differ");
  }
  return usual;
}

}  // namespace tilewise
