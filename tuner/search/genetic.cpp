#include <algorithm>
#include <iterator>

#include "tuner/search/guided.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kPopulation = 20;
// Percentage of children with a single parent: its neighbours.
constexpr std::size_t kMutantPercent = 40;

/// A genetic search over the fastest candidates so far. A child takes each parameter from one of
/// two parents, each the better of two draws, or it is a neighbour of one parent.
class Genetic : public Guided {
 public:
  Genetic(const SearchSpace& space, std::uint64_t seed) : Guided(space, seed, kPopulation) {}

 private:
  std::optional<Candidate> propose() override {
    if (population_.size() < 2) return std::nullopt;
    const Candidate &one = parent(), &other = parent();
    if (one.kernel_template != other.kernel_template || random(100) < kMutantPercent)
      return neighbour(one);
    Candidate child = one;
    for (const auto& [name, value] : other.configuration.values())
      if (random(2) == 1) child.configuration.set(name, value);
    return valid_towards(std::move(child), one);
  }

  const Candidate& parent() {
    const std::size_t count = population_.size(), rank = std::min(random(count), random(count));
    return std::next(population_.begin(), static_cast<std::ptrdiff_t>(rank))->second;
  }

  void learn(const Candidate& candidate, double microseconds) override {
    population_.emplace(microseconds, candidate);
    if (population_.size() > kPopulation) population_.erase(std::prev(population_.end()));
  }

  std::multimap<double, Candidate> population_;  // by microseconds
};

}  // namespace

std::unique_ptr<Strategy> make_genetic(const SearchSpace& space, std::uint64_t seed, bool,
                                       const Predict&) {
  return std::make_unique<Genetic>(space, seed);
}

}  // namespace tilewise
