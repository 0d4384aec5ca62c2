#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "matmul/corrections.hpp"
#include "matmul/prediction.hpp"
#include "matmul/resolution.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// Whether two problems have the same types and math mode, so that a record of one may serve the
/// other.
bool same_types(const Problem& x, const Problem& y);

/// |log2 m'/m| + |log2 n'/n| + |log2 k'/k| + |log2 b'/b| with b the batch. A size of 0 counts as 1.
double distance_between(const Problem& x, const Problem& y);

/// Logarithms to base 2 of a problem's sizes and alignments, kept to compare one problem with many.
struct LogSizes {
  explicit LogSizes(const Problem& problem);
  double distance(const LogSizes& other) const;  ///< distance_between() the problems
  double alignment_gap(const LogSizes& other) const;

  /// Rows of a product on average, n, k, batch, and how many times as many rows the largest has.
  std::array<double, 5> sizes;
  std::array<double, 3> alignments;
};

/// The device as a value of `autotune --device`.
std::string device_option(const DeviceInfo& device);

/// Loads the corrections for the types of a problem. Called once for each kind of product, at the
/// first prediction.
using CorrectionsSource = std::function<std::optional<Corrections>(const Problem&)>;

/// Maps a problem to a resolution, without input or output except `corrections`. Constructed from
/// the winners of a database; immutable, thread-safe.
class Resolver {
 public:
  /// Leaves out winners of another GPU. Skips quarantined winners, and winners with templates,
  /// parameters or values that this version does not have, with a message in notes(). `compiler`:
  /// the identity of the loaded compiler, or empty; if it is given, a winner with another source
  /// hash is stale. `general`: records that serve problems other than their own, instead of winners
  /// that are specialised on the size of the same problem.
  Resolver(std::vector<Winner> winners, const DeviceInfo& device, std::string compiler = "",
           std::vector<Record> general = {}, CorrectionsSource corrections = {});

  /// Whether the problem has a valid winner of its own.
  bool has_winner(const Problem& problem) const { return exact(problem, {}) != nullptr; }

  /// The exact winner, otherwise the stored candidate that is expected to be fastest, otherwise a
  /// default; always valid for `problem`.
  ///
  /// Candidates are the winners of the same types and mode, of any size, layout and alignment,
  /// whose constraints hold for this problem, but for those that pack an operand, have clusters or
  /// share k where a search for it would not. A kernel that is specialised on its size serves other
  /// sizes by its general form; a template that has only specialised kernels serves its own size
  /// only. At most kCompared candidates, the nearest, are compared. If several records have one
  /// candidate, the nearest by distance_between() counts.
  ///
  /// The expected time is the cost model's for this problem, with retuned launch-time parameters,
  /// times the factor of the Corrections, times the error of that product on the record's own
  /// problem, whose weight decreases with distance. Without corrections it is the model's time,
  /// times the ratio of the record's measured to modelled time. In a tie, or on a device without a
  /// cost model, the nearest record of the same layout wins.
  ///
  /// The default is that of the first template that supports the problem, in the order of
  /// KernelTemplate::default_rank. Throws Error(unsupported) if
  /// nothing is left, with the kinds of products that this device supports.
  Resolution resolve(const Problem& problem, const Conditions& conditions = {}) const;

  /// A candidate that may serve a problem, and the expected time (0 without a cost model).
  struct Expected {
    Candidate candidate;
    double us = 0;
  };
  /// The candidates that are expected to be the fastest, fastest first: at most `count`, without
  /// duplicates.
  std::vector<Expected> expected(const Problem& problem, std::size_t count) const;

  /// The error of such expectations, in words: as assessed for the corrections; otherwise, for the
  /// nearest measured problems of the same types, the time expected without their own record over
  /// the measured time. Empty if fewer than three can be compared. Takes some milliseconds.
  std::string how_far_off(const Problem& problem) const;

  /// The same winners with staleness relative to this compiler.
  Resolver with_compiler(std::string identity) const;

  const std::vector<std::string>& notes() const { return notes_; }

  static constexpr std::size_t kCompared = 48;  ///< candidates
  static constexpr std::size_t kFitted = 8;     ///< candidates whose parameters are retuned

 private:
  /// A winner that may serve a problem, in the form that serves it.
  struct Offer {
    const Winner* winner = nullptr;
    Candidate candidate;
    double expected_us = 0;  ///< 0: there is no cost model
    double model_us = 0;     ///< the cost model's share of it
    double distance = 0;     ///< distance from the record's problem
    std::size_t compared = 0;
    std::size_t samples = 0;  ///< of the corrections; 0: by the record's own measurement
  };
  void add_general(std::vector<Record> general);
  const Winner* exact(const Problem& problem, const Conditions& conditions) const;
  /// At most `count` offers, the one expected to be fastest first. `without_own`: none from a
  /// record of this very problem.
  std::vector<Offer> offers(const Problem& problem, const Conditions& conditions, std::size_t count,
                            bool without_own = false) const;
  Resolution exact_answer(const Problem& problem, const Winner& winner) const;
  Resolution predicted_answer(const Problem& problem, const Offer& offer) const;
  double own_ratio(std::size_t winner) const;
  const Corrections* corrections_for(const Problem& problem) const;
  double residual(std::size_t winner, const Corrections& corrections) const;
  double expect(Offer& offer, const Plan& plan, const Problem& problem, const GivenPackings& given,
                const Corrections* corrections) const;
  void tell_staleness(Resolution& resolution) const;
  Resolution default_answer(const Problem& problem, const Conditions& conditions) const;

  std::vector<Winner> winners_;      // followed by general records, treated like winners
  std::size_t own_ = 0;              // number of winners in front of the general records
  std::vector<Problem> problems_;    // of each winner; contiguous, because all are scanned
  std::vector<LogSizes> logs_;       // of each winner, contiguous too
  std::vector<bool> superseded_;     // winners replaced, for other sizes, by a general record
  std::vector<std::size_t> hashes_;  // hash_of() of each winner's candidate
  std::vector<std::size_t> candidate_numbers_;  // winners with one candidate have one number
  std::size_t candidate_count_ = 0;
  /// For each winner, measured over modelled time of its own problem; 0 until it is first needed.
  /// Threads that compute one at the same time get the same value. Copies have the same winners.
  std::shared_ptr<std::vector<std::atomic<double>>> own_ratios_;
  std::shared_ptr<std::vector<std::atomic<double>>> residuals_;  // the same, with corrections
  struct Learned {
    CorrectionsSource source;
    std::mutex mutex;
    std::map<std::string, std::optional<Corrections>> of_kind;  // by kind_text(); never removed
  };
  std::shared_ptr<Learned> learned_;  // shared by copies
  DeviceInfo device_;
  std::string compiler_;
  std::vector<std::string> notes_;
};

/// The resolution of `stored` if it is exact or a prediction from a near problem (distance 2 or
/// less). Otherwise `portfolio` replaces a default, unless the cost model expects the default in
/// two thirds of the time, and replaces a prediction if it expects a time that is shorter by more
/// than 10%. `portfolio` is called only then and may return null.
Resolution resolve_with_portfolio(const Resolver& stored,
                                  const std::function<const Resolver*()>& portfolio,
                                  const Problem& problem, const Conditions& conditions = {});

}  // namespace tilewise
