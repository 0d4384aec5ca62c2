#pragma once
#include <vector>

#include "tuner/compile_ahead.hpp"
#include "tuner/session.hpp"

namespace tilewise {

/// The end of a search: its fastest candidates are measured once more, side by side; the winner is
/// selected and served from then on, and the images of the finalists are kept. Not thread-safe.
class Race {
 public:
  /// Takes the finalists from `session.known`; a finalist found wrong leaves it. Counts, baselines
  /// and failures go where the search's go.
  explicit Race(Session& session) : session_(session) {}
  void run();

 private:
  bool run_once();
  std::vector<Built> build_all(const std::vector<Record>& records);
  RaceResult measure(const std::vector<EvaluationRequest>& requests);
  bool measure_again(std::vector<Record>& finalists, const std::vector<Built>& built);
  const Record* winner_of(const std::vector<Record>& finalists, bool raced, bool any_wrong) const;
  bool forget_wrong(const std::vector<Record>& finalists);
  void keep_images(const std::vector<Record>& records, const std::vector<Built>& built);

  Session& session_;
};

}  // namespace tilewise
