#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tuner/cover.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// The records of one GPU that serve a range at the end of cover().
class CoverTable {
 public:
  CoverTable(const SizeRange& range, const CoverOptions& options, const TuneContext& context,
             const DeviceInfo& device);

  /// Records of the problem measured on this machine with kernels that would be built now and that
  /// serve every size.
  std::vector<Record> ok_records(const Problem& problem) const;
  /// The configurations of a stored point whose kernels have changed since they were measured on
  /// this machine, at most `most` of the space, fastest first. Empty where the fastest one that
  /// still is valid was measured as it is now.
  std::vector<Candidate> changed(const SearchSpace& space, std::size_t most) const;
  /// Whether the fastest configurations of a stored point, whose sources have changed, compile to
  /// the machine code that was measured. Their records count as current then.
  bool keeps_times(const SearchSpace& space, const Candidate& fastest, int threads);
  /// Serves the points of each layout with at most most_configurations.
  std::vector<CoverLayout> reduce(const std::vector<CoverPoint>& points);
  /// The winners are the best at the points. Where the limit of configurations leaves room, adds
  /// those with the largest expected gain at sizes between the points.
  void add_for_other_sizes(const std::vector<CoverPoint>& points,
                           std::vector<CoverLayout>& layouts);

 private:
  /// Records measured on this machine whose configurations are valid and serve every size.
  std::vector<Record> measured(const Problem& problem) const;
  using PointTimes = std::vector<std::pair<std::size_t, double>>;
  bool stopped() const { return context_.stop && context_.stop->load(); }
  std::optional<CoverLayout> reduce(const std::vector<CoverPoint>& points, Layout layout);
  std::vector<Candidate> serving(const Problem& kind) const;
  std::vector<Record> near_the_best(const std::vector<CoverPoint>& points) const;
  std::vector<Problem> other_sizes() const;
  void prefer_winner(const Problem& problem, const std::vector<Candidate>& candidates,
                     PointTimes& times) const;
  void serve(const Record& record);

  const SizeRange& range_;
  const CoverOptions& options_;
  const TuneContext& context_;
  const DeviceInfo& device_;
  const std::string gpu_;
  std::map<Layout, std::set<KernelSpec>> images_;
};

}  // namespace tilewise
