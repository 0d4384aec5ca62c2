#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "matmul/stores.hpp"
#include "matmul/warnings.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise {

/// The orders of sums of a Matmul's invariant products (set_invariant()). Thread-safe.
class KeptOrders {
 public:
  KeptOrders(Stores& stores, const DeviceInfo& device, Warnings& warnings)
      : stores_(stores), device_(device), warnings_(warnings) {}

  /// The problem with the order that is kept for it, if its order is kept_order(); other problems
  /// as they are. The order is that of the bundle, else of the database, else default_order(). It
  /// stays the same in this object, whatever is stored later. Throws Error(database) if what is
  /// stored cannot be read, and Error(unsupported) if it is of a newer version.
  Problem in_order(Problem problem);

 private:
  const SumOrder* find(const Problem& key);

  Stores& stores_;
  const DeviceInfo& device_;
  Warnings& warnings_;
  std::mutex mutex_;
  std::map<Problem, const SumOrder*> found_;  // by order_key()
};

/// The order of a row of the database. Throws Error(unsupported) if this version does not know it.
const SumOrder* order_of(const KeptOrder& kept);

/// The problem in the order that is kept for it in a database (null: none), else in
/// default_order(); as it is unless its order is kept_order(). Throws as KeptOrders::in_order()
/// does.
Problem in_kept_order(Problem problem, const DeviceInfo& device, const Database* database);

/// What to say about orders that a database has for the key on other GPU models, while `gpu` uses
/// `order`, which is not of this database.
std::vector<std::string> foreign_orders(const Database& database, const Problem& key,
                                        const std::string& gpu, const SumOrder& order);

}  // namespace tilewise
