#include "tuner/search/boosted_trees.hpp"

#include <algorithm>
#include <numeric>

namespace tilewise {
namespace {

constexpr int kTrees = 120;
constexpr double kRate = 0.08;  // the learning rate: the weight of each tree
constexpr int kDepth = 4;
constexpr std::size_t kLeastRows = 3;  // in a leaf
constexpr double kRowShare = 0.8, kFeatureShare = 0.6;
constexpr double kShrink = 1;  // regularisation: rows of value 0 added to each leaf

}  // namespace

/// Data that all nodes of a fit share.
struct BoostedTrees::Growing {
  std::span<const Row> rows;
  std::vector<std::vector<int>> values;  // of each feature, ascending
  std::vector<std::vector<std::uint8_t>>
      ranks;                          // [feature][row]: index of the row's value in `values`
  std::vector<double> left;           // per row: the residual after the trees so far
  std::vector<std::size_t> features;  // that this tree may split on
};

void BoostedTrees::fit(std::span<const Row> rows, std::mt19937_64& generator) {
  nodes_.clear();
  roots_.clear();
  Growing growing{rows, {}, {}, {}, {}};
  const std::size_t features = rows.front().features.size();
  for (std::size_t f = 0; f < features; ++f) {
    std::vector<int> values;
    for (const Row& row : rows) values.push_back(row.features[f]);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.size() > 256) values.resize(256);  // all larger values count as the last
    std::vector<std::uint8_t> ranks;
    for (const Row& row : rows) {
      const auto at = std::lower_bound(values.begin(), values.end() - 1, row.features[f]);
      ranks.push_back(static_cast<std::uint8_t>(at - values.begin()));
    }
    growing.values.push_back(std::move(values));
    growing.ranks.push_back(std::move(ranks));
  }
  double weight = 0, sum = 0;
  for (const Row& row : rows) weight += row.weight, sum += row.weight * row.value;
  mean_ = sum / weight;
  for (const Row& row : rows) growing.left.push_back(row.value - mean_);

  const auto chance = [&](double share) {
    return std::uniform_real_distribution<double>()(generator) < share;
  };
  for (int t = 0; t < kTrees; ++t) {
    std::vector<std::size_t> some;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (chance(kRowShare)) some.push_back(i);
    growing.features.clear();
    for (std::size_t f = 0; f < features; ++f)
      if (growing.values[f].size() > 1 && chance(kFeatureShare)) growing.features.push_back(f);
    roots_.push_back(grow(growing, some, 0));
    for (std::size_t i = 0; i < rows.size(); ++i)
      growing.left[i] -= leaf_of(roots_.back(), rows[i].features);
  }
}

std::size_t BoostedTrees::grow(Growing& growing, std::span<std::size_t> rows, int depth) {
  double weight = 0, sum = 0;
  for (const std::size_t i : rows) {
    weight += growing.rows[i].weight;
    sum += growing.rows[i].weight * growing.left[i];
  }
  const std::size_t node = nodes_.size();
  nodes_.push_back({-1, 0, 0, 0, kRate * sum / (weight + kShrink)});
  if (depth == kDepth || rows.size() < 2 * kLeastRows) return node;
  const Split split = best_split(growing, rows);
  if (split.feature < 0) return node;
  const auto feature = static_cast<std::size_t>(split.feature);
  const auto middle = std::partition(rows.begin(), rows.end(), [&](std::size_t i) {
    return growing.ranks[feature][i] <= split.rank;
  });
  const auto lefts = static_cast<std::size_t>(middle - rows.begin());
  const std::size_t left = grow(growing, rows.first(lefts), depth + 1);
  const std::size_t right = grow(growing, rows.subspan(lefts), depth + 1);
  nodes_[node].feature = split.feature;
  nodes_[node].limit = growing.values[feature][split.rank];
  nodes_[node].left = left;
  nodes_[node].right = right;
  return node;
}

/// The split that reduces the squared residuals most.
BoostedTrees::Split BoostedTrees::best_split(const Growing& growing,
                                             std::span<const std::size_t> rows) {
  struct Sum {
    double weight = 0, value = 0;
    std::size_t count = 0;
    double gain() const { return value * value / (weight + kShrink); }
  };
  Split best;
  double most = 1e-9;
  for (const std::size_t f : growing.features) {
    std::vector<Sum> of(growing.values[f].size());
    Sum all;
    for (const std::size_t i : rows) {
      Sum& sum = of[growing.ranks[f][i]];
      const double weight = growing.rows[i].weight;
      for (Sum* to : {&sum, &all})
        to->weight += weight, to->value += weight * growing.left[i], ++to->count;
    }
    Sum low;
    for (std::size_t rank = 0; rank + 1 < of.size(); ++rank) {
      low.weight += of[rank].weight, low.value += of[rank].value, low.count += of[rank].count;
      if (low.count < kLeastRows || all.count - low.count < kLeastRows) continue;
      const Sum high{all.weight - low.weight, all.value - low.value, 0};
      const double gain = low.gain() + high.gain() - all.gain();
      if (gain <= most) continue;
      most = gain;
      best = {static_cast<int>(f), rank};
    }
  }
  return best;
}

double BoostedTrees::leaf_of(std::size_t node, const std::vector<int>& features) const {
  while (nodes_[node].feature >= 0) {
    const Node& at = nodes_[node];
    node = features[static_cast<std::size_t>(at.feature)] <= at.limit ? at.left : at.right;
  }
  return nodes_[node].value;
}

double BoostedTrees::operator()(const std::vector<int>& features) const {
  double sum = mean_;
  for (const std::size_t root : roots_) sum += leaf_of(root, features);
  return sum;
}

}  // namespace tilewise
