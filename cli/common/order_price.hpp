#pragma once
#include <vector>

#include "db/database.hpp"

namespace tilewise::cli {

/// What an order of sums costs at one size: the time of its winner, and of the winner in any order.
struct OrderPrice {
  Problem problem;  ///< in the order
  double us = 0;
  double free_us = 0;  ///< 0: the product was not tuned in any order
  double ratio() const { return free_us > 0 ? us / free_us : 0; }
};

/// The prices at all sizes that `winners` has of the products of `problem`'s key in its order, by
/// m. Empty for a problem without an order. Quarantined winners do not count.
std::vector<OrderPrice> order_prices(const std::vector<Winner>& winners, const Problem& problem);

}  // namespace tilewise::cli
