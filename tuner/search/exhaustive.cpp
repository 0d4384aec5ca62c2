#include <utility>

#include "tilewise/error.hpp"
#include "tuner/search/search.hpp"

namespace tilewise {
namespace {

// A longer list would take days on a GPU.
constexpr std::size_t kMost = 200'000;

}  // namespace

/// Proposes every candidate in the space's order; ignores the seed.
std::unique_ptr<Strategy> make_exhaustive(const SearchSpace& space, std::uint64_t, bool,
                                          const Predict&) {
  std::vector<Candidate> candidates;
  space.for_each([&](const Candidate& candidate) {
    candidates.push_back(candidate);
    return candidates.size() <= kMost;
  });
  if (candidates.size() > kMost)
    throw Error(ErrorKind::invalid_argument,
                "the space has more than " + std::to_string(kMost) +
                    " valid candidates, too many for an exhaustive search; name fewer templates or "
                    "a subspace of their parameters, or search another way");
  return make_list(std::move(candidates));
}

}  // namespace tilewise
