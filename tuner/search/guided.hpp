#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tuner/search/search.hpp"

namespace tilewise {

/// Base of strategies that continue from good candidates: the start (defaults, suggestions, random
/// samples of all templates in turn), known candidates, random valid ones and valid steps.
class Guided : public Strategy {
 public:
  Guided(const SearchSpace& space, std::uint64_t seed, std::size_t samples);

  std::optional<Candidate> next() final;
  void observe(const Candidate& candidate, std::optional<double> microseconds) final;
  void suggest(const Candidate& candidate) final { first_.push_back(candidate); }

 protected:
  /// A candidate after the start. A known one is refused, and another is requested; after some in a
  /// row a random one is taken instead.
  virtual std::optional<Candidate> propose() = 0;
  /// Called for each measured time.
  virtual void learn(const Candidate& candidate, double microseconds) = 0;

  std::mt19937_64& generator() { return draws_.generator(); }
  std::size_t random(std::size_t count) { return random_index(generator(), count); }
  double uniform() { return std::uniform_real_distribution<double>()(generator()); }

  /// A random neighbour that is not known; empty when all are.
  std::optional<Candidate> neighbour(const Candidate& of);
  /// The first valid candidate on a path that sets one parameter after another, in random order,
  /// from the values in `wanted` to those in `valid`. Empty where that is `valid` itself.
  std::optional<Candidate> valid_towards(Candidate wanted, const Candidate& valid);

  /// The ranks of a candidate's values among the values of their parameters in ascending order.
  std::vector<double> ranks(const Candidate& candidate) const;
  /// The candidate whose values are nearest to these ranks; it may be invalid.
  Candidate nearest(const std::string& kernel_template, const std::vector<double>& ranks) const;

 private:
  struct Axes {
    std::vector<std::string> names;
    std::vector<std::vector<int>> values;
  };
  std::optional<Candidate> start();

  const SearchSpace& space_;
  RandomDraws draws_;
  Seen seen_;
  std::deque<Candidate> first_;
  std::size_t samples_;
  std::size_t sampled_ = 0;
  std::map<std::string, Axes> axes_;  // by template
};

}  // namespace tilewise
