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

/// What a Matmul chooses from: the winners of the database, behind them the bundle's, then the
/// portfolio, then defaults. Thread-safe.
class StoredWinners {
 public:
  /// The portfolio of a device; may be empty.
  using Portfolio = std::function<std::vector<Record>(const DeviceInfo&)>;

  StoredWinners(Stores& stores, const DeviceInfo& device, Portfolio portfolio, Warnings& warnings)
      : stores_(stores),
        device_(device),
        read_portfolio_(std::move(portfolio)),
        warnings_(warnings) {}

  /// The choice among all of them; where nothing was read yet and the problem has a valid winner,
  /// among winners of its own. Throws as Resolver::resolve() does.
  Resolution resolve(const Problem& problem, const Conditions& conditions);
  /// The same among all, with staleness where there is a compiler.
  Resolution explain(const Problem& problem, const Conditions& conditions);
  /// Whether the problem has a valid winner of its own.
  bool has(const Problem& problem) { return all()->has_winner(problem); }
  /// Reads the winners anew. A file that cannot be read serves nothing.
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
  mutable std::mutex mutex_;                ///< locked only briefly; guards the next
  std::shared_ptr<const Resolver> stored_;  ///< null until it is read; replaced by read()
  std::mutex read_mutex_;                   ///< locked while it is read for the first time
  std::mutex informed_mutex_;               ///< guards the next two
  std::shared_ptr<const Resolver> informed_of_, informed_;  ///< stored_ and, with the compiler's
                                                            ///< identity for explain(), the same
  Once portfolio_once_;
  std::optional<Resolver> portfolio_;  ///< read at the first problem that nothing stored serves
};

}  // namespace tilewise
