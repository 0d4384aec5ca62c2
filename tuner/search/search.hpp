#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "tuner/search/strategy.hpp"

namespace tilewise {

std::unique_ptr<Strategy> make_exhaustive(const SearchSpace& space, std::uint64_t seed, bool brief,
                                          const Predict& predict);
std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed, bool brief,
                                      const Predict& predict);
std::unique_ptr<Strategy> make_local(const SearchSpace& space, std::uint64_t seed, bool brief,
                                     const Predict& predict);
std::unique_ptr<Strategy> make_model(const SearchSpace& space, std::uint64_t seed, bool brief,
                                     const Predict& predict);
/// Proposes these candidates in order; exhaustive search also uses it.
std::unique_ptr<Strategy> make_list(std::vector<Candidate> candidates);

/// Runs another strategy on a thread of its own: up to `ready` proposals wait for next(), which
/// waits if there is none yet. Results are observed between proposals, so the proposals depend on
/// when they arrive. next() rethrows exceptions of the inner strategy.
std::unique_ptr<Strategy> make_background(std::unique_ptr<Strategy> inner, std::size_t ready);

/// Known candidates: proposed, or measured by an earlier run. Every strategy has one, since none
/// may propose a candidate twice.
class Seen {
 public:
  /// False when it was seen before.
  bool add(const Candidate& candidate) { return seen_.insert(candidate).second; }
  bool has(const Candidate& candidate) const { return seen_.count(candidate) != 0; }

 private:
  std::set<Candidate> seen_;
};

/// Uniform candidates without repetition, down to the last one of a small space.
class RandomDraws {
 public:
  RandomDraws(const SearchSpace& space, std::uint64_t seed) : space_(space), generator_(seed) {}
  /// A candidate not in `seen`; empty when the space is exhausted, or too nearly to find the rest.
  std::optional<Candidate> next(const Seen& seen);
  /// The same for one template.
  std::optional<Candidate> next_of(const KernelTemplate& kernel, const Seen& seen);
  std::mt19937_64& generator() { return generator_; }

 private:
  const SearchSpace& space_;
  std::mt19937_64 generator_;
  bool listed_ = false;
  std::vector<Candidate> rest_;  // once listed: the remaining candidates in random order
};

}  // namespace tilewise
