#include "tuner/order_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "templates/kernel_template.hpp"
#include "templates/plan/sum_order.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

// Parts are whole tiles of so many bytes of k, so that kernels of several TILE_K have the order.
constexpr std::int64_t kPartTileBytes = 128;
constexpr std::int64_t kLeastPart = 512;
// The tile of a typical kernel for few rows.
constexpr std::int64_t kTile = 64;

constexpr std::size_t kMostProbes = 3;

}  // namespace

std::vector<SumOrder> candidate_orders(const Problem& key, const std::vector<WeightedM>& sizes,
                                       const DeviceInfo& device) {
  std::vector<SumOrder> orders{default_order(key, device)};
  // No kernel splits the k of grouped products.
  if (orders[0].arithmetic == SumOrder::Arithmetic::exact || is_grouped(key)) return orders;
  std::int64_t least_m = std::numeric_limits<std::int64_t>::max();
  for (const WeightedM& size : sizes) least_m = std::min(least_m, size.m);
  const std::int64_t tiles = ceil_div(least_m, kTile) * ceil_div(key.n, kTile);
  for (const int parts : {2, 4, 8, 16}) {
    SumOrder order =
        in_parts(orders[0], key, static_cast<int>(kPartTileBytes / bytes_of(key.a.type)), parts);
    // So that a block of wgmma can add all parts itself.
    if (order.arithmetic == SumOrder::Arithmetic::tensor) order.rows = 1;
    if (order.part < kLeastPart || tiles * (parts / 2) >= device.multiprocessors) break;
    orders.push_back(order);
  }
  return orders;
}

std::vector<WeightedM> probes_of(std::vector<WeightedM> sizes) {
  std::sort(sizes.begin(), sizes.end(),
            [](const WeightedM& x, const WeightedM& y) { return x.m < y.m; });
  std::vector<WeightedM> probes;
  const auto add = [&](std::int64_t m) {
    if (probes.empty() || probes.back().m != m) probes.push_back({m, 0});
  };
  const auto log_m = [](const WeightedM& size) { return std::log2(static_cast<double>(size.m)); };
  if (sizes.size() <= kMostProbes) {
    for (const WeightedM& size : sizes) add(size.m);
  } else {
    const double middle = (log_m(sizes.front()) + log_m(sizes.back())) / 2;
    add(sizes.front().m);
    add(std::min_element(sizes.begin() + 1, sizes.end() - 1,
                         [&](const WeightedM& x, const WeightedM& y) {
                           return std::abs(log_m(x) - middle) < std::abs(log_m(y) - middle);
                         })
            ->m);
    add(sizes.back().m);
  }
  for (const WeightedM& size : sizes) {
    const auto nearest =
        std::min_element(probes.begin(), probes.end(), [&](const WeightedM& x, const WeightedM& y) {
          return std::abs(log_m(x) - log_m(size)) < std::abs(log_m(y) - log_m(size));
        });
    nearest->weight += size.weight;
  }
  return probes;
}

double probe_seconds(double seconds, std::size_t searches, bool has_model) {
  constexpr double least = 1;
  const double each = seconds / static_cast<double>(std::max<std::size_t>(1, searches));
  return has_model && each < least ? 0 : std::max(least, each);
}

bool lacks_time(const std::vector<ProbedOrder>& orders, std::size_t probe) {
  return std::any_of(orders.begin(), orders.end(),
                     [&](const ProbedOrder& order) { return !(order.us[probe] > 0); });
}

std::size_t best_order(std::vector<ProbedOrder>& orders, const std::vector<WeightedM>& probes) {
  const auto is_expected = [&](std::size_t probe) {
    return lacks_time(orders, probe) &&
           std::all_of(orders.begin(), orders.end(), [&](const ProbedOrder& order) {
             return probe < order.expected_us.size() && order.expected_us[probe] > 0;
           });
  };
  for (ProbedOrder& order : orders) {
    double sum = 0, weights = 0;
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const bool expected = is_expected(i);
      const auto time_of = [&](const ProbedOrder& of) {
        return expected ? of.expected_us[i] : of.us[i];
      };
      double fastest = std::numeric_limits<double>::infinity();
      for (const ProbedOrder& other : orders)
        if (time_of(other) > 0) fastest = std::min(fastest, time_of(other));
      sum += probes[i].weight * (time_of(order) > 0 ? std::log(time_of(order) / fastest)
                                                    : std::numeric_limits<double>::infinity());
      weights += probes[i].weight;
    }
    order.loss = std::exp(sum / weights);
  }
  return static_cast<std::size_t>(
      std::min_element(orders.begin(), orders.end(),
                       [](const ProbedOrder& x, const ProbedOrder& y) { return x.loss < y.loss; }) -
      orders.begin());
}

}  // namespace tilewise
