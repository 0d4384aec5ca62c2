#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/lock_waits.hpp"
#include "matmul/image_store.hpp"
#include "templates/space/search_space.hpp"
#include "tuner/tuner.hpp"

namespace tilewise {

/// State shared by the search and the race of one run of tune(). Not thread-safe.
struct Session {
  Session(const Problem& problem, const TuneOptions& options, TuneContext& context);

  /// Seconds since construction, without waits for a lock on a database.
  double seconds() const { return context.now() - started; }
  double lock_seconds() const { return lock_wait_seconds() - locked_before_; }
  bool stopped() const { return context.stop && context.stop->load(); }
  const Record* best() const;  ///< of `known`; null when empty
  double best_us() const;      ///< 0 when there is none
  /// The template of a candidate, see template_of().
  const KernelTemplate* kernel_of(const Candidate& candidate) const;
  Environment environment() const;
  /// A line for a rejected record's detail; empty without TuneOptions::reproduce.
  std::string how_to_reproduce(const Candidate& candidate) const;
  /// Stores the outcome of a later evaluation of a record's candidate.
  void note_outcome(Record& record, const Evaluation& found);
  void report(const std::string& phase, const Record* last = nullptr) const;

  const Problem problem;
  const TuneOptions options;
  TuneContext& context;
  const double started;
  const DeviceInfo device;
  const std::string gpu;
  const SearchSpace space;
  const ImageStore store;
  std::shared_ptr<const Reference> reference;       ///< null before the evaluator has begun
  std::optional<Candidate> incumbent;               ///< the stored winner, if it can be built here
  Objective incumbent_objective = Objective::time;  ///< objective that chose the incumbent
  std::vector<Record> known;                        ///< ok records, of this run and recalled
  TuneResult result;

 private:
  const double locked_before_ = lock_wait_seconds();
};

}  // namespace tilewise
