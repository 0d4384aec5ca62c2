#include "tuner/size_range.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>

#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 40;
constexpr std::int64_t kAligned = 16;  // elements: whole rows of 16 bytes in every type

[[noreturn]] void refuse(std::string_view item) {
  throw Error(ErrorKind::invalid_argument,
              "'" + std::string(item) +
                  "' is not allowed; give whole numbers from 1 to 2^40 and intervals of them, as "
                  "in 4096,14336 or 1..4096");
}

std::int64_t parse_number(std::string_view text, std::string_view item) {
  const auto value = number_in<std::int64_t>(text);
  if (!value || *value < 1 || *value > kLargest) refuse(item);
  return *value;
}

double doublings(std::int64_t first, std::int64_t last) {
  return std::log2(static_cast<double>(last) / static_cast<double>(first));
}

}  // namespace

Extents Extents::parse(std::string_view text) {
  Extents extents;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t dots = item.find("..");
    const std::int64_t first = parse_number(item.substr(0, dots), item);
    const std::int64_t last =
        dots == std::string_view::npos ? first : parse_number(item.substr(dots + 2), item);
    if (last < first) refuse(item);
    extents.items_.push_back({first, last});
  }
  return extents;
}

std::int64_t Extents::at(double place) const {
  double total = 0;
  for (const Item& item : items_) total += 1 + doublings(item.first, item.last);
  double rest = std::clamp(place, 0.0, 1.0) * total;
  for (const Item& item : items_) {
    const double share = 1 + doublings(item.first, item.last);
    if (rest > share && &item != &items_.back()) {
      rest -= share;
      continue;
    }
    const double value = static_cast<double>(item.first) *
                         std::exp2(std::min(rest / share, 1.0) * doublings(item.first, item.last));
    return std::clamp(static_cast<std::int64_t>(std::llround(value)), item.first, item.last);
  }
  return items_.back().last;
}

bool Extents::contains(std::int64_t value) const {
  return std::any_of(items_.begin(), items_.end(), [value](const Item& item) {
    return item.first <= value && value <= item.last;
  });
}

std::int64_t Extents::smallest() const {
  return std::min_element(items_.begin(), items_.end(),
                          [](const Item& x, const Item& y) { return x.first < y.first; })
      ->first;
}

std::int64_t Extents::largest() const {
  return std::max_element(items_.begin(), items_.end(),
                          [](const Item& x, const Item& y) { return x.last < y.last; })
      ->last;
}

std::vector<std::int64_t> Extents::numbers() const {
  std::vector<std::int64_t> numbers;
  for (const Item& item : items_) numbers.push_back(item.first);
  return numbers;
}

std::vector<std::int64_t> Extents::typical() const {
  std::set<std::int64_t> values;
  for (const Item& item : items_) {
    values.insert({item.first, item.last});
    for (std::int64_t value = 1; value < item.last; value *= 2)
      if (value > item.first) values.insert(value);
  }
  return {values.begin(), values.end()};
}

bool Extents::fixed() const {
  return std::all_of(items_.begin(), items_.end(),
                     [](const Item& item) { return item.first == item.last; });
}

std::string Extents::text() const {
  return join(items_, ",", [](const Item& item) {
    return std::to_string(item.first) +
           (item.first != item.last ? ".." + std::to_string(item.last) : "");
  });
}

bool SizeBlock::contains(const Problem& problem) const {
  return std::count(layouts.begin(), layouts.end(), layout_of(problem)) > 0 &&
         m.contains(problem.m) && n.contains(problem.n) && k.contains(problem.k);
}

bool SizeRange::contains(const Problem& problem) const {
  return problem.a.type == kind.a.type && problem.b.type == kind.b.type &&
         problem.c.type == kind.c.type && problem.accumulator == kind.accumulator &&
         problem.math == kind.math && problem.batch == kind.batch &&
         problem.grouping == kind.grouping && problem.distribution == kind.distribution &&
         std::any_of(blocks.begin(), blocks.end(),
                     [&](const SizeBlock& block) { return block.contains(problem); });
}

std::vector<Layout> SizeRange::layouts() const {
  std::vector<Layout> all;
  for (const SizeBlock& block : blocks)
    for (const Layout layout : block.layouts)
      if (std::find(all.begin(), all.end(), layout) == all.end()) all.push_back(layout);
  return all;
}

RangePoints::RangePoints(SizeRange range, std::uint64_t seed, double most_flops, double most_bytes)
    : range_(std::move(range)),
      most_flops_(most_flops),
      most_bytes_(most_bytes),
      progress_(range_.blocks.size()) {
  std::mt19937_64 generator(seed);
  for (double& start : start_) start = static_cast<double>(generator() >> 11) / (1ULL << 53);
}

Problem RangePoints::point(const SizeBlock& block, std::uint64_t index) const {
  // Powers of 1/g, g^4 = g + 1: the recurrence of least discrepancy known in three dimensions.
  constexpr double kSteps[] = {0.8191725133961645, 0.6710436067037893, 0.5497004779019703};
  double places[3];
  for (int i = 0; i < 3; ++i) {
    const double place = start_[i] + static_cast<double>(index + 1) * kSteps[i];
    places[i] = place - std::floor(place);
  }
  const std::uint64_t layouts = block.layouts.size();
  // Fewer kernels serve unaligned problems, so these get more points.
  const bool aligned = index / layouts % 5 % 2 == 1;
  const auto value = [aligned](const Extents& extents, double place) {
    const std::int64_t any = extents.at(place);
    const std::int64_t rounded = std::max(kAligned, (any + kAligned / 2) / kAligned * kAligned);
    return aligned && extents.contains(rounded) ? rounded : any;
  };
  Problem problem = range_.kind;
  set_layout(problem, block.layouts[index % layouts]);
  problem.m = value(block.m, places[0]);
  problem.n = value(block.n, places[1]);
  problem.k = value(block.k, places[2]);
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

std::optional<Problem> RangePoints::next_of(const SizeBlock& block, Progress& progress) {
  constexpr int kMostDraws = 10'000;
  for (int draw = 0; draw < kMostDraws; ++draw) {
    const Problem problem = point(block, progress.index++);
    if (flops_of(problem) > most_flops_ || operand_bytes(problem) > most_bytes_ ||
        std::find(taken_.begin(), taken_.end(), problem) != taken_.end())
      continue;
    taken_.push_back(problem);
    progress.points += 1 / block.weight;
    return problem;
  }
  progress.ended = true;
  return std::nullopt;
}

std::optional<Problem> RangePoints::next() {
  for (;;) {
    std::size_t least = progress_.size();
    for (std::size_t i = 0; i < progress_.size(); ++i)
      if (!progress_[i].ended &&
          (least == progress_.size() || progress_[i].points < progress_[least].points))
        least = i;
    if (least == progress_.size()) return std::nullopt;
    if (std::optional<Problem> problem = next_of(range_.blocks[least], progress_[least]))
      return problem;
  }
}

}  // namespace tilewise
