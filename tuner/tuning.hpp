#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "tuner/compile_ahead.hpp"
#include "tuner/faults.hpp"
#include "tuner/search/strategy.hpp"
#include "tuner/session.hpp"
#include "tuner/stored_measurements.hpp"

namespace tilewise {

/// One run of tune(): its steps, in the order tune() takes them. Not thread-safe.
class Tuning {
 public:
  Tuning(const Problem& problem, const TuneOptions& options, TuneContext& context);

  /// An identical search had finished, and its winner is still served.
  bool finished_before();
  /// What earlier runs measured of today's sources: the strategy learns of it, nothing is measured
  /// twice.
  void recall();
  /// Reference and operands.
  void prepare();
  /// Until the budget (less the race's share), the limit or Ctrl-C.
  bool goes_on();
  /// Candidates from the strategy to the compiler threads, until these have enough.
  void propose();
  bool nothing_under_way() const { return ahead_->under_way() == 0; }
  /// Nothing when none became ready for a moment.
  std::optional<Built> next_built();
  /// Evaluates, commits the record, tells the strategy.
  void judge(Built built);
  /// Finalists once more, side by side; names the winner and keeps their images.
  void race();
  TuneResult finish();
  /// Instead of finish(), while the error of a step is handled: where the database failed, the
  /// winner of what was measured, not stored. Throws the error again where nothing was measured.
  TuneResult finish_unstored(const Error& error);

 private:
  bool still_good(const Search& known, const Record& winner) const;
  void add_known(Record record);
  bool is_current(const Record& record) const;
  std::unique_ptr<Strategy> make_chooser() const;
  double predicted_seconds(const Candidate& candidate) const;  ///< 0: the model cannot tell
  void note_faults();
  void rank_predictions();
  Search wanted_search() const;
  Record record_of(const Built& built) const;
  Evaluation evaluate(const Built& built);
  void commit(Record record);
  void meet_fault(const Candidate& candidate, Faults::Work work, const std::string& why);
  void try_again(const std::vector<Candidate>& candidates);
  void end_compiling();

  Session session_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<CompileAhead> ahead_;
  std::optional<Search> search_;
  std::optional<Candidate> first_;  ///< the incumbent, while it waits to be measured first
  StaleMeasurements stale_;         ///< of other sources than today's
  Faults faults_;
  std::int64_t proposed_ = 0;
};

}  // namespace tilewise
