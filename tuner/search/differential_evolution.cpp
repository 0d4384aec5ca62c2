#include <algorithm>

#include "tuner/search/guided.hpp"

namespace tilewise {
namespace {

constexpr std::size_t kMembers = 12;
// The weight of differences, and the share of parameters that a child takes from the mutant.
constexpr double kWeight = 0.6, kCrossover = 0.7;

/// Differential evolution (Storn and Price, 1997; the form best/1) on the ranks of values: a child
/// takes a part of its values from a member, the others from the fastest other member plus the
/// weighted difference of two more. It replaces the member where it is not slower. All are of one
/// template.
class DifferentialEvolution : public Guided {
 public:
  DifferentialEvolution(const SearchSpace& space, std::uint64_t seed)
      : Guided(space, seed, kMembers) {}

 private:
  struct Member {
    Candidate candidate;
    double microseconds;
  };

  std::optional<Candidate> propose() override {
    if (members_.empty()) return std::nullopt;
    const std::size_t target = turn_++ % members_.size();
    const Member& member = members_[target];
    std::vector<const Member*> alike;
    for (const Member& other : members_)
      if (&other != &member && other.candidate.kernel_template == member.candidate.kernel_template)
        alike.push_back(&other);
    if (alike.size() < 3) return neighbour(member.candidate);
    const auto fastest = std::min_element(
        alike.begin(), alike.end(),
        [](const Member* x, const Member* y) { return x->microseconds < y->microseconds; });
    std::swap(*fastest, alike[0]);
    for (std::size_t i = 1; i < 3; ++i) std::swap(alike[i], alike[i + random(alike.size() - i)]);
    std::vector<double> child = ranks(member.candidate);
    const auto best = ranks(alike[0]->candidate), one = ranks(alike[1]->candidate),
               other = ranks(alike[2]->candidate);
    for (std::size_t i = 0; i < child.size(); ++i)
      if (uniform() < kCrossover) child[i] = best[i] + kWeight * (one[i] - other[i]);
    auto candidate =
        valid_towards(nearest(member.candidate.kernel_template, child), member.candidate);
    if (candidate) target_of_[*candidate] = target;
    return candidate;
  }

  void learn(const Candidate& candidate, double microseconds) override {
    const auto found = target_of_.find(candidate);
    if (found == target_of_.end() && members_.size() < kMembers) {
      members_.push_back({candidate, microseconds});
      return;
    }
    Member& member = found == target_of_.end() ? slowest() : members_[found->second];
    if (found != target_of_.end()) target_of_.erase(found);
    if (microseconds <= member.microseconds) member = {candidate, microseconds};
  }

  Member& slowest() {
    Member* slowest = &members_.front();
    for (Member& member : members_)
      if (member.microseconds > slowest->microseconds) slowest = &member;
    return *slowest;
  }

  std::vector<Member> members_;
  std::map<Candidate, std::size_t> target_of_;  // of a child, the member that it may replace
  std::size_t turn_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_differential_evolution(const SearchSpace& space, std::uint64_t seed,
                                                      bool, const Predict&) {
  return std::make_unique<DifferentialEvolution>(space, seed);
}

}  // namespace tilewise
