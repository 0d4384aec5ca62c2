#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "matmul/corrections.hpp"
#include "tuner/compile_ahead.hpp"
#include "tuner/faults.hpp"
#include "tuner/search/compile_times.hpp"
#include "tuner/search/strategy.hpp"
#include "tuner/session.hpp"
#include "tuner/stored_measurements.hpp"

namespace tilewise {

/// The record of a candidate with the outcome and the measurement of its evaluation.
Record with_evaluation(Record record, const Evaluation& evaluation);

/// One run of tune(): its steps in the order of tune(). Not thread-safe.
class Tuning {
 public:
  Tuning(const Problem& problem, const TuneOptions& options, TuneContext& context);
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;
  ~Tuning();

  /// Whether an identical search had finished and its winner is still served.
  bool finished_before();
  /// Reads the measurements of earlier runs with the current sources. The strategy observes them,
  /// and nothing is measured twice.
  void recall();
  /// Computes the reference and uploads the operands.
  void prepare();
  /// True until the budget (less the race's share), the evaluation limit or Ctrl-C.
  bool goes_on();
  /// Adds candidates from the strategy to the compile pool until it is full.
  void propose();
  bool nothing_under_way() const;
  /// Takes the builds and evaluations that finish within a moment.
  void step();
  /// Measures the finalists once more, interleaved, and stores the winner. For a specialised winner
  /// it also stores the form that serves other sizes. Stores their images.
  void race();
  TuneResult finish();
  /// Replaces finish() while the error of a step is handled. If the database failed, returns the
  /// winner of the measured candidates, not stored. Rethrows the error if nothing was measured.
  TuneResult finish_unstored(const Error& error);

 private:
  bool still_good(const Search& known, const Record& winner) const;
  void add_known(Record record);
  bool is_current(const Record& record) const;
  std::unique_ptr<Strategy> make_chooser() const;
  double predicted_seconds(const Candidate& candidate) const;  ///< 0: the model has no prediction
  /// Stores the device's facts with its records.
  void store_facts(double power_limit_w);
  void note_faults();
  void rank_predictions();
  Search wanted_search() const;
  double proposing_seconds() const;
  bool expects_no_gain() const;
  /// Adds the candidate to the compile pool, unless it is expected to compile beyond the budget.
  void begin(const Candidate& candidate);
  void note_compile(const Built& built);
  Record record_of(const Built& built) const;
  /// Evaluates the candidate, or gives it to a further device.
  void judge(Built built);
  Evaluation evaluate(const Built& built);
  Evaluation try_evaluate(const Built& built);
  void conclude(const Built& built, const Evaluation& evaluation);
  void commit(Record record);
  void meet_fault(const Candidate& candidate, Faults::Work work, const std::string& why);
  void try_again(const std::vector<Candidate>& candidates);
  void end_sharing();
  void end_compiling();
  void keep_general();

  Session session_;
  std::optional<Corrections> corrections_;  ///< from earlier measurements on this GPU
  std::unique_ptr<Strategy> strategy_;
  BusyClock busy_;
  std::unique_ptr<CompileAhead> ahead_;
  std::optional<Search> search_;
  /// Candidates to propose before the strategy's: TuneOptions::first, the incumbent, and
  /// the shipped one that is expected to be the fastest.
  std::deque<Candidate> first_;
  std::set<Candidate> proposed_first_;
  std::set<Candidate> awaited_;  ///< of these: the search does not end before they are measured
  StaleMeasurements stale_;      ///< with other sources than the current ones
  Faults faults_;
  CompileTimes compile_times_;
  std::map<Candidate, double> expected_;  ///< seconds to compile, of candidates under way
  std::vector<double> compile_errors_;    ///< |expected / measured - 1|
  int late_in_a_row_ = 0;
  std::int64_t proposed_ = 0;
};

}  // namespace tilewise
