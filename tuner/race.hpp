#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tuner/compile_ahead.hpp"
#include "tuner/session.hpp"

namespace tilewise {

/// The end of a search: measures its fastest candidates once more, interleaved; selects and stores
/// the winner, and stores the finalists' images. Not thread-safe.
class Race {
 public:
  /// Takes the finalists from `session.known` and removes those found wrong. Adds its counts,
  /// baselines and failures to those of the search.
  explicit Race(Session& session) : session_(session) {}
  void run();

 private:
  bool run_once();
  std::vector<Built> build_all(const std::vector<Record>& records);
  RaceResult measure(const std::vector<EvaluationRequest>& requests);
  bool measure_again(std::vector<Record>& finalists, const std::vector<Built>& built);
  std::optional<Candidate> to_beat() const;
  void store_winner(const Record& winner, bool raced);
  void note_missing_cost(const std::vector<Record>& racing);
  const Record* winner_of(const std::vector<Record>& finalists, bool raced, bool any_wrong) const;
  enum class Confirmed : std::uint8_t { yes, no, unknown };
  Confirmed confirm_winner(Record& winner, const std::vector<Built>& built);
  void note_unconfirmed(const std::string& why);
  bool forget_wrong(const std::vector<Record>& finalists);
  void keep_images(const std::vector<Record>& records, const std::vector<Built>& built);

  Session& session_;
};

}  // namespace tilewise
