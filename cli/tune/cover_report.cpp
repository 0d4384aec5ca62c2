#include "cli/tune/cover_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "cli/common/json.hpp"
#include "cli/common/tune_report.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

using Points = std::vector<const CoverPoint*>;

/// The table of losses has one row or column for sizes 4^i .. 4^(i+1) - 1.
int band_of(std::int64_t extent) {
  int band = 0;
  for (std::int64_t rest = extent / 4; rest > 0; rest /= 4) ++band;
  return band;
}

std::string band_text(int band) { return std::to_string(std::int64_t{1} << (2 * band)) + ".."; }

Points points_of(const CoverResult& result, bool checks) {
  Points points;
  for (const CoverPoint& point : result.points)
    if (point.has_loss() && (point.check || !checks)) points.push_back(&point);
  return points;
}

const CoverPoint* worst_of(const Points& points) {
  const auto worst = std::max_element(
      points.begin(), points.end(),
      [](const CoverPoint* x, const CoverPoint* y) { return x->loss() < y->loss(); });
  return worst == points.end() ? nullptr : *worst;
}

/// cuBLAS times over ours: geometric mean and minimum over the points that have both.
struct Ratios {
  std::size_t count = 0;
  double mean = 0, least = 0;
};

Ratios ratios_of(const CoverResult& result) {
  Ratios ratios;
  double sum = 0;
  for (const CoverPoint& point : result.points) {
    if (!(point.cublas_us > 0) || !(point.best_us > 0)) continue;
    const double ratio = point.cublas_us / point.best_us;
    sum += std::log(ratio);
    ratios.least = ratios.count == 0 ? ratio : std::min(ratios.least, ratio);
    ++ratios.count;
  }
  if (ratios.count > 0) ratios.mean = std::exp(sum / static_cast<double>(ratios.count));
  return ratios;
}

std::size_t checks(const CoverResult& result) {
  return static_cast<std::size_t>(std::count_if(result.points.begin(), result.points.end(),
                                                [](const CoverPoint& p) { return p.check; }));
}

std::string range_text(const SizeRange& range) {
  std::string text = kind_text(range.kind) + ", ";
  if (range.blocks.size() > 1)
    return text + join(range.layouts(), ",") + ", " + std::to_string(range.blocks.size()) +
           " ranges";
  const SizeBlock& only = range.blocks.front();
  return text + join(only.layouts, ",") + ", m " + only.m.text() + ", n " + only.n.text() + ", k " +
         only.k.text();
}

Json block_json(const SizeBlock& block) {
  return {{"layouts", array_of(block.layouts, [](Layout x) { return to_string(x); })},
          {"m", block.m.text()},
          {"n", block.n.text()},
          {"k", block.k.text()}};
}

Json range_json(const SizeRange& range) {
  Json json = {{"dtype", to_string(range.kind.a.type)},
               {"dtype_b", to_string(range.kind.b.type)},
               {"out", to_string(range.kind.c.type)},
               {"math", to_string(range.kind.math)}};
  if (range.blocks.size() == 1)
    json.update(block_json(range.blocks.front()));
  else
    json["ranges"] = array_of(range.blocks, block_json);
  return json;
}

void print_layouts(const Covered& covered, const Output& output) {
  Table table({{"layout"},
               {"points", true},
               {"configurations", true},
               {"images", true},
               {"loss by the limit", true}});
  for (const CoverLayout& layout : covered.result.layouts)
    table.add({std::string(to_string(layout.layout)), std::to_string(layout.points),
               std::to_string(layout.configurations), std::to_string(layout.images),
               format_percent(layout.limit_loss)});
  if (!table.empty()) table.print(output);
}

/// Prints the mean loss (%) of all points that have a loss, by bands of m (rows) and n (columns).
void print_losses(const Covered& covered, const Output& output) {
  std::map<int, std::map<int, Points>> cells;
  int least = 99, most = 0;
  for (const CoverPoint* point : points_of(covered.result, false)) {
    const int column = band_of(point->problem.n);
    cells[band_of(point->problem.m)][column].push_back(point);
    least = std::min(least, column);
    most = std::max(most, column);
  }
  if (cells.empty()) return;
  std::vector<Column> columns{{"loss by m, n"}};
  for (int band = least; band <= most; ++band) columns.push_back({"n " + band_text(band), true});
  Table table(std::move(columns));
  for (auto& [row, found] : cells) {
    std::vector<std::string> line{"m " + band_text(row)};
    for (int band = least; band <= most; ++band)
      line.push_back(found.count(band) == 0 ? "-" : format_percent(mean_loss(found[band])));
    table.add(std::move(line));
  }
  table.print(output);
}

std::string loss_text(const Points& points) {
  const CoverPoint* worst = worst_of(points);
  return format_percent(mean_loss(points)) + " in the mean, " + format_percent(worst->loss()) +
         " at worst (" + table_text(worst->problem) + ")";
}

Json point_json(const CoverPoint& point) {
  Json json = {{"problem", json_of(point.problem)},
               {"check", point.check},
               {"best_us", positive_or_null(point.best_us)},
               {"served_us", positive_or_null(point.served_us)},
               {"loss", point.has_loss() ? Json(point.loss()) : Json()},
               {"cublas_us", positive_or_null(point.cublas_us)}};
  return json;
}

Json loss_json(const Points& points) {
  const CoverPoint* worst = worst_of(points);
  Json json = {{"points", points.size()}, {"mean", nullptr}, {"worst", nullptr}};
  if (!worst) return json;
  json["mean"] = mean_loss(points);
  json["worst"] = worst->loss();
  json["worst_problem"] = json_of(worst->problem);
  return json;
}

}  // namespace

ProgressLine cover_line(const CoverProgress& progress) {
  ProgressLine line;
  if (progress.point) line = progress_line(*progress.point);
  line.parts.insert(
      line.parts.begin(),
      "cover: " + format_seconds(std::max(0.0, progress.budget_seconds - progress.seconds)) +
          " left, " + std::to_string(progress.points) + " points" +
          (progress.check ? "; check" : ""));
  return line;
}

void print_covered(const Covered& covered, const Output& output) {
  const CoverResult& result = covered.result;
  const std::string several =
      covered.devices > 1 ? std::to_string(covered.devices) + " x " : std::string();
  print_line("covered " + range_text(covered.range) + " on " + several + covered.gpu.info.name +
             " in " + format_seconds(result.seconds) + ": " + std::to_string(result.points.size()) +
             " points, the last " + std::to_string(checks(result)) + " as checks, and " +
             std::to_string(result.compared) + " compared");
  print_layouts(covered, output);
  print_losses(covered, output);
  if (const Points checks = points_of(result, true); !checks.empty())
    print_line("expected loss of a size that is not tuned, by the " +
               std::to_string(checks.size()) + " checks: " + loss_text(checks));
  else if (const Points all = points_of(result, false); !all.empty())
    print_line("expected loss of a size that is not tuned (no point was checked; of all points): " +
               loss_text(all));
  if (const Ratios ratios = ratios_of(result); ratios.count > 0)
    print_line("against cuBLAS at " + std::to_string(ratios.count) + " points: geometric mean " +
               format_number(ratios.mean, 2) + "x, least " + format_number(ratios.least, 2) + "x");
  if (result.tuned_before > 0)
    note(output, std::to_string(result.tuned_before) +
                     " sizes were measured before and are left as they are");
  if (result.left_out > 0)
    note(output, std::to_string(result.left_out) + " sizes are left out: memory did not suffice");
  if (result.exhausted) note(output, "the range has no other sizes");
}

Json covered_json(const Covered& covered) {
  const CoverResult& result = covered.result;
  const auto layout_json = [](const CoverLayout& layout) {
    return Json{{"layout", to_string(layout.layout)},
                {"points", layout.points},
                {"configurations", layout.configurations},
                {"added", layout.added},
                {"images", layout.images},
                {"limit_loss", layout.limit_loss}};
  };
  const Ratios ratios = ratios_of(result);
  Json json = {{"gpu", gpu_key(covered.gpu.info)},
               {"devices", covered.devices},
               {"range", range_json(covered.range)},
               {"seconds", result.seconds},
               {"interrupted", result.interrupted},
               {"exhausted", result.exhausted},
               {"compared", result.compared},
               {"tuned_before", result.tuned_before},
               {"left_out", result.left_out},
               {"layouts", array_of(result.layouts, layout_json)},
               {"loss",
                {{"checks", loss_json(points_of(result, true))},
                 {"all", loss_json(points_of(result, false))}}},
               {"cublas", {{"points", ratios.count}}},
               {"points", array_of(result.points, point_json)}};
  if (ratios.count > 0) {
    json["cublas"]["geometric_mean"] = ratios.mean;
    json["cublas"]["least"] = ratios.least;
  }
  if (result.failure) json["error"] = result.failure->what();
  return json;
}

}  // namespace tilewise::cli
