#include "tuner/search/ordered.hpp"

#include <deque>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include "tuner/search/search.hpp"
#include "tuner/search/tree_ranker.hpp"

namespace tilewise {
namespace {

// The model's part of the start: kFirst candidates (kFirstWhenBrief). Each is the best predicted of
// kDraws draws, improved by up to kSteps steps to the best predicted neighbour while a step gains
// kGain.
constexpr std::size_t kFirst = 24, kFirstWhenBrief = 8;
constexpr int kDraws = 16;
constexpr int kSteps = 12;
constexpr double kGain = 0.003;
// One in this many candidates at the start is a uniform draw.
constexpr std::size_t kUniformShare = 4;
// After the start, one in kModelEvery proposals is the model's, from new draws: it reaches valleys
// that the strategy, which stays near good measurements, does not reach. Once the learned model is
// ready, kLearnedPercent of the proposals are its own, and kFromFastPercent of these start from a
// fast candidate.
constexpr int kModelEvery = 6;
constexpr std::size_t kLearnedPercent = 50;
constexpr std::size_t kFromFastPercent = 50;
// In units of the best measured candidate's predicted time: about three standard deviations of the
// model's error in the ratio of two candidates (docs/cost-model.md).
constexpr double kHopeless = 2;
// In the same unit. Such a candidate waits until nothing else is left, since one measurement can
// cost the whole budget.
constexpr double kRuinous = 6;
// After this many proposals in a row were set aside, one of them is taken.
constexpr int kMostSetAside = 1000;

class Ordered : public Strategy {
 public:
  Ordered(std::unique_ptr<Strategy> inner, const SearchSpace& space, std::uint64_t seed,
          Predict predict, bool brief)
      : first_count_(brief ? kFirstWhenBrief : kFirst),
        inner_(std::move(inner)),
        space_(space),
        predicts_(predict != nullptr),
        predict_(predicts_ ? std::move(predict) : [](const Candidate&) { return 0.0; }),
        learned_(predicts_ ? predict_ : [](const Candidate&) { return 1.0; }),
        draws_(space, ~seed) {}  // another stream than that of `inner`

  std::optional<Candidate> next() override {
    if (!begun_) begin();
    std::optional<Candidate> candidate = propose();
    if (candidate) seen_.add(*candidate);
    return candidate;
  }

  void observe(const Candidate& candidate, std::optional<double> microseconds) override {
    seen_.add(candidate);
    inner_->observe(candidate, microseconds);
    if (!microseconds || !(*microseconds > 0)) return;
    learned_.observe(candidate, *microseconds);
    if (!(*microseconds < best_us_)) return;
    best_us_ = *microseconds;
    best_predicted_ = predict_(candidate);
  }

  void suggest(const Candidate& candidate) override { inner_->suggest(candidate); }

 private:
  /// The model's candidates, best predicted first, with uniform draws between them. Takes one of
  /// the candidates with equal predictions.
  void begin() {
    begun_ = true;
    if (!predicts_) return;
    std::map<double, Candidate> found;  // by prediction
    Seen taken;
    for (std::size_t i = 0;
         i < 2 * first_count_ && found.size() < first_count_ - first_count_ / kUniformShare; ++i) {
      std::optional<Candidate> candidate = model_proposal(taken);
      if (!candidate) break;  // the space is nearly used up
      if (!taken.add(*candidate)) continue;
      const double predicted = predict_(*candidate);
      found.emplace(predicted, std::move(*candidate));
    }
    for (auto& [predicted, candidate] : found) {
      first_.push_back(std::move(candidate));
      if (first_.size() % kUniformShare != kUniformShare - 1) continue;
      if (auto uniform = draws_.next(seen_)) first_.push_back(std::move(*uniform));
    }
    // The strategy begins if there are no predictions.
    can_predict_ = models_turn_ = !found.empty() && found.begin()->first > 0;
  }

  /// The best predicted of some draws, improved by steps to better predicted neighbours.
  std::optional<Candidate> model_proposal(const Seen& taken) {
    std::optional<Candidate> candidate = best_of(kDraws, predict_);
    return candidate ? improved(std::move(*candidate), predict_, kGain, taken) : candidate;
  }

  std::size_t percent() {  // 0 to 99
    return random_index(draws_.generator(), 100);
  }

  /// The candidate with the best expectation on a descent by the learned model. The descent starts
  /// from a fast candidate, or from the best of some draws. Empty when its expected time is
  /// ruinous.
  std::optional<Candidate> learned_own() {
    learned_.refresh(draws_.generator());
    const Predict expect = [this](const Candidate& c) { return learned_.seconds(c); };
    std::optional<Candidate> candidate;
    if (percent() < kFromFastPercent)
      candidate = learned_.fast_one(draws_.generator());
    else
      candidate = best_of(kDraws, expect);
    if (candidate) candidate = improved(std::move(*candidate), expect, 0, {});
    if (candidate && !(expect(*candidate) <= kRuinous * best_us_ * 1e-6)) return std::nullopt;
    return candidate;
  }

  /// The model and the strategy alternate at first, beginning with the model. The strategy's own
  /// start (defaults) is therefore proposed early.
  std::optional<Candidate> propose() {
    if (std::exchange(models_turn_, !models_turn_))
      while (!first_.empty()) {
        Candidate candidate = std::move(first_.front());
        first_.pop_front();
        if (auto taken = considered(std::move(candidate))) return taken;
      }
    if (first_.empty()) {
      if (learned_.ready() && percent() < kLearnedPercent) {
        if (auto candidate = learned_own()) return candidate;
      } else if (can_predict_ && ++later_ % kModelEvery == 0) {
        if (std::optional<Candidate> candidate = model_proposal({}))
          if (auto taken = considered(std::move(*candidate))) return taken;
      }
    }
    for (int i = 0; i < kMostSetAside; ++i) {
      std::optional<Candidate> candidate = inner_->next();
      if (!candidate) break;
      if (auto taken = considered(std::move(*candidate))) return taken;
    }
    while (!set_aside_.empty()) {
      Candidate candidate = std::move(set_aside_.begin()->second);
      set_aside_.erase(set_aside_.begin());
      if (!seen_.has(candidate)) return candidate;
    }
    return std::nullopt;
  }

  /// The candidate; empty when it is known or set aside.
  std::optional<Candidate> considered(Candidate candidate) {
    if (seen_.has(candidate)) return std::nullopt;
    if (may_propose(candidate)) return candidate;
    const double predicted = predict_(candidate);
    set_aside_.emplace(predicted, std::move(candidate));
    return std::nullopt;
  }

  /// A longer predicted time makes a proposal less likely, since its measurement costs more. The
  /// unit is the fastest candidate's predicted time, not its measured one: predictions have similar
  /// errors.
  bool may_propose(const Candidate& candidate) {
    const double predicted = predict_(candidate);
    if (!(predicted > 0)) return true;
    if (!(least_predicted_ > 0) || predicted < least_predicted_) least_predicted_ = predicted;
    const bool measured = best_predicted_ > 0;
    const double times = predicted / (measured ? best_predicted_ : least_predicted_);
    if (times > kRuinous) return false;
    if (!measured || times <= kHopeless) return true;
    return std::uniform_real_distribution<double>()(draws_.generator()) * times * times < 1;
  }

  std::optional<Candidate> best_of(int draws, const Predict& predict) {
    std::optional<Candidate> best;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < draws; ++i) {
      std::optional<Candidate> candidate = draws_.next(seen_);
      if (!candidate) break;
      const double predicted = predict(*candidate);
      if (best && !(predicted < least)) continue;
      least = predicted;
      best = std::move(candidate);
    }
    return best;
  }

  /// Steps to the best predicted neighbour that is neither seen nor taken, while a step gains
  /// `gain`. If the start is seen, makes at least one step; empty when there is no such neighbour.
  std::optional<Candidate> improved(Candidate at, const Predict& predict, double gain,
                                    const Seen& taken) const {
    double here = predict(at);
    std::optional<Candidate> best;
    if (!seen_.has(at)) best = at;
    for (int step = 0; step < kSteps; ++step) {
      std::optional<Candidate> to;
      double least = std::numeric_limits<double>::infinity();
      for (Candidate& neighbour : space_.neighbours(at)) {
        const double predicted = predict(neighbour);
        if (!(predicted < least) || seen_.has(neighbour) || taken.has(neighbour)) continue;
        least = predicted;
        to = std::move(neighbour);
      }
      if (!to) break;
      const bool gains = least < (1 - gain) * here;
      if (!best || gains) best = to;
      if (!gains) break;
      at = std::move(*to);
      here = least;
    }
    return best;
  }

  std::size_t first_count_;
  std::unique_ptr<Strategy> inner_;
  const SearchSpace& space_;
  bool predicts_;
  Predict predict_;
  TreeRanker learned_;
  RandomDraws draws_;
  Seen seen_;
  bool begun_ = false;
  bool can_predict_ = false;
  bool models_turn_ = false;
  int later_ = 0;                // proposals after first_ was used up
  std::deque<Candidate> first_;  // from the model, not yet proposed
  double best_us_ = std::numeric_limits<double>::infinity();
  double best_predicted_ = 0;   // of the best measured candidate
  double least_predicted_ = 0;  // of all considered candidates
  std::multimap<double, Candidate> set_aside_;
};

}  // namespace

std::unique_ptr<Strategy> make_ordered(std::unique_ptr<Strategy> inner, const SearchSpace& space,
                                       std::uint64_t seed, Predict predict, bool brief) {
  return std::make_unique<Ordered>(std::move(inner), space, seed, std::move(predict), brief);
}

}  // namespace tilewise
