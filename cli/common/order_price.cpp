#include "cli/common/order_price.hpp"

#include <algorithm>

#include "vocabulary/sum_order.hpp"

namespace tilewise::cli {
namespace {

double time_of(const Winner& winner) {
  const bool serves = winner.quarantined.empty() && winner.record.measurement;
  return serves ? winner.record.measurement->median_us : 0;
}

}  // namespace

std::vector<OrderPrice> order_prices(const std::vector<Winner>& winners, const Problem& problem) {
  std::vector<OrderPrice> prices;
  if (!problem.order) return prices;
  const Problem key = order_key(problem);
  for (const Winner& winner : winners) {
    const Problem& ordered = winner.record.problem;
    if (ordered.order != problem.order || !(time_of(winner) > 0) || order_key(ordered) != key)
      continue;
    OrderPrice price{ordered, time_of(winner)};
    Problem free = ordered;
    free.order = nullptr;
    const auto other = std::find_if(winners.begin(), winners.end(), [&](const Winner& one) {
      return one.record.problem == free && one.record.gpu == winner.record.gpu;
    });
    if (other != winners.end()) price.free_us = time_of(*other);
    prices.push_back(price);
  }
  std::stable_sort(prices.begin(), prices.end(), [](const OrderPrice& x, const OrderPrice& y) {
    return x.problem.m < y.problem.m;
  });
  return prices;
}

}  // namespace tilewise::cli
