#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "matmul/boosted_trees.hpp"
#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// What measurements on one GPU say of the cost model's errors, for one kind of products: boosted
/// trees, one ensemble for each kernel template, from sizes, layout, alignment, parameters and the
/// model's estimate to the logarithm of measured over modelled time. Immutable; thread-safe.
class Corrections {
 public:
  struct Sample {
    Problem problem;  ///< all of the same types
    Candidate candidate;
    double us = 0;  ///< as measured on the device
  };
  /// Samples that this version cannot plan on the device are left out, and so are templates with
  /// fewer than kLeastSamples. Has no templates where the device has no cost model, or where the
  /// samples are of fewer than kLeastProblems problems. Deterministic. 10,000 samples take
  /// half a second.
  static Corrections fit(std::span<const Sample> samples, const DeviceInfo& device);
  static constexpr std::size_t kLeastSamples = 40, kLeastProblems = 8;

  /// How far expectations are off for problems that were not measured: by a factor, up or down.
  struct Accuracy {
    std::size_t problems = 0;  ///< 0: not assessed
    double median = 1, ninth_decile = 1;
    bool operator==(const Accuracy&) const = default;
  };
  /// By cross-validation: fits to two thirds of the problems, compared with the other third.
  static Accuracy assess(std::span<const Sample> samples, const DeviceInfo& device);
  void set_accuracy(const Accuracy& accuracy) { accuracy_ = accuracy; }
  const Accuracy& accuracy() const { return accuracy_; }

  bool empty() const { return of_template_.empty(); }
  std::size_t samples() const { return samples_; }
  bool has(const std::string& kernel_template) const;

  /// Measured over modelled time that is expected of a valid candidate with this estimate; within
  /// 1/5 and 5. 1 where there are no samples of its template.
  double factor(const Candidate& candidate, const Problem& problem, const Cost& cost) const;

  /// For the database.
  std::vector<std::uint8_t> to_bytes() const;
  /// The inverse. Templates are left out whose launch revision or parameters have changed; all are
  /// where the cost model's estimates have. Throws Error(invalid_argument) for other bytes.
  static Corrections from_bytes(std::span<const std::uint8_t> bytes, const Problem& kind,
                                const DeviceInfo& device);

 private:
  std::string model_;  ///< fingerprint of the cost model's estimates
  std::size_t samples_ = 0;
  Accuracy accuracy_;
  std::map<std::string, BoostedTrees> of_template_;
};

}  // namespace tilewise
