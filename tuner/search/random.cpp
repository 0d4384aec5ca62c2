#include <utility>

#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

// This many known draws in a row mean that the space is nearly exhausted and small enough to list:
// N candidates are all known long before 1000 N draws.
constexpr int kKnownInARow = 300;
constexpr std::size_t kMostListed = 200'000;

/// Random search: the baseline for every other strategy.
class Random : public Strategy {
 public:
  Random(const SearchSpace& space, std::uint64_t seed) : draws_(space, seed) {}

  std::optional<Candidate> next() override {
    std::optional<Candidate> candidate = draws_.next(seen_);
    if (candidate) seen_.add(*candidate);
    return candidate;
  }

  void observe(const Candidate& candidate, std::optional<double>) override { seen_.add(candidate); }

 private:
  RandomDraws draws_;
  Seen seen_;
};

}  // namespace

std::optional<Candidate> RandomDraws::next(const Seen& seen) {
  for (int i = 0; !listed_ && i < kKnownInARow; ++i) {
    std::optional<Candidate> candidate = space_.random(generator_);
    if (!candidate) return std::nullopt;
    if (!seen.has(*candidate)) return candidate;
  }
  if (!listed_) {
    listed_ = true;
    space_.for_each([&](const Candidate& candidate) {
      if (!seen.has(candidate)) rest_.push_back(candidate);
      return rest_.size() < kMostListed;
    });
    for (std::size_t i = rest_.size(); i > 1; --i)
      std::swap(rest_[i - 1], rest_[random_index(generator_, i)]);
  }
  while (!rest_.empty()) {
    Candidate candidate = std::move(rest_.back());
    rest_.pop_back();
    if (!seen.has(candidate)) return candidate;
  }
  return std::nullopt;
}

std::optional<Candidate> RandomDraws::next_of(const KernelTemplate& kernel, const Seen& seen) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    std::optional<Candidate> candidate = space_.random_of(kernel, generator_);
    if (!candidate || !seen.has(*candidate)) return candidate;
  }
  return std::nullopt;
}

std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed, bool,
                                      const Predict&) {
  return std::make_unique<Random>(space, seed);
}

}  // namespace tilewise
