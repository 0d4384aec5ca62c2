#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/sum_order.hpp"

/// The choice of the order of sums for invariant products: measured at a few m, in each of a few
/// orders.
namespace tilewise {

/// A size that invariant products are asked for, and its share of the work.
struct WeightedM {
  std::int64_t m = 1;
  double weight = 1;
};

/// The orders that may be the best for the products of order_key() `key` with these m, most likely
/// first: default_order(), and with k in 2, 4, 8 or 16 parts of at least 512 products where the
/// tiles of the smallest m leave multiprocessors idle.
std::vector<SumOrder> candidate_orders(const Problem& key, const std::vector<WeightedM>& sizes,
                                       const DeviceInfo& device);

/// At most three of the sizes, the smallest and the largest among them; each has the weight of the
/// sizes that are nearest to it in the logarithm of m. Sorted by m.
std::vector<WeightedM> probes_of(std::vector<WeightedM> sizes);

/// The seconds of each of so many searches that share `seconds`: at least one. 0 where that would
/// take longer than all have, and the cost model can choose instead (`has_model`).
double probe_seconds(double seconds, std::size_t searches, bool has_model);

/// An order with its times at the probes.
struct ProbedOrder {
  SumOrder order;
  std::vector<double> us;           ///< 0: no kernel was found in the time
  std::vector<double> expected_us;  ///< by the cost model; 0 or empty: not known
  /// Weighted geometric mean of the times over the fastest order's at each probe; infinity if a
  /// time is missing.
  double loss = 0;
};

/// Whether an order was not measured at the probe. The times that were are not compared then.
bool lacks_time(const std::vector<ProbedOrder>& orders, std::size_t probe);

/// Sets `loss`, by expected times at the probes where a time is missing. Returns the place of the
/// order with the least loss, of equal ones the first.
std::size_t best_order(std::vector<ProbedOrder>& orders, const std::vector<WeightedM>& probes);

}  // namespace tilewise
