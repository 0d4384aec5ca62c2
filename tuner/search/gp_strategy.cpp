#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <utility>

#include "tuner/search/gp_features.hpp"
#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

using Eigen::Index;

// Random candidates at the start: all templates together, but at least one of each.
constexpr std::size_t kStarts = 8, kStartsWhenBrief = 4;
// Without predictions the process proposes after this many results.
constexpr std::size_t kLeastKnown = 8;
// Candidates that are weighed for a proposal: random ones, children of the fastest kParents, the
// neighbours of the fastest kCentres, and the best of the last batch. Then, kClimbs times, the
// neighbours of the most promising one.
constexpr std::size_t kRandom = 150, kChildren = 100, kParents = 10, kCentres = 5, kKept = 60,
                      kClimbs = 3;
// Centres whose neighbours are kept.
constexpr std::size_t kMostCentres = 64;
// A candidate with this many times the best predicted time waits until no other is left.
constexpr double kRuinous = 6;
// Number of last choices that determine the expected gain.
constexpr std::size_t kGains = 8;
// After this many results without improvement, children are weighed. Each batch then has a proposal
// from a walk of up to kFarSteps steps that starts at the best expected of kFarDraws random
// candidates.
constexpr std::size_t kPatience = 15;
constexpr int kFarDraws = 16, kFarSteps = 12;
// Variances are computed for this many candidates with the least mean, and this many others.
constexpr std::size_t kExact = 150, kOthers = 30;
// One proposal at a time, and one more for each kBatch candidates under way: their results arrive
// too late for the next proposals anyway.
constexpr std::size_t kBatch = 8;
// A template with at least kDropFrom results is dropped when its best time exceeds kBehind times
// the best of all.
constexpr std::size_t kDropFrom = 8;
constexpr double kBehind = 2;

/// The expected gain over `best` for a normal distribution; all are logarithms of times.
double gain_of(double mean, double deviation, double best) {
  if (!(deviation > 1e-9)) return std::max(0.0, best - mean);
  const double z = (best - mean) / deviation;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * 3.14159265358979324);
  return deviation * (z * 0.5 * std::erfc(-z / std::sqrt(2.0)) + density);
}

/// Bayesian optimisation (Jones, Schonlau and Welch, 1998): proposes the candidates with the
/// largest expected gain by a Gaussian process for each template.
class GpStrategy : public Strategy {
 public:
  GpStrategy(const SearchSpace& space, std::uint64_t seed, bool brief, const Predict& predict)
      : space_(space), draws_(space, seed), has_predictions_(predict) {
    for (const KernelTemplate* kernel : space.templates()) models_.emplace_back(*kernel, predict);
    const std::size_t all = brief ? kStartsWhenBrief : kStarts, count = models_.size();
    for (std::size_t i = 0; i < std::max(all, count); ++i)
      samples_.push_back(space.templates()[i % count]);
  }

  std::optional<Candidate> next() override {
    std::optional<Candidate> candidate = start();
    if (!candidate) candidate = from_batch();
    if (!candidate) candidate = draws_.next(seen_);
    if (!candidate) return std::nullopt;
    seen_.add(*candidate);
    ++under_way_;
    if (GpFeatures* model = model_of(*candidate)) model->begin(*candidate);
    return candidate;
  }

  void suggest(const Candidate& candidate) override { first_.push_back(candidate); }

  /// The largest gain of the last choices, since a single choice may miss better candidates.
  std::optional<double> expected_gain() const override {
    if (gains_.size() < kGains) return std::nullopt;
    return -std::expm1(-*std::max_element(gains_.begin(), gains_.end()));
  }

  void observe(const Candidate& candidate, std::optional<double> microseconds) override {
    if (!seen_.add(candidate) && under_way_ > 0) --under_way_;
    GpFeatures* model = model_of(candidate);
    if (!model) return;
    model->observe(candidate, microseconds);
    ++since_best_;
    if (microseconds && *microseconds > 0 &&
        (fastest_.empty() || *microseconds < fastest_.begin()->first)) {
      since_best_ = 0;
      if (const double prior = prior_of(candidate); prior != 0) best_prior_ = prior;
    }
    if (microseconds && *microseconds > 0) fastest_.emplace(*microseconds, candidate);
  }

 private:
  using Point = GpFeatures::Point;
  /// The candidates of a template that are weighed.
  struct Pool {
    GpFeatures* model = nullptr;
    std::list<Point> points;
    GpFeatures::Uncertain uncertain;
    Eigen::VectorXd gains;
  };
  /// The candidate with the largest gain.
  struct Best {
    Pool* pool = nullptr;
    Index index = 0;
    double gain = -1;
  };

  GpFeatures* model_of(const Candidate& candidate) {
    for (GpFeatures& model : models_)
      if (model.kernel().name == candidate.kernel_template) return &model;
    return nullptr;
  }

  std::optional<Candidate> start() {
    if (!begun_) begin();
    while (!first_.empty()) {
      Candidate candidate = std::move(first_.front());
      first_.pop_front();
      if (!seen_.has(candidate)) return candidate;
    }
    while (!samples_.empty()) {
      const KernelTemplate* kernel = samples_.front();
      samples_.pop_front();
      auto candidate = draws_.next_of(*kernel, seen_);
      if (candidate && !is_ruinous(model_of(*candidate)->point(*candidate))) return candidate;
    }
    return std::nullopt;
  }

  /// Puts the defaults first, sorted by prediction, without ruinous ones.
  void begin() {
    begun_ = true;
    std::multimap<double, Candidate> defaults;
    for (Candidate& candidate : space_.defaults())
      defaults.emplace(prior_of(candidate), std::move(candidate));
    if (fastest_.empty() && !defaults.empty()) best_prior_ = defaults.begin()->first;
    for (auto one = defaults.rbegin(); one != defaults.rend(); ++one)
      if (!is_ruinous(model_of(one->second)->point(one->second)))
        first_.push_front(std::move(one->second));
  }

  /// The logarithm of the predicted time; 0 without predictions.
  double prior_of(const Candidate& candidate) {
    const GpFeatures* model = has_predictions_ ? model_of(candidate) : nullptr;
    return model ? model->point(candidate).prior : 0;
  }

  /// Whether the measurement could cost the whole budget.
  bool is_ruinous(const Point& point) const {
    return point.prior > best_prior_ + std::log(kRuinous);
  }

  std::optional<Candidate> from_batch() {
    if (batch_.empty() && enough_known()) fill_batch();
    while (!batch_.empty()) {
      Candidate candidate = std::move(batch_.front());
      batch_.pop_front();
      if (!seen_.has(candidate)) return candidate;
    }
    return std::nullopt;
  }

  /// Without results and predictions the largest expected gain is in the corners of the space,
  /// which are seldom good: random candidates are better.
  bool enough_known() const { return has_predictions_ || fastest_.size() >= kLeastKnown; }

  bool in_play(const GpFeatures& model) const {
    if (model.known() < kDropFrom || fastest_.empty()) return true;
    return model.best() && *model.best() <= kBehind * fastest_.begin()->first;
  }

  void fill_batch() {
    std::vector<Pool> pools;
    double sum = 0, timed = 0;
    for (GpFeatures& model : models_) {
      sum += model.sum();
      timed += model.timed();
    }
    const double mean = timed > 0 ? sum / timed : 0;
    const double least = fastest_.empty() ? std::numeric_limits<double>::infinity()
                                          : std::log(fastest_.begin()->first);
    for (GpFeatures& model : models_) {
      if (!in_play(model)) continue;
      model.refresh(mean, least);
      pools.push_back({&model, {}, {}, {}});
    }
    weighed_ = Seen();
    for (Pool& pool : pools) gather(pool, kRandom / pools.size() + 1);
    const double best = fastest_.empty() ? least_mean(pools) : least;
    for (Pool& pool : pools) weigh(pool, best);
    for (std::size_t i = 0; i < kClimbs; ++i) climb(pools, best);
    keep(pools);
    gains_.push_back(std::max(0.0, best_of(pools).gain));
    if (gains_.size() > kGains) gains_.pop_front();
    for (std::size_t i = 0; i < 1 + under_way_ / kBatch; ++i) {
      const Best one = best_of(pools);
      if (!one.pool) break;
      batch_.push_back(one.pool->uncertain.points[static_cast<std::size_t>(one.index)]->candidate);
      one.pool->model->choose(one.pool->uncertain, one.index);
      count_gains(*one.pool, best);
      chosen_.add(batch_.back());
    }
    chosen_ = Seen();
    if (since_best_ >= kPatience && !pools.empty())
      if (auto candidate = from_afar(*pools[random_index(draws_.generator(), pools.size())].model))
        batch_.push_front(std::move(*candidate));
  }

  /// The end of a walk from the best expected of some random candidates, in steps to the best
  /// expected neighbour.
  std::optional<Candidate> from_afar(const GpFeatures& model) {
    std::vector<Point> around;
    for (int i = 0; i < kFarDraws; ++i)
      if (auto candidate = draws_.next_of(model.kernel(), seen_))
        if (Point point = model.point(std::move(*candidate)); !is_ruinous(point))
          around.push_back(std::move(point));
    std::optional<Point> at;
    double here = std::numeric_limits<double>::infinity();
    for (int step = 0; step <= kFarSteps && !around.empty(); ++step) {
      std::vector<const Point*> points;
      for (const Point& point : around) points.push_back(&point);
      Index least = 0;
      const double expected = model.means(points).minCoeff(&least);
      if (!(expected < here)) break;
      here = expected;
      at = around[static_cast<std::size_t>(least)];
      around.clear();
      for (Candidate& candidate : space_.neighbours(at->candidate))
        if (!seen_.has(candidate)) around.push_back(model.point(std::move(candidate)));
    }
    if (!at) return std::nullopt;
    return std::move(at->candidate);
  }

  void add(Pool& pool, const Point& point) {
    if (!seen_.has(point.candidate) && !is_ruinous(point) && weighed_.add(point.candidate))
      pool.points.push_back(point);
  }

  void gather(Pool& pool, std::size_t random) {
    const std::string& name = pool.model->kernel().name;
    for (const Point& point : kept_)
      if (point.candidate.kernel_template == name) add(pool, point);
    std::size_t centres = 0;
    for (auto centre = fastest_.begin(); centre != fastest_.end() && centres < kCentres;
         ++centre, ++centres)
      if (centre->second.kernel_template == name)
        for (const Point& point : neighbours(*pool.model, centre->second)) add(pool, point);
    for (std::size_t i = 0; since_best_ >= kPatience && i < kChildren; ++i)
      if (auto child = child_of(name)) add(pool, pool.model->point(std::move(*child)));
    for (std::size_t i = 0; i < random; ++i)
      if (auto candidate = draws_.next_of(pool.model->kernel(), seen_))
        add(pool, pool.model->point(std::move(*candidate)));
  }

  /// Takes each parameter from one of two of the fastest candidates. Empty where these belong to
  /// another template, or the child is known or invalid.
  std::optional<Candidate> child_of(const std::string& name) {
    const std::size_t count = std::min(kParents, fastest_.size());
    if (count < 2) return std::nullopt;
    const auto parent = [&] {
      return std::next(fastest_.begin(),
                       static_cast<std::ptrdiff_t>(random_index(draws_.generator(), count)));
    };
    Candidate child = parent()->second;
    const Candidate& other = parent()->second;
    if (child.kernel_template != name || other.kernel_template != name) return std::nullopt;
    for (const auto& [parameter, value] : other.configuration.values())
      if (random_index(draws_.generator(), 2) == 1) child.configuration.set(parameter, value);
    if (seen_.has(child) || !space_.contains(child)) return std::nullopt;
    return child;
  }

  /// Made once per candidate: this takes some milliseconds, mostly for predictions.
  const std::vector<Point>& neighbours(const GpFeatures& model, const Candidate& of) {
    const auto found = neighbours_.find(of);
    if (found != neighbours_.end()) return found->second;
    if (neighbours_.size() >= kMostCentres) neighbours_.clear();
    std::vector<Point>& points = neighbours_[of];
    for (Candidate& candidate : space_.neighbours(of))
      points.push_back(model.point(std::move(candidate)));
    return points;
  }

  static double least_mean(const std::vector<Pool>& pools) {
    double least = std::numeric_limits<double>::infinity();
    for (const Pool& pool : pools) {
      std::vector<const Point*> points;
      for (const Point& point : pool.points) points.push_back(&point);
      if (!points.empty()) least = std::min(least, pool.model->means(points).minCoeff());
    }
    return least;
  }

  /// Computes variances and gains of the candidates with the least means, and of some others.
  void weigh(Pool& pool, double best) {
    std::vector<const Point*> points;
    for (const Point& point : pool.points) points.push_back(&point);
    const Eigen::VectorXd means = pool.model->means(points);
    std::vector<Index> order(points.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Index>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](Index x, Index y) { return means[x] < means[y]; });
    const std::size_t step = std::max<std::size_t>(1, points.size() / kOthers);
    std::vector<const Point*> taken;
    std::vector<double> taken_means;
    for (std::size_t i = 0; i < order.size(); i += i < kExact ? 1 : step) {
      taken.push_back(points[static_cast<std::size_t>(order[i])]);
      taken_means.push_back(means[order[i]]);
    }
    pool.uncertain = pool.model->uncertain(
        std::move(taken),
        Eigen::Map<Eigen::VectorXd>(taken_means.data(), static_cast<Index>(taken_means.size())));
    count_gains(pool, best);
  }

  void count_gains(Pool& pool, double best) const {
    const Eigen::VectorXd deviations = pool.model->deviations(pool.uncertain);
    pool.gains.resize(deviations.size());
    for (Index i = 0; i < deviations.size(); ++i) {
      const Point& point = *pool.uncertain.points[static_cast<std::size_t>(i)];
      pool.gains[i] =
          chosen_.has(point.candidate) ? -1 : gain_of(pool.uncertain.means[i], deviations[i], best);
    }
  }

  static Best best_of(std::vector<Pool>& pools) {
    Best best;
    for (Pool& pool : pools)
      for (Index i = 0; i < pool.gains.size(); ++i)
        if (pool.gains[i] > best.gain) best = {&pool, i, pool.gains[i]};
    return best;
  }

  /// Adds the neighbours of the most promising candidate.
  void climb(std::vector<Pool>& pools, double best) {
    const Best one = best_of(pools);
    if (!one.pool) return;
    const Candidate centre =
        one.pool->uncertain.points[static_cast<std::size_t>(one.index)]->candidate;
    const std::size_t before = one.pool->points.size();
    for (const Point& point : neighbours(*one.pool->model, centre)) add(*one.pool, point);
    if (one.pool->points.size() > before) weigh(*one.pool, best);
  }

  /// Keeps the most promising points for the next weighing.
  void keep(const std::vector<Pool>& pools) {
    std::multimap<double, const Point*, std::greater<>> ranked;
    for (const Pool& pool : pools)
      for (Index i = 0; i < pool.gains.size(); ++i)
        ranked.emplace(pool.gains[i], pool.uncertain.points[static_cast<std::size_t>(i)]);
    std::vector<Point> kept;
    for (const auto& [gain, point] : ranked) {
      if (kept.size() == kKept) break;
      kept.push_back(*point);
    }
    kept_ = std::move(kept);
  }

  const SearchSpace& space_;
  RandomDraws draws_;
  bool has_predictions_;
  Seen seen_;
  bool begun_ = false;
  /// The prediction of the fastest measured candidate; before that, the least of the defaults.
  double best_prior_ = std::numeric_limits<double>::infinity();
  std::deque<Candidate> first_;                // defaults, then suggestions
  std::deque<const KernelTemplate*> samples_;  // templates still to sample at the start
  std::vector<GpFeatures> models_;
  std::multimap<double, Candidate> fastest_;  // by microseconds
  std::size_t under_way_ = 0;
  std::size_t since_best_ = 0;   // results since the best
  std::deque<double> gains_;     // expected gains of the last choices
  std::deque<Candidate> batch_;  // chosen, not yet proposed
  Seen chosen_, weighed_;        // in the batch that is being chosen
  std::vector<Point> kept_;      // the most promising of the last batch
  std::map<Candidate, std::vector<Point>> neighbours_;
};

}  // namespace

std::unique_ptr<Strategy> make_model(const SearchSpace& space, std::uint64_t seed, bool brief,
                                     const Predict& predict) {
  return std::make_unique<GpStrategy>(space, seed, brief, predict);
}

}  // namespace tilewise
