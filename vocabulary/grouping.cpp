#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "tilewise/error.hpp"
#include "vocabulary/enum_names.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

constexpr std::array<std::string_view, 4> kGroupings{"none", "rows", "counts", "depth"};
constexpr std::array<std::string_view, 3> kDistributions{"even", "zipf", "one_hot"};

/// Rows of each product of `all`.
std::vector<std::int64_t> distributed(const Problem& problem, std::int64_t all) {
  const auto products = static_cast<std::size_t>(problem.batch);
  std::vector<double> shares(products, 1);
  for (std::size_t i = 0; i < products; ++i) {
    if (problem.distribution == Distribution::zipf) shares[i] = 1 / static_cast<double>(i + 1);
    if (problem.distribution == Distribution::one_hot) shares[i] = i == products / 2 ? 1 : 0;
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::int64_t> rows(products);
  for (std::size_t i = 0; i < products; ++i)
    rows[i] = static_cast<std::int64_t>(static_cast<double>(all) * (shares[i] / sum));
  // What the rounding leaves over: evenly a row each, otherwise to the first.
  std::int64_t rest = all - std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (problem.distribution != Distribution::even) rows.front() += std::exchange(rest, 0);
  for (std::size_t i = 0; rest > 0; ++i, --rest) ++rows[i % products];
  return rows;
}

// As group_rows can name.
constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

/// Whether the products are so many that their rows are not listed for an estimate.
bool too_many(const Problem& problem) { return problem.batch > 65'536; }

}  // namespace

std::string_view to_string(Grouping grouping) {
  return kGroupings.at(static_cast<std::size_t>(grouping));
}
Grouping parse_grouping(std::string_view name) { return parse_named<Grouping>(name, "grouping"); }

std::string_view to_string(Distribution distribution) {
  return kDistributions.at(static_cast<std::size_t>(distribution));
}
Distribution parse_distribution(std::string_view name) {
  return parse_named<Distribution>(name, "distribution");
}

std::string grouping_text(const Problem& problem) {
  if (!is_grouped(problem)) return "";
  return std::string(to_string(problem.grouping)) + " " +
         std::string(to_string(problem.distribution));
}

void set_grouping(Problem& problem, std::string_view text) {
  problem.grouping = Grouping::none;
  problem.distribution = Distribution::even;
  if (text.empty()) return;
  const std::size_t end = text.find(' ');
  const Grouping grouping = parse_grouping(text.substr(0, end));
  if (end == text.npos || grouping == Grouping::none)
    throw Error(ErrorKind::invalid_argument, "a problem grouped by \"" + std::string(text) +
                                                 "\"; it is grouped by rows, counts or depth, and "
                                                 "by a distribution, as in \"rows even\"");
  problem.distribution = parse_distribution(text.substr(end + 1));
  problem.grouping = grouping;
}

std::string unsupported_grouping(const Problem& problem) {
  if (!is_grouped(problem)) return "";
  if (problem.pointers) return "a grouped product by pointers; give strides";
  if (problem.epilogue)
    for (const EpilogueSlot& slot : problem.epilogue->operands)
      if (slot.use == EpilogueUse::summed)
        return "the sum over rows in the epilogue \"" + epilogue_text(problem) +
               "\" of a grouped product";
  if (problem.grouping != Grouping::depth) return "";
  if (layout_of(problem) != Layout::tn)
    return "a product grouped by depth in layout " + std::string(to_string(layout_of(problem))) +
           "; A is stored as k x m and B as k x n, which is tn";
  if (problem.order)
    return "a batch-invariant product grouped by depth: an order is kept for one k";
  return "";
}

void check_grouping(const Problem& problem) {
  if (!is_grouped(problem)) return;
  if (std::string why = unsupported_grouping(problem); !why.empty())
    throw Error(ErrorKind::unsupported, std::move(why));
  if (most_of(problem) > kMostRows || problem.batch > kMostRows)
    throw Error(ErrorKind::invalid_argument,
                (problem.grouping == Grouping::depth ? "k = " : "m = ") +
                    std::to_string(most_of(problem)) +
                    " and batch = " + std::to_string(problem.batch) +
                    " of a grouped product; each is at most 2^31 - 1, as the numbers in "
                    "group_rows");
}

std::int64_t most_of(const Problem& problem) {
  return problem.grouping == Grouping::depth ? problem.k : problem.m;
}

Problem tuned_as(const Problem& problem) {
  if (problem.grouping != Grouping::counts) return problem;
  Problem rows = problem;
  rows.grouping = Grouping::rows;
  const double half = double(problem.m) * double(problem.batch) / 2;
  rows.m = half >= kMostRows ? kMostRows : static_cast<std::int64_t>(std::ceil(half));
  const Alignment own = alignment_of(problem), natural = natural_alignment(rows);
  set_alignment(
      rows, {std::min(own.a, natural.a), std::min(own.b, natural.b), std::min(own.c, natural.c)});
  return rows;
}

std::vector<std::int32_t> group_rows_of(const Problem& problem) {
  std::vector<std::int32_t> numbers;
  if (!is_grouped(problem) || problem.batch == 0) return numbers;
  const bool counts = problem.grouping == Grouping::counts;
  std::int64_t end = 0;
  for (const std::int64_t rows :
       distributed(problem, counts ? problem.m * problem.batch / 2 : most_of(problem))) {
    end += rows;
    numbers.push_back(static_cast<std::int32_t>(counts ? std::min(rows, problem.m) : end));
  }
  return numbers;
}

std::vector<RowRange> row_ranges(const Problem& problem, const std::int32_t* group_rows) {
  std::vector<RowRange> ranges;
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    const std::int64_t most = most_of(problem);
    std::int64_t end = std::clamp<std::int64_t>(group_rows[i], 0, most);
    if (problem.grouping == Grouping::depth) {
      const std::int64_t begin = i == 0 ? 0 : std::clamp<std::int64_t>(group_rows[i - 1], 0, most);
      ranges.push_back({begin, std::max(begin, end)});
      continue;
    }
    if (problem.grouping == Grouping::rows) end = std::max(end, before);
    ranges.push_back({before, end});
    if (problem.grouping == Grouping::rows) before = end;
  }
  return ranges;
}

ProductRows::ProductRows(const Problem& problem) : m_(problem.m) {
  if (problem.grouping == Grouping::rows)
    ranges_ = row_ranges(problem, group_rows_of(problem).data());
}

std::int64_t ProductRows::product_of(std::int64_t row) const {
  if (ranges_.empty()) return row / m_;
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), row,
                       [](std::int64_t at, const RowRange& range) { return at < range.end; });
  return std::min(behind - ranges_.begin(), std::ssize(ranges_) - 1);
}

RowRange ProductRows::of(std::int64_t product) const {
  if (ranges_.empty()) return {product * m_, (product + 1) * m_};
  return ranges_[static_cast<std::size_t>(product)];
}

double mean_rows(const Problem& problem) {
  const auto m = static_cast<double>(problem.m), products = static_cast<double>(problem.batch);
  if (problem.grouping == Grouping::rows) return products > 0 ? m / products : 0;
  return problem.grouping == Grouping::counts ? m / 2 : m;
}

double mean_depth(const Problem& problem) {
  const auto k = static_cast<double>(problem.k), products = static_cast<double>(problem.batch);
  return problem.grouping == Grouping::depth && products > 0 ? k / products : k;
}

double expected_depth_tiles(const Problem& problem, std::int64_t tile) {
  if (problem.grouping != Grouping::depth || problem.batch == 0)
    return double(ceil_div(problem.k, tile));
  if (too_many(problem)) return std::ceil(mean_depth(problem) / double(tile));
  std::int64_t tiles = 0;
  for (const RowRange& steps : row_ranges(problem, group_rows_of(problem).data()))
    tiles += ceil_div(steps.end - steps.begin, tile);
  return static_cast<double>(tiles) / static_cast<double>(problem.batch);
}

std::int64_t most_rows(const Problem& problem) {
  if (!is_grouped(problem) || problem.grouping == Grouping::depth || too_many(problem))
    return problem.m;
  std::int64_t most = 0;
  for (const RowRange& rows : row_ranges(problem, group_rows_of(problem).data()))
    most = std::max(most, rows.end - rows.begin);
  return most;
}

std::int64_t expected_matrices_b(const Problem& problem) {
  const std::int64_t all = matrices_b(problem);
  if (!is_grouped(problem) || problem.grouping == Grouping::depth || all == 1 || too_many(problem))
    return all;
  const std::vector<RowRange> ranges = row_ranges(problem, group_rows_of(problem).data());
  return std::count_if(ranges.begin(), ranges.end(),
                       [](const RowRange& rows) { return rows.begin < rows.end; });
}

double expected_bytes(const Problem& problem) {
  const std::int64_t unread = matrices_b(problem) - expected_matrices_b(problem);
  return operand_bytes(problem) -
         double(unread) * double(problem.k) * double(problem.n) * bits_of(problem.b.type) / 8;
}

std::int64_t row_tiles(const Problem& problem, std::int64_t tile) {
  if (problem.grouping != Grouping::rows) return ceil_div(problem.m, tile) * problem.batch;
  // Each product with rows has at most tile - 1 that are missing in its last tile.
  return (problem.m + std::min(problem.batch, problem.m) * (tile - 1)) / tile;
}

double expected_row_tiles(const Problem& problem, std::int64_t tile) {
  if (!is_grouped(problem) || problem.grouping == Grouping::depth)
    return double(ceil_div(problem.m, tile)) * double(problem.batch);
  if (too_many(problem)) return static_cast<double>(row_tiles(problem, tile));
  std::int64_t tiles = 0;
  for (const RowRange& rows : row_ranges(problem, group_rows_of(problem).data()))
    tiles += ceil_div(rows.end - rows.begin, tile);
  return static_cast<double>(tiles);
}

}  // namespace tilewise
