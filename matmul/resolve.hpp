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

/// Same types and math mode: a record of one problem may serve the other.
bool same_types(const Problem& x, const Problem& y);

/// |log2 m'/m| + |log2 n'/n| + |log2 k'/k| + |log2 b'/b|, b being the batch. A size of 0 counts
/// as 1.
double distance_between(const Problem& x, const Problem& y);

/// Logarithms to base 2 of a problem's sizes and alignments: one problem is compared with many.
struct LogSizes {
  explicit LogSizes(const Problem& problem);
  double distance(const LogSizes& other) const;  ///< distance_between() the problems
  double alignment_gap(const LogSizes& other) const;

  std::array<double, 4> sizes;  ///< m, n, k, batch
  std::array<double, 3> alignments;
};

/// The device as `autotune --device` takes it.
std::string device_option(const DeviceInfo& device);

/// Corrections for the types of a problem, read where they are kept. Called once for each kind of
/// products, at the first prediction.
using CorrectionsSource = std::function<std::optional<Corrections>(const Problem&)>;

/// Problem -> resolution, without input or output but `corrections`. Constructed from a database's
/// winners; immutable, thread-safe.
class Resolver {
 public:
  /// Winners of another GPU are left out. Quarantined winners and those of other templates,
  /// parameters or values than this version has are skipped with a message in notes(). `compiler`:
  /// the identity of the loaded compiler, or empty; with it, a winner whose source hash differs is
  /// called stale. `general`: records that serve problems other than their own, in place of
  /// winners that are specialised on the size of the same problem.
  Resolver(std::vector<Winner> winners, const DeviceInfo& device, std::string compiler = "",
           std::vector<Record> general = {}, CorrectionsSource corrections = {});

  /// Whether the problem has a winner of its own that is valid.
  bool has_winner(const Problem& problem) const { return exact(problem, {}) != nullptr; }

  /// The exact winner, else the one that is expected to be fastest, else a default; always valid
  /// for `problem`. Winners of the same types and mode, of any size, layout and alignment, are
  /// candidates where their constraints hold for this problem. A kernel that is specialised on its
  /// size serves other sizes by its form that is not; a template whose kernels all are specialised
  /// serves its own size only. The expected time is the cost model's for this problem, with
  /// parameters that follow from the size chosen anew, times the factor of the Corrections and, the
  /// nearer the more, the factor by which the record's own problem differs from that. Without
  /// corrections it is times the ratio of the record's measured time to the model's. Of several
  /// records of one candidate the nearest by
  /// distance_between() counts. At most kCompared candidates are compared, the nearest. Ties, and a
  /// device without a cost model: the nearest of the same layout. Default: that of the first
  /// template that supports the problem: `mma` (tensor cores, where the device has them for it),
  /// `simt`, then the catalog's order.
  /// Throws Error(unsupported) when nothing is left, with the kinds of products that this device
  /// supports.
  Resolution resolve(const Problem& problem, const Conditions& conditions = {}) const;

  /// A candidate that may serve a problem, and the expected time (0 without a cost model).
  struct Expected {
    Candidate candidate;
    double us = 0;
  };
  /// The candidates that are expected to be the fastest, fastest first: at most `count`, none
  /// twice.
  std::vector<Expected> expected(const Problem& problem, std::size_t count) const;

  /// How far such expectations are off: as the corrections were assessed; else for the nearest
  /// measured problems of the same types, the time that is expected without their own record, over
  /// the measured time. In words; empty where fewer than three can be compared. Takes some
  /// milliseconds.
  std::string how_far_off(const Problem& problem) const;

  /// The same winners, with staleness by this compiler.
  Resolver with_compiler(std::string identity) const;

  const std::vector<std::string>& notes() const { return notes_; }

  static constexpr std::size_t kCompared = 48;  ///< candidates
  static constexpr std::size_t kFitted = 8;     ///< of them, whose parameters are chosen anew

 private:
  /// A winner that may serve a problem, in the form in which it does.
  struct Offer {
    const Winner* winner = nullptr;
    Candidate candidate;
    double expected_us = 0;  ///< 0: there is no cost model
    double model_us = 0;     ///< the cost model's share of it
    double distance = 0;     ///< from the record's problem
    std::size_t compared = 0;
    std::size_t samples = 0;  ///< of the corrections; 0: by the record's own measurement
  };
  void add_general(std::vector<Record> general);
  const Winner* exact(const Problem& problem, const Conditions& conditions) const;
  /// At most `count` offers, those expected to be the fastest first; with `without_own`, none by a
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

  std::vector<Winner> winners_;      // then general records, as if they were winners
  std::size_t own_ = 0;              // the number of winners before them
  std::vector<Problem> problems_;    // of each winner, close together: all are looked at
  std::vector<LogSizes> logs_;       // likewise
  std::vector<bool> superseded_;     // of each winner: for other sizes, by a general record
  std::vector<std::size_t> hashes_;  // hash_of() each winner's candidate
  std::vector<std::size_t> candidate_numbers_;  // winners of one candidate have one number
  std::size_t candidate_count_ = 0;
  /// Of each winner: measured over modelled time of its own problem, or 0 until it is first needed.
  /// Threads that compute one at the same time compute the same. Copies have the same winners.
  std::shared_ptr<std::vector<std::atomic<double>>> own_ratios_;
  std::shared_ptr<std::vector<std::atomic<double>>> residuals_;  // likewise, with corrections
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

/// The answer of `stored`, where it is exact or a prediction from a near problem (a distance of at
/// most 2). Else `portfolio`, which is called only then and may return null, answers instead of a
/// default, and instead of a prediction where it expects a time that is shorter by more than 10%.
Resolution resolve(const Resolver& stored, const std::function<const Resolver*()>& portfolio,
                   const Problem& problem, const Conditions& conditions = {});

}  // namespace tilewise
