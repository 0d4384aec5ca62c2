#include "tuner/search/guided.hpp"

#include <algorithm>
#include <cmath>

namespace tilewise {
namespace {

constexpr int kKnownProposals = 20;

}  // namespace

Guided::Guided(const SearchSpace& space, std::uint64_t seed, std::size_t samples)
    : space_(space), draws_(space, seed), samples_(std::max(samples, space.templates().size())) {
  for (Candidate& candidate : space.defaults()) first_.push_back(std::move(candidate));
  for (const KernelTemplate* kernel : space.templates()) {
    std::map<std::string, std::vector<int>> by_name;
    for (const Parameter& parameter : kernel->parameters) {
      std::vector<int>& values = by_name[parameter.name] = parameter.values;
      std::sort(values.begin(), values.end());
    }
    for (auto& [name, values] : by_name) {
      axes_[kernel->name].names.push_back(name);
      axes_[kernel->name].values.push_back(std::move(values));
    }
  }
}

std::optional<Candidate> Guided::start() {
  while (!first_.empty()) {
    Candidate candidate = std::move(first_.front());
    first_.pop_front();
    if (!seen_.has(candidate)) return candidate;
  }
  const std::vector<const KernelTemplate*>& kernels = space_.templates();
  while (sampled_ < samples_)
    if (auto candidate = draws_.next_of(*kernels[sampled_++ % kernels.size()], seen_))
      return candidate;
  return std::nullopt;
}

std::optional<Candidate> Guided::next() {
  std::optional<Candidate> candidate = start();
  for (int i = 0; !candidate && i < kKnownProposals; ++i) {
    candidate = propose();
    if (candidate && seen_.has(*candidate)) candidate.reset();
  }
  if (!candidate) candidate = draws_.next(seen_);
  if (candidate) seen_.add(*candidate);
  return candidate;
}

void Guided::observe(const Candidate& candidate, std::optional<double> microseconds) {
  seen_.add(candidate);
  if (microseconds && *microseconds > 0 && axes_.contains(candidate.kernel_template))
    learn(candidate, *microseconds);
}

std::optional<Candidate> Guided::neighbour(const Candidate& of) {
  std::vector<Candidate> all = space_.neighbours(of);
  std::erase_if(all, [&](const Candidate& candidate) { return seen_.has(candidate); });
  if (all.empty()) return std::nullopt;
  return std::move(all[random(all.size())]);
}

std::optional<Candidate> Guided::valid_towards(Candidate wanted, const Candidate& valid) {
  std::vector<std::string> differ;
  for (const auto& [name, value] : valid.configuration.values())
    if (wanted.configuration.at(name) != value) differ.push_back(name);
  while (!differ.empty()) {
    if (space_.contains(wanted)) return wanted;
    std::swap(differ[random(differ.size())], differ.back());
    wanted.configuration.set(differ.back(), valid.configuration.at(differ.back()));
    differ.pop_back();
  }
  return std::nullopt;
}

std::vector<double> Guided::ranks(const Candidate& candidate) const {
  const Axes& axes = axes_.at(candidate.kernel_template);
  std::vector<double> ranks;
  for (std::size_t i = 0; i < axes.names.size(); ++i) {
    const int* value = candidate.configuration.find(axes.names[i]);
    const auto& values = axes.values[i];
    const auto found = std::lower_bound(values.begin(), values.end(), value ? *value : 0);
    ranks.push_back(static_cast<double>(found - values.begin()));
  }
  return ranks;
}

Candidate Guided::nearest(const std::string& kernel_template,
                          const std::vector<double>& ranks) const {
  const Axes& axes = axes_.at(kernel_template);
  Candidate candidate{kernel_template, {}};
  for (std::size_t i = 0; i < axes.names.size(); ++i) {
    const double last = static_cast<double>(axes.values[i].size() - 1);
    const double rank = std::clamp(std::round(ranks[i]), 0.0, last);
    candidate.configuration.set(axes.names[i], axes.values[i][static_cast<std::size_t>(rank)]);
  }
  return candidate;
}

}  // namespace tilewise
