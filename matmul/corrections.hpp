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

/// Corrections of the cost model's errors, fitted to measurements of one kind of product on one
/// GPU. Each kernel template has one ensemble of boosted trees; it maps sizes, layout, alignment,
/// parameters and the model's estimate to the logarithm of measured over modelled time. Immutable;
/// thread-safe.
class Corrections {
 public:
  struct Sample {
    Problem problem;  ///< all samples have the same types
    Candidate candidate;
    double us = 0;  ///< time measured on the device
  };
  /// Fits corrections to the samples, in half a second for 10,000. Leaves out samples that this
  /// version cannot plan on the device, and templates with fewer than kLeastSamples. The result has
  /// no templates if the device has no cost model or if the samples have fewer than kLeastProblems
  /// problems. Deterministic.
  static Corrections fit(std::span<const Sample> samples, const DeviceInfo& device);
  static constexpr std::size_t kLeastSamples = 40, kLeastProblems = 8;

  /// The error of expected times for problems that were not measured, as a factor up or down.
  struct Accuracy {
    std::size_t problems = 0;  ///< 0: not assessed
    double median = 1, ninth_decile = 1;
    bool operator==(const Accuracy&) const = default;
  };
  /// Cross-validation in three folds: each is compared with a fit to the other two.
  static Accuracy assess(std::span<const Sample> samples, const DeviceInfo& device);
  void set_accuracy(const Accuracy& accuracy) { accuracy_ = accuracy; }
  const Accuracy& accuracy() const { return accuracy_; }

  bool empty() const { return of_template_.empty(); }
  /// False where from_bytes() left out a template of this version.
  bool whole() const { return whole_; }
  /// Of the fit, those of templates that were left out included.
  std::size_t samples() const { return samples_; }
  bool has(const std::string& kernel_template) const;

  /// The expected ratio of measured to modelled time of a valid candidate with this estimate, from
  /// 1/5 to 5. It is 1 if the template has no samples.
  double factor(const Candidate& candidate, const Problem& problem, const Cost& cost) const;

  /// Serialises the corrections for the database.
  std::vector<std::uint8_t> to_bytes() const;
  /// The inverse of to_bytes(). Leaves out templates whose launch revision, parameters or estimates
  /// by the cost model have changed; what is left has no accuracy then. Throws
  /// Error(invalid_argument) for other bytes.
  static Corrections from_bytes(std::span<const std::uint8_t> bytes, const Problem& kind,
                                const DeviceInfo& device);

 private:
  struct OfTemplate {
    BoostedTrees trees;
    std::string estimates;  ///< their fingerprint
  };
  std::size_t samples_ = 0;
  bool whole_ = true;
  Accuracy accuracy_;
  std::map<std::string, OfTemplate> of_template_;
};

}  // namespace tilewise
