#include "matmul/boosted_trees.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

constexpr double kRate = 0.08;  // the learning rate: the weight of each tree
constexpr double kShrink = 1;   // regularisation: rows of value 0 added to each leaf
constexpr int kLeafBits = 16;   // of a leaf's float that are not stored, and are 0

}  // namespace

BoostedTrees::Node BoostedTrees::Node::leaf(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  constexpr std::uint32_t kHalf = 1U << (kLeafBits - 1), kDropped = (1U << kLeafBits) - 1;
  return {static_cast<std::int32_t>((bits + kHalf) & ~kDropped), 0, kLeaf};
}

/// Data shared by all nodes of a fit.
struct BoostedTrees::Growing {
  std::span<const Row> rows;
  const Options& options;
  std::vector<std::vector<int>> values;  // values of each feature, ascending
  std::vector<std::vector<std::uint8_t>>
      ranks;                          // [feature][row]: index of the row's value in `values`
  std::vector<double> left;           // residual of each row after the trees so far
  std::vector<std::size_t> features;  // features that this tree may split on
};

void BoostedTrees::fit(std::span<const Row> rows, std::mt19937_64& generator,
                       const Options& options) {
  nodes_.clear();
  roots_.clear();
  Growing growing{rows, options, {}, {}, {}, {}};
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
  for (int t = 0; t < options.trees; ++t) {
    std::vector<std::size_t> some;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (chance(options.row_share)) some.push_back(i);
    growing.features.clear();
    for (std::size_t f = 0; f < features; ++f)
      if (growing.values[f].size() > 1 && chance(options.feature_share))
        growing.features.push_back(f);
    roots_.push_back(static_cast<std::uint32_t>(grow(growing, some, 0)));
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
  nodes_.push_back(Node::leaf(kRate * sum / (weight + kShrink)));
  if (depth == growing.options.depth || rows.size() < 2 * growing.options.least_rows) return node;
  const Split split = best_split(growing, rows);
  if (split.feature < 0) return node;
  const auto feature = static_cast<std::size_t>(split.feature);
  const auto middle = std::partition(rows.begin(), rows.end(), [&](std::size_t i) {
    return growing.ranks[feature][i] <= split.rank;
  });
  const auto lefts = static_cast<std::size_t>(middle - rows.begin());
  grow(growing, rows.first(lefts), depth + 1);
  const std::size_t right = grow(growing, rows.subspan(lefts), depth + 1);
  nodes_[node] = {growing.values[feature][split.rank], static_cast<std::uint16_t>(right - node),
                  static_cast<std::uint8_t>(feature)};
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
  const std::size_t least = growing.options.least_rows;
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
      if (low.count < least || all.count - low.count < least) continue;
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
  const Node* at = &nodes_[node];
  while (!at->is_leaf()) at += features[at->feature] <= at->limit ? 1 : at->right;
  return at->value();
}

/// Walks of kAbreast trees are interleaved, because each step waits for its node. The walks have no
/// branches: a leaf steps to itself, since its comparison fails and its right node has distance 0.
double BoostedTrees::operator()(const std::vector<int>& features) const {
  constexpr std::size_t kAbreast = 8;
  std::array<int, Node::kLeaf + 1> values;
  std::copy(features.begin(), features.end(), values.begin());
  values[Node::kLeaf] = std::numeric_limits<int>::max();  // above the bits of every finite value
  double sum = mean_;
  std::size_t tree = 0;
  for (; tree + kAbreast <= roots_.size(); tree += kAbreast) {
    std::array<std::uint32_t, kAbreast> at;
    std::copy_n(&roots_[tree], kAbreast, at.begin());
    for (std::uint32_t moved = 1; moved != 0;) {
      moved = 0;
      for (std::uint32_t& place : at) {
        const Node node = nodes_[place];
        // The step is 1 or node.right. Compilers turn a condition into a branch, which is
        // mispredicted half of the time.
        const std::uint32_t left = 0U - (values[node.feature] <= node.limit);
        const std::uint32_t step = node.right ^ ((node.right ^ 1U) & left);
        place += step;
        moved |= step;
      }
    }
    for (const std::uint32_t place : at) sum += nodes_[place].value();
  }
  for (; tree < roots_.size(); ++tree) sum += leaf_of(roots_[tree], features);
  return sum;
}

namespace {

// Bytes are in this machine's order: every machine with an NVIDIA GPU has the same.
template <class T>
void append_bytes(std::vector<std::uint8_t>& bytes, T value) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

template <class T>
T take(std::span<const std::uint8_t>& bytes) {
  if (bytes.size() < sizeof(T))
    throw Error(ErrorKind::invalid_argument, "boosted trees: the bytes end too early");
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

}  // namespace

// Format: the mean, then for each tree its number of nodes and its nodes in the order of a walk
// that visits each left node first. A node is its feature and its limit, a leaf kLeaf and its
// value.
std::vector<std::uint8_t> BoostedTrees::to_bytes() const {
  std::vector<std::uint8_t> bytes;
  append_bytes(bytes, mean_);
  append_bytes(bytes, static_cast<std::uint32_t>(roots_.size()));
  for (std::size_t t = 0; t < roots_.size(); ++t) {
    const std::size_t end = t + 1 < roots_.size() ? roots_[t + 1] : nodes_.size();
    append_bytes(bytes, static_cast<std::uint16_t>(end - roots_[t]));
    for (std::size_t i = roots_[t]; i < end; ++i) {
      const Node& node = nodes_[i];
      append_bytes(bytes, node.feature);
      if (node.is_leaf())
        append_bytes(
            bytes, static_cast<std::uint16_t>(static_cast<std::uint32_t>(node.limit) >> kLeafBits));
      else
        append_bytes(bytes, static_cast<std::int16_t>(node.limit));
    }
  }
  return bytes;
}

BoostedTrees BoostedTrees::from_bytes(std::span<const std::uint8_t> bytes, std::size_t features) {
  const auto require = [](bool holds) {
    if (!holds) throw Error(ErrorKind::invalid_argument, "boosted trees: the bytes are damaged");
  };
  BoostedTrees trees;
  trees.mean_ = take<double>(bytes);
  require(std::isfinite(trees.mean_));
  const auto count = take<std::uint32_t>(bytes);
  for (std::uint32_t t = 0; t < count; ++t) {
    trees.roots_.push_back(static_cast<std::uint32_t>(trees.nodes_.size()));
    const auto nodes = take<std::uint16_t>(bytes);
    require(nodes > 0);
    std::vector<std::size_t> open;  // nodes whose left side is being read
    for (std::uint32_t i = 0; i < nodes; ++i) {
      Node node;
      node.feature = take<std::uint8_t>(bytes);
      if (node.is_leaf()) {
        node.limit = static_cast<std::int32_t>(
            static_cast<std::uint32_t>(take<std::uint16_t>(bytes)) << kLeafBits);
        require(std::isfinite(node.value()));  // times are compared
        // The next node is the right one of the last whose left side is complete now.
        require(open.empty() == (i + 1 == nodes));
        if (!open.empty()) {
          trees.nodes_[open.back()].right =
              static_cast<std::uint16_t>(trees.nodes_.size() + 1 - open.back());
          open.pop_back();
        }
      } else {
        require(node.feature < features);
        node.limit = take<std::int16_t>(bytes);
        open.push_back(trees.nodes_.size());
      }
      trees.nodes_.push_back(node);
    }
    require(open.empty());
  }
  require(bytes.empty());
  return trees;
}

}  // namespace tilewise
