#include <cmath>

#include "tuner/search/guided.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kAnnealingSamples = 10;
// The temperature is a difference of logarithms of times: a step that increases the logarithm by
// this is accepted with probability 1/e. Each result multiplies it by kCooling. Below the last
// temperature the search returns to the best and starts again from kReheated.
constexpr double kFirstTemperature = 0.2, kCooling = 0.98, kLastTemperature = 0.005,
                 kReheated = 0.05;

/// Simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) by random neighbours. Results return
/// late: each is compared with the current candidate at that time.
class Annealing : public Guided {
 public:
  Annealing(const SearchSpace& space, std::uint64_t seed)
      : Guided(space, seed, kAnnealingSamples) {}

 private:
  struct State {
    Candidate candidate;
    double logarithm;
  };

  std::optional<Candidate> propose() override {
    if (!current_) return std::nullopt;
    if (auto candidate = neighbour(current_->candidate)) return candidate;
    current_ = best_;
    return neighbour(best_->candidate);
  }

  void learn(const Candidate& candidate, double microseconds) override {
    const State state{candidate, std::log(microseconds)};
    if (!best_ || state.logarithm < best_->logarithm) best_ = state;
    const double worse = current_ ? state.logarithm - current_->logarithm : 0;
    if (worse <= 0 || uniform() < std::exp(-worse / temperature_)) current_ = state;
    temperature_ *= kCooling;
    if (temperature_ >= kLastTemperature) return;
    temperature_ = kReheated;
    current_ = best_;
  }

  std::optional<State> current_, best_;
  double temperature_ = kFirstTemperature;
};

}  // namespace

std::unique_ptr<Strategy> make_annealing(const SearchSpace& space, std::uint64_t seed, bool,
                                         const Predict&) {
  return std::make_unique<Annealing>(space, seed);
}

}  // namespace tilewise
