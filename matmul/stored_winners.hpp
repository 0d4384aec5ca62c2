#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "matmul/resolve.hpp"
#include "matmul/stores.hpp"
#include "matmul/warnings.hpp"
#include "vocabulary/once.hpp"

namespace tilewise {

/// Resolves problems for a Matmul. The winners of database and bundle are one Resolver; of two
/// winners of one problem the database's serves. Records serve other kinds of products, too
/// (records_of_other_kinds()). resolve_with_portfolio() adds the portfolio and
/// defaults. Thread-safe.
class StoredWinners {
 public:
  /// Returns the portfolio of a device; may be empty.
  using Portfolio = std::function<std::vector<Record>(const DeviceInfo&)>;

  StoredWinners(Stores& stores, const DeviceInfo& device, Portfolio portfolio, Warnings& warnings)
      : stores_(stores),
        device_(device),
        read_portfolio_(std::move(portfolio)),
        warnings_(warnings) {}

  /// The best resolution among all of them. If nothing was read yet and the problem has a valid
  /// winner, only its own winner is read. Throws as Resolver::resolve() does.
  Resolution resolve(const Problem& problem, const Conditions& conditions);
  /// The same among all winners, with staleness if there is a compiler.
  Resolution explain(const Problem& problem, const Conditions& conditions);
  /// Whether the problem has a valid winner of its own.
  bool has(const Problem& problem) { return all()->has_winner(problem); }
  /// Reads the winners again. A file that cannot be read serves nothing.
  void read();

 private:
  Resolution resolve(const Resolver& stored, const Problem& problem, const Conditions& conditions);
  const Resolver* portfolio();
  std::shared_ptr<const Resolver> read_before() const;
  std::shared_ptr<const Resolver> all();
  std::shared_ptr<const Resolver> enough_for(const Problem& problem);
  std::shared_ptr<const Resolver> all_with_compiler();
  void read_bundle(std::vector<Winner>& winners, std::vector<Record>& general);
  std::optional<Corrections> corrections(const Problem& kind);

  Stores& stores_;
  const DeviceInfo& device_;
  Portfolio read_portfolio_;
  Warnings& warnings_;
  mutable std::mutex mutex_;                ///< locked only briefly; guards stored_
  std::shared_ptr<const Resolver> stored_;  ///< null until it is read; replaced by read()
  std::mutex read_mutex_;                   ///< locked during the first read
  std::mutex informed_mutex_;               ///< guards the next two
  std::shared_ptr<const Resolver> informed_of_, informed_;  ///< stored_ and, with the compiler's
                                                            ///< identity for explain(), the same
  Once portfolio_once_;
  std::optional<Resolver> portfolio_;  ///< read at the first problem that no stored record serves
};

}  // namespace tilewise
