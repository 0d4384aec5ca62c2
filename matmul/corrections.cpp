#include "matmul/corrections.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <utility>

#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/hash.hpp"

namespace tilewise {
namespace {

using Json = nlohmann::ordered_json;

const double kMost = std::log(5.0);
constexpr BoostedTrees::Options kTrees{
    .trees = 240, .depth = 5, .least_rows = 12, .row_share = 0.8, .feature_share = 0.5};
constexpr int kSizeFeatures = 13;
constexpr int kForm = 2;  // of the bytes of the trees

/// The logarithm to base 2, in steps of 1/8.
int eighths(double value) {
  return static_cast<int>(std::lround(8 * std::log2(std::max(value, 1e-3))));
}

/// The features as whole numbers, as the trees require: features of the problem and the estimate,
/// then all parameters of the template in the order of their names.
std::vector<int> features_of(const Candidate& candidate, const Problem& p, const Cost& cost) {
  double waves = 0;
  for (const StepCost& step : cost.steps)
    if (step.role == StepRole::multiply) waves = step.waves;
  const auto size = [](std::int64_t value) {
    return eighths(static_cast<double>(std::max<std::int64_t>(value, 1)));
  };
  std::vector<int> features = {eighths(std::max(mean_rows(p), 1.0)),
                               size(p.n),
                               eighths(std::max(mean_depth(p), 1.0)),
                               size(p.batch),
                               p.a.alignment,
                               p.b.alignment,
                               p.c.alignment,
                               p.a.transposed,
                               p.b.transposed,
                               eighths(cost.seconds * 1e6),
                               eighths(waves),
                               static_cast<int>(cost.steps.size()),
                               static_cast<int>(cost.limit)};
  const auto add = [&features](const Configuration& configuration) {
    for (const auto& [name, value] : configuration.values()) features.push_back(value);
  };
  const KernelTemplate& kernel = find_template(candidate.kernel_template);
  const bool whole = candidate.configuration.values().size() == kernel.parameters.size();
  whole ? add(candidate.configuration) : add(with_added(kernel, candidate.configuration));
  return features;
}

/// Hash of a few estimates of a template for products of this kind on a GPU with this key. It
/// changes with the model and with the plans, but not with the clocks of one board.
std::string fingerprint(const KernelTemplate& kernel, Problem problem, const DeviceInfo& of) {
  const DeviceInfo device = nominal_from_key(gpu_key(of));
  std::string text;
  for (const std::int64_t size : {64, 1000, 4096}) {
    problem.m = problem.n = problem.k = size;
    problem.batch = 1;
    // The corrections of a kind are for all its epilogues and orders.
    problem.epilogue = nullptr;
    problem.order = nullptr;
    set_grouping(problem, "");
    set_layout(problem, Layout::nn);
    set_alignment(problem, natural_alignment(problem));
    if (!kernel.supports(problem, device)) continue;
    const Configuration configuration = kernel.default_configuration(problem, device);
    if (!rejection(kernel, problem, configuration, device).empty()) continue;
    const Cost cost = estimate(kernel.plan(problem, configuration, device), device);
    text += std::to_string(std::llround(cost.seconds * 1e12)) + "\n";
  }
  return hash_text(text);
}

/// Identifies the form, the parameters, the revision and the estimates of a template's trees.
Json identity_of(const KernelTemplate& kernel, const std::string& estimates) {
  Json names = Json::array();
  for (const Parameter& parameter : kernel.parameters) names.push_back(parameter.name);
  std::sort(names.begin(), names.end());
  return {{"form", kForm},
          {"revision", launch_revision(kernel)},
          {"parameters", std::move(names)},
          {"estimates", estimates}};
}

}  // namespace

Corrections Corrections::fit(std::span<const Sample> samples, const DeviceInfo& device) {
  Corrections corrections;
  if (samples.empty() || !can_estimate(device)) return corrections;
  std::set<Problem> problems;
  std::map<std::string, std::vector<BoostedTrees::Row>> rows;
  for (const Sample& sample : samples) {
    const KernelTemplate* kernel = known_template(sample.candidate.kernel_template);
    if (!(sample.us > 0) || !kernel ||
        !rejection(*kernel, sample.problem, sample.candidate.configuration, device).empty())
      continue;
    const Cost cost = estimate(plan_of(sample.candidate, sample.problem, device), device);
    if (!(cost.seconds > 0)) continue;
    problems.insert(sample.problem);
    const double error = std::log(sample.us * 1e-6 / cost.seconds);
    ++corrections.samples_;
    rows[kernel->name].push_back(
        {features_of(sample.candidate, sample.problem, cost), std::clamp(error, -kMost, kMost), 1});
  }
  if (problems.size() < kLeastProblems) return corrections;
  std::mt19937_64 generator(1);
  for (const auto& [name, of_template] : rows) {
    if (of_template.size() < kLeastSamples) continue;
    OfTemplate& fitted = corrections.of_template_[name];
    fitted.trees.fit(of_template, generator, kTrees);
    fitted.estimates = fingerprint(find_template(name), samples.front().problem, device);
  }
  return corrections;
}

Corrections::Accuracy Corrections::assess(std::span<const Sample> samples,
                                          const DeviceInfo& device) {
  constexpr std::size_t kFolds = 3;
  // A problem in an order and in any order is one: a fold must not be predicted from the other.
  const auto in_any_order = [](Problem problem) {
    problem.order = nullptr;
    return problem;
  };
  std::map<Problem, std::size_t> folds;
  for (const Sample& sample : samples)
    folds.emplace(in_any_order(sample.problem), folds.size() % kFolds);
  Accuracy accuracy;
  std::vector<double> factors;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<Sample> others;
    for (const Sample& sample : samples)
      if (folds.at(in_any_order(sample.problem)) != fold) others.push_back(sample);
    const Corrections fitted = fit(others, device);
    if (fitted.empty()) return {};
    for (const Sample& sample : samples) {
      const KernelTemplate* kernel = known_template(sample.candidate.kernel_template);
      if (folds.at(in_any_order(sample.problem)) != fold || !kernel ||
          !rejection(*kernel, sample.problem, sample.candidate.configuration, device).empty())
        continue;
      const Cost cost = estimate(plan_of(sample.candidate, sample.problem, device), device);
      const double expected =
          cost.seconds * 1e6 * fitted.factor(sample.candidate, sample.problem, cost);
      if (expected > 0 && sample.us > 0)
        factors.push_back(std::max(expected / sample.us, sample.us / expected));
    }
  }
  if (factors.empty()) return {};
  std::sort(factors.begin(), factors.end());
  return {folds.size(), factors[factors.size() / 2], factors[factors.size() * 9 / 10]};
}

bool Corrections::has(const std::string& kernel_template) const {
  return of_template_.contains(kernel_template);
}

double Corrections::factor(const Candidate& candidate, const Problem& problem,
                           const Cost& cost) const {
  const auto fitted = of_template_.find(candidate.kernel_template);
  if (fitted == of_template_.end() || !(cost.seconds > 0)) return 1;
  return std::exp(
      std::clamp(fitted->second.trees(features_of(candidate, problem, cost)), -kMost, kMost));
}

std::vector<std::uint8_t> Corrections::to_bytes() const {
  Json json = {{"samples", samples_},
               {"accuracy", {accuracy_.problems, accuracy_.median, accuracy_.ninth_decile}},
               {"templates", Json::object()}};
  for (const auto& [name, fitted] : of_template_) {
    Json& one = json["templates"][name] = identity_of(find_template(name), fitted.estimates);
    one["trees"] = Json::binary(fitted.trees.to_bytes());
  }
  return Json::to_cbor(json);
}

Corrections Corrections::from_bytes(std::span<const std::uint8_t> bytes, const Problem& kind,
                                    const DeviceInfo& device) {
  Corrections corrections;
  try {
    const Json json = Json::from_cbor(bytes);
    json.at("samples").get_to(corrections.samples_);
    const Json& accuracy = json.at("accuracy");
    accuracy.at(0).get_to(corrections.accuracy_.problems);
    accuracy.at(1).get_to(corrections.accuracy_.median);
    accuracy.at(2).get_to(corrections.accuracy_.ninth_decile);
    for (const auto& [name, one] : json.at("templates").items()) {
      const KernelTemplate* kernel = known_template(name);
      if (!kernel) continue;
      const std::string estimates = fingerprint(*kernel, kind, device);
      const Json identity = identity_of(*kernel, estimates);
      const std::vector<std::uint8_t>& trees = one.at("trees").get_binary();
      const bool equal = std::all_of(
          identity.items().begin(), identity.items().end(), [&one = one](const auto& field) {
            return one.contains(field.key()) && one.at(field.key()) == field.value();
          });
      if (!equal) {
        corrections.whole_ = false;
        corrections.accuracy_ = {};
        continue;
      }
      corrections.of_template_[name] = {
          BoostedTrees::from_bytes(trees, kSizeFeatures + kernel->parameters.size()), estimates};
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::invalid_argument, std::string("bad corrections: ") + error.what());
  }
  return corrections;
}

}  // namespace tilewise
