#include "matmul/resolve.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

/// Why this version cannot serve a winner; empty when it can.
std::string unusable(const Winner& winner) {
  const Candidate& candidate = winner.record.candidate;
  if (!winner.quarantined.empty()) return "is quarantined: " + winner.quarantined;
  const KernelTemplate* kernel = known_template(candidate.kernel_template);
  if (!kernel) return "is of a kernel template that this version has not";
  if (const std::string bad = bad_values(*kernel, candidate.configuration); !bad.empty())
    return "has a configuration that this version has not: " + bad + "; tune again";
  return "";
}

/// Fills in the cost model's prediction and returns it as text; empty without a cost model.
std::string predict(Resolution& resolution, const Problem& problem, const DeviceInfo& device) {
  const Cost cost = cost_of(resolution.candidate, problem, device);
  resolution.predicted_us = resolution.model_us = cost.seconds * 1e6;
  resolution.limited_by = cost.seconds > 0 ? to_string(cost.limit) : "";
  return to_string(cost);
}

/// "nn 1024x1024x1024 f32".
std::string short_text(const Problem& problem) {
  std::string text = std::string(to_string(layout_of(problem))) + " " + size_text(problem) + " " +
                     kind_text(problem);
  if (problem.batch != 1) text += " batch " + std::to_string(problem.batch);
  if (is_grouped(problem)) text += " grouped by " + grouping_text(problem);
  if (problem.epilogue) text += " with the epilogue " + epilogue_text(problem);
  if (problem.order) text += " in the order " + order_text(problem);
  return text;
}

/// "measured on this GPU for nn 1024x1024x1024 f32 on 2026-11-21: 41.2 us (52.1 TFLOP/s)".
std::string measured_text(const Record& record) {
  std::string text = "measured on this GPU for ";
  if (record.origin == Origin::imported)
    text = "measured on another machine (" + record.environment.host + ") for ";
  if (record.origin == Origin::shipped)
    text = std::string(record.environment.date.empty() ? "of the portfolio that ships"
                                                       : "of the bundle") +
           ", measured on " + record.environment.host + " for ";
  text += short_text(record.problem);
  if (!record.environment.date.empty()) text += " on " + record.environment.date.substr(0, 10);
  if (record.measurement) {
    const double us = record.measurement->median_us;
    text += ": " + in_digits(us, 4) + " us (" + in_digits(tflops_of(record.problem, us), 3) +
            " TFLOP/s)";
  }
  return text;
}

std::string tune_command(const Problem& problem, const DeviceInfo& device) {
  // The first digits of a UUID name a device independently of its index.
  std::string name = device_option(device);
  if (name == device.uuid) name = name.substr(0, 12);
  return "autotune --device " + name + tune_options(problem);
}

/// The kinds of products that the device supports: "f32, f32 by tf32, f16".
std::string kinds_done(Problem problem, const DeviceInfo& device) {
  std::string kinds;
  for (const ProductKind& kind : product_kinds()) {
    set_types(problem, kind);
    const auto can = [&](const KernelTemplate& kernel) { return kernel.supports(problem, device); };
    if (std::any_of(catalog().begin(), catalog().end(), can)) append(kinds, kind_text(problem));
  }
  return kinds;
}

/// Why a record's measurement no longer describes its candidate; empty if it still does.
std::string staleness(const Record& record, const DeviceInfo& device, const std::string& compiler) {
  const KernelTemplate& kernel = find_template(record.candidate.kernel_template);
  const std::string revision = launch_revision(kernel);
  if (record.launch_revision != revision)
    return "measured with launch revision '" + record.launch_revision + "', this version has '" +
           revision + "' and must compile it";
  if (compiler.empty() || record.source_hash.empty()) return "";
  if (!rejection(kernel, record.problem, record.candidate.configuration, device).empty())
    return "its configuration is no longer valid for the sizes it was measured with";
  const Plan plan = plan_of(record.candidate, record.problem, device);
  const LaunchStep* multiply = multiply_step(plan);
  if (multiply && source_hash(multiply->kernel, compiler) != record.source_hash)
    return "the kernel's source or the compiler has changed since";
  return "";
}

double log_of(std::int64_t x) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(x, 1)));
}

}  // namespace

std::string device_option(const DeviceInfo& device) {
  if (device.target == default_host_target()) return "host";
  if (device.target.host) return to_string(device.target);
  return device.uuid.empty() ? "0" : device.uuid;
}

bool same_types(const Problem& x, const Problem& y) {
  return x.a.type == y.a.type && x.b.type == y.b.type && x.c.type == y.c.type &&
         x.accumulator == y.accumulator && x.math == y.math;
}

Resolver::Resolver(std::vector<Winner> winners, const DeviceInfo& device, std::string compiler,
                   std::vector<Record> general, CorrectionsSource corrections)
    : learned_(std::make_shared<Learned>()), device_(device), compiler_(std::move(compiler)) {
  learned_->source = std::move(corrections);
  std::vector<std::pair<std::string, int>> reasons;  // of notes_, and numbers of more winners
  for (Winner& winner : winners) {
    if (winner.record.gpu != gpu_key(device)) continue;
    const std::string why_not = unusable(winner);
    if (why_not.empty()) {
      winners_.push_back(std::move(winner));
      continue;
    }
    const std::string reason = winner.record.candidate.kernel_template + why_not;
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& other) { return other.first == reason; });
    if (known != reasons.end()) {
      ++known->second;
      continue;
    }
    reasons.emplace_back(reason, 0);
    notes_.push_back("the winner for " + to_string(winner.record.problem) + " (record " +
                     std::to_string(winner.record.id) + ", " +
                     winner.record.candidate.kernel_template + ") is not served: it " + why_not);
  }
  for (std::size_t i = 0; i < reasons.size(); ++i)
    if (reasons[i].second > 0)
      notes_[i] += " (and " + std::to_string(reasons[i].second) + " more, for the same reason)";
  add_general(std::move(general));
}

void Resolver::add_general(std::vector<Record> general) {
  own_ = winners_.size();
  std::set<Problem> problems;
  for (Record& record : general) {
    Winner as_winner{std::move(record), "", ""};
    if (as_winner.record.gpu != gpu_key(device_) || !unusable(as_winner).empty()) continue;
    problems.insert(as_winner.record.problem);
    winners_.push_back(std::move(as_winner));
  }
  for (std::size_t i = 0; i < winners_.size(); ++i) {
    const Candidate& candidate = winners_[i].record.candidate;
    const std::string& specialises = find_template(candidate.kernel_template).specialises;
    superseded_.push_back(i < own_ && !specialises.empty() &&
                          candidate.configuration.at(specialises) != 0 &&
                          problems.contains(winners_[i].record.problem));
  }
  std::unordered_map<std::size_t, std::size_t> numbers;  // number of a candidate by its hash
  for (const Winner& winner : winners_) {
    problems_.push_back(winner.record.problem);
    logs_.emplace_back(winner.record.problem);
    hashes_.push_back(hash_of(winner.record.candidate));
    // Kernels that serve one size each are not matched by their configurations.
    const bool one_size = find_template(winner.record.candidate.kernel_template).size_specialised;
    const auto known = one_size ? numbers.end() : numbers.find(hashes_.back());
    candidate_numbers_.push_back(known == numbers.end() ? candidate_count_ : known->second);
    if (known != numbers.end()) continue;
    if (!one_size) numbers.emplace(hashes_.back(), candidate_count_);
    ++candidate_count_;
  }
  own_ratios_ = std::make_shared<std::vector<std::atomic<double>>>(winners_.size());
  residuals_ = std::make_shared<std::vector<std::atomic<double>>>(winners_.size());
}

Resolver Resolver::with_compiler(std::string identity) const {
  Resolver other = *this;
  other.compiler_ = std::move(identity);
  return other;
}

Resolution Resolver::resolve(const Problem& problem, const Conditions& conditions) const {
  if (const Winner* winner = exact(problem, conditions)) return exact_answer(problem, *winner);
  const std::vector<Offer> best = offers(problem, conditions, kFitted);
  return best.empty() ? default_answer(problem, conditions)
                      : predicted_answer(problem, best.front());
}

const Winner* Resolver::exact(const Problem& problem, const Conditions& conditions) const {
  for (std::size_t i = 0; i < own_; ++i) {
    if (problems_[i] != problem) continue;
    const Winner& winner = winners_[i];
    const Candidate& candidate = winner.record.candidate;
    const KernelTemplate& kernel = find_template(candidate.kernel_template);
    if (rejection(kernel, problem, candidate.configuration, device_).empty() &&
        !is_ruled_out(conditions, candidate, problem, device_))
      return &winner;
  }
  return nullptr;
}

std::string Resolver::how_far_off(const Problem& problem) const {
  if (const Corrections* corrections = corrections_for(problem);
      corrections && corrections->accuracy().problems > 0)
    return "for problems that were not measured, such expectations are off by a factor of " +
           in_decimals(corrections->accuracy().median, 2) + " in the median and " +
           in_decimals(corrections->accuracy().ninth_decile, 2) + " in the worst tenth" +
           " (cross-validation over " + std::to_string(corrections->accuracy().problems) +
           " problems)";
  constexpr std::size_t kNearest = 16, kLeast = 3;
  std::vector<std::pair<double, std::size_t>> near;
  for (std::size_t i = 0; i < own_; ++i)
    if (same_types(winners_[i].record.problem, problem) && winners_[i].record.measurement)
      near.emplace_back(distance_between(winners_[i].record.problem, problem), i);
  std::sort(near.begin(), near.end());
  near.resize(std::min(near.size(), kNearest));
  std::vector<double> factors;  // error of each expectation, 1 or more, in either direction
  for (const auto& [distance, i] : near) {
    const Record& record = winners_[i].record;
    const std::vector<Offer> best = offers(record.problem, {}, kFitted, true);
    if (best.empty() || !(best.front().expected_us > 0)) continue;
    const double ratio = best.front().expected_us / record.measurement->median_us;
    factors.push_back(std::max(ratio, 1 / ratio));
  }
  if (factors.size() < kLeast) return "";
  std::sort(factors.begin(), factors.end());
  return "for the " + std::to_string(factors.size()) +
         " nearest measured problems, what is expected without their own records is off by a "
         "factor "
         "of " +
         in_decimals(factors[factors.size() / 2], 2) + " in the median and " +
         in_decimals(factors.back(), 2) + " at most";
}

void Resolver::tell_staleness(Resolution& resolution) const {
  const std::string stale = staleness(*resolution.record, device_, compiler_);
  resolution.stale = !stale.empty();
  if (resolution.stale) resolution.why += "; stale: " + stale;
}

Resolution Resolver::exact_answer(const Problem& problem, const Winner& winner) const {
  Resolution resolution;
  resolution.kind = MatchKind::exact;
  resolution.candidate = winner.record.candidate;
  resolution.record = winner.record;
  resolution.why = measured_text(winner.record);
  const std::string expected = predict(resolution, problem, device_);
  if (!expected.empty()) resolution.why += "; the cost model expects " + expected;
  tell_staleness(resolution);
  return resolution;
}

Resolution Resolver::predicted_answer(const Problem& problem, const Offer& offer) const {
  const Record& record = offer.winner->record;
  const std::string stored = std::to_string(offer.compared) + " stored that can serve this";
  Resolution resolution;
  resolution.kind = MatchKind::predicted;
  resolution.candidate = offer.candidate;
  resolution.distance = distance_between(record.problem, problem);
  resolution.record = record;
  const std::string model = predict(resolution, problem, device_);
  if (offer.model_us > 0) {
    resolution.predicted_us = offer.expected_us;
    resolution.why = "expected to be the fastest of " + stored + ": " +
                     in_digits(offer.expected_us, 4) + " us (the cost model's " + model +
                     ", times " + in_decimals(offer.expected_us / offer.model_us, 2) +
                     (offer.samples > 0
                          ? " as " + std::to_string(offer.samples) + " measurements on this GPU say"
                          : " as measured for the record's own problem") +
                     "); ";
  } else {
    resolution.why = "the nearest of " + stored + "; ";
  }
  resolution.why += measured_text(record) + ", at distance " + in_decimals(resolution.distance, 2) +
                    " in log2 of the sizes";
  if (alignment_of(record.problem) != alignment_of(problem))
    resolution.why += ", tuned for alignment " + alignment_text(alignment_of(record.problem)) +
                      " where this has " + alignment_text(alignment_of(problem));
  tell_staleness(resolution);
  return resolution;
}

Resolution Resolver::default_answer(const Problem& problem, const Conditions& conditions) const {
  for (const KernelTemplate* kernel : by_default_rank(problem)) {
    std::optional<Configuration> usual = default_for(*kernel, problem, device_);
    if (!usual) continue;
    Resolution resolution;
    resolution.candidate = {kernel->name, *std::move(usual)};
    if (is_ruled_out(conditions, resolution.candidate, problem, device_)) continue;
    const std::string expected = predict(resolution, problem, device_);
    resolution.why = "nothing stored for " + short_text(problem) + " serves it on this GPU, so " +
                     kernel->name + "'s default does" +
                     (expected.empty() ? "" : " (the cost model expects " + expected + ")") +
                     "; to tune it: " + tune_command(problem, device_);
    return resolution;
  }
  const std::string what = to_string(problem) + " on " + device_.name;
  if (!conditions.refused.empty())
    throw Error(ErrorKind::unsupported, "every kernel failed that does " + what);
  if (problem.order)
    throw Error(ErrorKind::unsupported,
                "no kernel adds in the order " + order_text(problem) + " that does " + what);
  throw Error(ErrorKind::unsupported,
              "no kernel template does " + what + ", which can do " + kinds_done(problem, device_));
}

Resolution resolve_with_portfolio(const Resolver& stored,
                                  const std::function<const Resolver*()>& portfolio,
                                  const Problem& problem, const Conditions& conditions) {
  constexpr double kNear = 2;      // log2 of the sizes: a measurement up to this distance decides
  constexpr double kMargin = 1.1;  // factor by which the portfolio must beat a farther measurement
  constexpr double kOfDefault = 1.5;  // by which an unmeasured default must beat it
  Resolution resolution = stored.resolve(problem, conditions);
  if (resolution.kind == MatchKind::exact) return resolution;
  const bool predicted = resolution.kind == MatchKind::predicted;
  if (predicted && resolution.distance <= kNear) return resolution;
  const Resolver* shipped = portfolio();
  if (!shipped) return resolution;
  Resolution other = shipped->resolve(problem, conditions);
  if (other.kind == MatchKind::default_) return resolution;
  if (!predicted)
    return resolution.model_us > 0 && resolution.model_us * kOfDefault < other.model_us ? resolution
                                                                                        : other;
  const bool ahead =
      other.predicted_us > 0 && other.predicted_us * kMargin < resolution.predicted_us;
  return ahead ? other : resolution;
}

// Expected times of stored candidates, and the choice among them ----------------------------------

LogSizes::LogSizes(const Problem& problem)
    : sizes{std::log2(std::max(mean_rows(problem), 1.0)), log_of(problem.n),
            std::log2(std::max(mean_depth(problem), 1.0)), log_of(problem.batch),
            is_grouped(problem)
                ? std::log2(
                      std::max(double(most_rows(problem)) / std::max(mean_rows(problem), 1.0), 1.0))
                : 0},
      alignments{log_of(problem.a.alignment), log_of(problem.b.alignment),
                 log_of(problem.c.alignment)} {}

double LogSizes::distance(const LogSizes& other) const {
  double sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) sum += std::abs(sizes[i] - other.sizes[i]);
  return sum;
}

double LogSizes::alignment_gap(const LogSizes& other) const {
  double sum = 0;
  for (std::size_t i = 0; i < alignments.size(); ++i)
    sum += std::abs(alignments[i] - other.alignments[i]);
  return sum;
}

double distance_between(const Problem& x, const Problem& y) {
  return LogSizes(x).distance(LogSizes(y));
}

double Resolver::own_ratio(std::size_t winner) const {
  std::atomic<double>& known = (*own_ratios_)[winner];
  double value = known.load(std::memory_order_relaxed);
  if (value == 0) {
    const Record& record = winners_[winner].record;
    value = measured_over_modelled(record, own_cost(record, device_));
    known.store(value, std::memory_order_relaxed);
  }
  return value;
}

/// Null if there are none for the problem's types.
const Corrections* Resolver::corrections_for(const Problem& problem) const {
  if (!learned_->source) return nullptr;
  const std::lock_guard lock(learned_->mutex);
  const auto [known, fresh] = learned_->of_kind.try_emplace(kind_text(problem));
  if (fresh) known->second = learned_->source(problem);
  return known->second ? &*known->second : nullptr;
}

/// Measured time over corrected predicted time of a winner.
double Resolver::residual(std::size_t winner, const Corrections& corrections) const {
  std::atomic<double>& known = (*residuals_)[winner];
  double value = known.load(std::memory_order_relaxed);
  if (value == 0) {
    const Record& record = winners_[winner].record;
    const std::optional<Cost> cost = own_cost(record, device_);
    value = cost ? measured_over_modelled(record, cost) /
                       corrections.factor(record.candidate, record.problem, *cost)
                 : 1;
    known.store(value, std::memory_order_relaxed);
  }
  return value;
}

/// The expected time of an offer's candidate in us. Sets the cost model's share of it.
double Resolver::expect(Offer& offer, const Plan& plan, const Problem& problem,
                        const GivenPackings& given, const Corrections* corrections) const {
  const auto winner = static_cast<std::size_t>(offer.winner - winners_.data());
  const Cost cost = estimate(plan, device_);
  offer.model_us = 1e6 * (given.none() ? cost : cost_of(plan, device_, given)).seconds;
  if (!corrections || !corrections->has(offer.candidate.kernel_template))
    return offer.model_us * own_ratio(winner);
  offer.samples = corrections->samples();
  return offer.model_us * corrections->factor(offer.candidate, problem, cost) *
         std::pow(residual(winner, *corrections), std::exp(-offer.distance));
}

std::vector<Resolver::Offer> Resolver::offers(const Problem& problem, const Conditions& conditions,
                                              std::size_t count, bool without_own) const {
  // Distance, whether epilogue and layout are others, gap of the alignments, index.
  using Place = std::tuple<double, bool, bool, double, std::size_t>;
  // The nearest record of each candidate. A candidate that does not serve this problem is dropped,
  // and its other records are not tried.
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<Place> near(candidate_count_, Place{kNone, false, false, 0, 0});
  const LogSizes logs(problem);
  for (std::size_t i = 0; i < problems_.size(); ++i) {
    const Problem& of = problems_[i];
    if (!same_types(of, problem) || superseded_[i] || (without_own && of == problem)) continue;
    const Place place{logs_[i].distance(logs), of.epilogue != problem.epilogue,
                      layout_of(of) != layout_of(problem), logs_[i].alignment_gap(logs), i};
    Place& nearest = near[candidate_numbers_[i]];
    if (place < nearest) nearest = place;
  }
  std::erase_if(near, [](const Place& place) { return std::get<0>(place) == kNone; });
  // A heap, because only the nearest hundred or so of a thousand winners are visited.
  std::make_heap(near.begin(), near.end(), std::greater<>());
  const Corrections* corrections = corrections_for(problem);
  std::vector<Offer> offers;
  std::unordered_set<std::size_t> seen;  // hashes: two candidates rarely have the same
  for (; !near.empty() && offers.size() < kCompared; near.pop_back()) {
    std::pop_heap(near.begin(), near.end(), std::greater<>());
    const auto& [distance, other_epilogue, other_layout, gap, i] = near.back();
    const Candidate& stored = winners_[i].record.candidate;
    if (seen.contains(hashes_[i])) continue;
    std::optional<Candidate> candidate = form_for(winners_[i].record, problem, device_);
    if (!candidate || is_ruled_out(conditions, *candidate, problem, device_)) continue;
    // Two candidates may have the same form.
    if (*candidate != stored && !seen.insert(hash_of(*candidate)).second) continue;
    seen.insert(hashes_[i]);
    Offer offer{.winner = &winners_[i], .candidate = *std::move(candidate), .distance = distance};
    const Plan plan = plan_of(offer.candidate, problem, device_);
    offer.expected_us = expect(offer, plan, problem, conditions.given, corrections);
    if (offer.model_us == 0 && other_layout) continue;
    offers.push_back(std::move(offer));
  }
  const auto faster = [](const Offer& x, const Offer& y) { return x.expected_us < y.expected_us; };
  std::stable_sort(offers.begin(), offers.end(), faster);
  const std::size_t compared = offers.size();
  offers.resize(std::min(compared, count));
  for (Offer& offer : offers) {
    offer.compared = compared;
    if (offer.model_us == 0) continue;
    Offer fitted = offer;
    const auto expect_of = [&](const Candidate& other, const Plan& plan) {
      fitted.candidate = other;
      return expect(fitted, plan, problem, conditions.given, corrections);
    };
    if (!fit_to_size(offer.candidate, offer.expected_us, problem, device_, expect_of)) continue;
    const Plan plan = plan_of(offer.candidate, problem, device_);
    offer.expected_us = expect(offer, plan, problem, conditions.given, corrections);
  }
  std::stable_sort(offers.begin(), offers.end(), faster);
  return offers;
}

std::vector<Resolver::Expected> Resolver::expected(const Problem& problem,
                                                   std::size_t count) const {
  std::vector<Expected> expected;
  for (Offer& offer : offers(problem, {}, count)) {
    const auto same = [&](const Expected& one) { return one.candidate == offer.candidate; };
    if (std::none_of(expected.begin(), expected.end(), same))
      expected.push_back({std::move(offer.candidate), offer.expected_us});
  }
  return expected;
}

}  // namespace tilewise
