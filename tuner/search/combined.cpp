#include <array>
#include <utility>

#include "tuner/search/ordered.hpp"
#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

/// Proposals of `local` and of `model` in turns; both observe all results. Each leaves other
/// valleys unvisited.
class Combined : public Strategy {
 public:
  Combined(std::unique_ptr<Strategy> local, std::unique_ptr<Strategy> model)
      : of_{std::move(local), std::move(model)} {}

  std::optional<Candidate> next() override {
    for (std::size_t used_up = 0; used_up < of_.size();) {
      std::optional<Candidate> candidate = of_[turn_]->next();
      turn_ = 1 - turn_;
      if (!candidate)
        ++used_up;
      else if (seen_.add(*candidate))
        return candidate;
      else
        used_up = 0;
    }
    return std::nullopt;
  }

  void suggest(const Candidate& candidate) override {
    for (const auto& strategy : of_) strategy->suggest(candidate);
  }

  void observe(const Candidate& candidate, std::optional<double> microseconds) override {
    seen_.add(candidate);
    for (const auto& strategy : of_) strategy->observe(candidate, microseconds);
  }

  std::optional<double> expected_gain() const override { return of_[1]->expected_gain(); }

 private:
  std::array<std::unique_ptr<Strategy>, 2> of_;
  std::size_t turn_ = 0;
  Seen seen_;
};

}  // namespace

std::unique_ptr<Strategy> make_combined(const SearchSpace& space, std::uint64_t seed, bool brief,
                                        const Predict& predict) {
  std::unique_ptr<Strategy> local = make_local(space, seed, brief, predict);
  if (predict) local = make_ordered(std::move(local), space, seed, predict, brief);
  return std::make_unique<Combined>(std::move(local), make_model(space, seed, brief, predict));
}

}  // namespace tilewise
