#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

// Random samples per template at the start, in addition to defaults and warm-start candidates.
// Fewer leave the search in the first valley; more cost more than they gain (docs/measuring.md).
constexpr int kSamplesPerTemplate = 20, kSamplesWhenBrief = 1;
// A template is no longer sampled when this many of its candidates are known and the best of them
// takes kDropFactor times as long as the best of all.
constexpr int kDropAfter = 8;
constexpr double kDropFactor = 2;
// Percentages of the proposals after the start: random samples, and children of two good
// candidates. The others are neighbours of the best.
constexpr std::size_t kSamplePercent = 10;
constexpr std::size_t kChildPercent = 40;
constexpr std::size_t kParents = 10;
constexpr int kChildTries = 40;

/// Local search from the best candidate: its neighbours in random order, then those of the next
/// best. The first improvement becomes the best. Results return late, so one best may have several
/// improvements. Children combine them: each parameter is from one of two good parents. Some random
/// samples let the search leave a valley.
class Local : public Strategy {
 public:
  Local(const SearchSpace& space, std::uint64_t seed, bool brief)
      : space_(space), draws_(space, seed) {
    for (Candidate& candidate : space.defaults()) defaults_.push_back(std::move(candidate));
    for (const KernelTemplate* kernel : space.templates()) tallies_[kernel->name].kernel = kernel;
    for (int i = 0; i < (brief ? kSamplesWhenBrief : kSamplesPerTemplate); ++i)
      for (const KernelTemplate* kernel : space.templates()) samples_.push_back(kernel);
  }

  std::optional<Candidate> next() override {
    std::optional<Candidate> candidate = propose();
    if (candidate) seen_.add(*candidate);
    return candidate;
  }

  void suggest(const Candidate& candidate) override { suggested_.push_back(candidate); }

  void observe(const Candidate& candidate, std::optional<double> microseconds) override {
    seen_.add(candidate);
    Tally& tally = tallies_[candidate.kernel_template];
    ++tally.known;
    if (!microseconds || !(*microseconds > 0)) return;
    if (!tally.best_us || *microseconds < *tally.best_us) tally.best_us = microseconds;
    ranking_.emplace(*microseconds, Centre{candidate, std::nullopt});
  }

 private:
  struct Centre {
    Candidate candidate;
    std::optional<std::vector<Candidate>> moves;  // made when needed; used from the back
  };
  struct Tally {
    const KernelTemplate* kernel = nullptr;
    int known = 0;
    std::optional<double> best_us;
  };

  std::optional<Candidate> propose() {
    if (auto candidate = start()) return candidate;
    const std::size_t dice = random_index(draws_.generator(), 100);
    std::optional<Candidate> candidate;
    if (dice < kSamplePercent)
      candidate = sample();
    else if (dice < kSamplePercent + kChildPercent)
      candidate = child();
    if (!candidate) candidate = neighbour();
    return candidate ? candidate : draws_.next(seen_);
  }

  std::optional<Candidate> start() {
    for (std::deque<Candidate>* first : {&defaults_, &suggested_}) {
      while (!first->empty()) {
        Candidate candidate = std::move(first->front());
        first->pop_front();
        if (!seen_.has(candidate)) return candidate;
      }
    }
    while (!samples_.empty()) {
      const KernelTemplate* kernel = samples_.back();
      samples_.pop_back();
      if (!in_play(tallies_[kernel->name])) continue;
      if (auto candidate = draws_.next_of(*kernel, seen_)) return candidate;
    }
    return std::nullopt;
  }

  bool in_play(const Tally& tally) const {
    if (tally.known < kDropAfter || ranking_.empty()) return true;
    return tally.best_us && *tally.best_us <= kDropFactor * ranking_.begin()->first;
  }

  std::optional<Candidate> sample() {
    std::vector<const KernelTemplate*> kernels;
    for (const auto& [name, tally] : tallies_)
      if (tally.kernel && in_play(tally)) kernels.push_back(tally.kernel);
    if (kernels.empty()) return std::nullopt;
    return draws_.next_of(*kernels[random_index(draws_.generator(), kernels.size())], seen_);
  }

  std::optional<Candidate> child() {
    const std::size_t parents = std::min(kParents, ranking_.size());
    if (parents < 2) return std::nullopt;
    auto& generator = draws_.generator();
    for (int i = 0; i < kChildTries; ++i) {
      // Each parent is the better of two draws.
      const Candidate& one =
          ranked(std::min(random_index(generator, parents), random_index(generator, parents)));
      const Candidate& other = ranked(random_index(generator, parents));
      if (one.kernel_template != other.kernel_template) continue;
      Candidate mixed = one;
      for (const auto& [name, value] : other.configuration.values())
        if (random_index(generator, 2)) mixed.configuration.set(name, value);
      if (!seen_.has(mixed) && space_.contains(mixed)) return mixed;
    }
    return std::nullopt;
  }

  const Candidate& ranked(std::size_t rank) const {
    return std::next(ranking_.begin(), static_cast<std::ptrdiff_t>(rank))->second.candidate;
  }

  std::optional<Candidate> neighbour() {
    for (auto& [microseconds, centre] : ranking_) {
      if (!centre.moves) centre.moves = shuffled(space_.neighbours(centre.candidate));
      while (!centre.moves->empty()) {
        Candidate candidate = std::move(centre.moves->back());
        centre.moves->pop_back();
        if (!seen_.has(candidate)) return candidate;
      }
    }
    return std::nullopt;
  }

  std::vector<Candidate> shuffled(std::vector<Candidate> candidates) {
    for (std::size_t i = candidates.size(); i > 1; --i)
      std::swap(candidates[i - 1], candidates[random_index(draws_.generator(), i)]);
    return candidates;
  }

  const SearchSpace& space_;
  RandomDraws draws_;
  Seen seen_;
  std::deque<Candidate> defaults_, suggested_;
  std::vector<const KernelTemplate*> samples_;  // templates still to sample at the start
  std::map<std::string, Tally> tallies_;        // by template
  std::multimap<double, Centre> ranking_;       // by microseconds
};

}  // namespace

std::unique_ptr<Strategy> make_local(const SearchSpace& space, std::uint64_t seed, bool brief,
                                     const Predict&) {
  return std::make_unique<Local>(space, seed, brief);
}

}  // namespace tilewise
