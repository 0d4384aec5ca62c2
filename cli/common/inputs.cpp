#include "cli/common/inputs.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include "cli/common/kinds.hpp"
#include "cli/common/problem_list.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

/// The sizes of a list. The error names every bad item, not only the first.
std::vector<Size> sizes_of(const std::string& text) {
  std::vector<Size> sizes;
  std::string bad;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    try {
      for (const Size& size : parse_sizes(item))
        if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
    } catch (const Error&) {
      append(bad, "'" + item + "'");
    }
  }
  if (!bad.empty())
    refuse("--sizes: " + bad + (bad.find(", ") == std::string::npos ? " is" : " are") +
           " not allowed; a size is N or MxNxK with each number from 1 to 2^40, as in "
           "1024,4096,1024x512x2048");
  if (sizes.empty()) refuse("--sizes: empty; give sizes as in 1024,4096,1024x512x2048");
  return sizes;
}

int parse_alignment(const std::string& text, DType type) {
  const int value = number_in<int>(text).value_or(0);
  const bool power_of_two = value >= 1 && value <= 16 && (value & (value - 1)) == 0;
  if (!power_of_two || value < bytes_of(type))
    refuse("--align: '" + text + "' is not allowed; alignments are auto, or powers of two from " +
           std::to_string(bytes_of(type)) + " (an element of " + std::string(to_string(type)) +
           ") to 16 bytes: one for all operands, or three as in 16,4,16");
  return value;
}

Alignment alignment_for(const Problem& problem, const std::string& text) {
  if (text == "auto") return natural_alignment(problem);
  const auto parts = split_list(text);
  if (parts.size() == 1) {  // C's elements may be wider than A's
    const int all = parse_alignment(parts[0], problem.a.type);
    return {all, all, std::max(all, bytes_of(problem.c.type))};
  }
  if (parts.size() != 3)
    refuse("--align: '" + text + "' is not allowed: it has " + std::to_string(parts.size()) +
           " values; give auto, one value for all operands, or three (A,B,C)");
  return {parse_alignment(parts[0], problem.a.type), parse_alignment(parts[1], problem.b.type),
          parse_alignment(parts[2], problem.c.type)};
}

/// "90s" -> 90.
std::optional<double> seconds_of(const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(parsed.ptr, text.data() + text.size());
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  const double seconds = value * scale;
  if (parsed.ec != std::errc() || !(seconds > 0) || !std::isfinite(seconds)) return std::nullopt;
  return seconds;
}

std::string bad_time(const std::string& text) {
  return "'" + text + "' is not allowed; give seconds above 0, as in 60, 90s, 2m, 1.5h";
}

/// "{f32,f64,...}": the distinct names that `pick` returns for all product kinds, without "".
std::string choices_of(const std::function<std::string_view(const ProductKind&)>& pick) {
  std::vector<std::string> names;
  for (const ProductKind& kind : product_kinds()) {
    const std::string name(pick(kind));
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return "{" + join(names, ",") + "}";
}

/// Parses an option's text; an error names the option.
template <class Parse>
auto parsed_as(const char* option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    refuse(std::string(option) + ": " + error.what());
  }
}

/// "strict, tf32, f32x3".
std::string modes_of(DType operand) {
  std::string names;
  for (const ProductKind& kind : product_kinds())
    if (kind.a == operand && kind.b == operand && kind.c == default_result(operand))
      append(names, to_string(kind.math));
  return names;
}

/// Throws for types that no product kind combines.
[[noreturn]] void refuse_kind(DType operand, DType c, MathMode math) {
  const std::string name(to_string(operand));
  if (find_product_kind(operand, default_result(operand), MathMode::strict) &&
      !find_product_kind(operand, default_result(operand), math)) {
    const std::string modes = modes_of(operand);
    refuse("--math " + std::string(to_string(math)) + " is no way to multiply " + name +
           (modes == "strict" ? ", which has one mode, " : "; the modes are ") + modes);
  }
  const std::string results = join(result_types(operand, math));
  if (results.empty())
    refuse("--dtype: " + name + " is a type of results only; A and B are " + join(operand_types()));
  refuse("--out " + std::string(to_string(c)) + ": products of " + name + " give " + results);
}

/// The problems that the options name, without --accuracy.
std::vector<WeightedProblem> named_problems(const ProblemOptions& options) {
  if (!names_problems(options))
    refuse(
        "--sizes is required: which products, as in --sizes 1024,4096,1024x512x2048; or --problems "
        "with a list of them");
  if (!options.list.empty()) return without_repeats(read_problem_list(options.list, options));
  std::vector<WeightedProblem> problems;
  for (const Problem& problem : problems_of_sizes(options)) problems.push_back({problem});
  return problems;
}

}  // namespace

Problem kind_of(const ProblemOptions& options) {
  const DType operand = parse_type("--dtype", options.dtype, operand_types());
  const MathMode math = parsed_as("--math", options.math, parse_math_mode);
  const DType c = options.out.empty()
                      ? default_result(operand)
                      : parse_type("--out", options.out, result_types(operand, math));
  const DType b = options.dtype_b.empty()
                      ? operand
                      : parse_type("--dtype-b", options.dtype_b, types_beside(operand));
  if (b == operand && !find_product_kind(operand, c, math)) refuse_kind(operand, c, math);
  if (!find_product_kind(operand, b, c, math))
    refuse("--dtype-b " + std::string(to_string(b)) + ": beside an A of " +
           std::string(to_string(operand)) + ", with results of " + std::string(to_string(c)) +
           " in mode " + std::string(to_string(math)) + ", B is " +
           join(types_beside(operand, c, math)));
  Problem problem;
  set_types(problem, operand, b, c, math);
  problem.batch = options.groups > 0 ? options.groups : options.batch;
  if (options.groups > 0) problem.grouping = Grouping::rows;
  if (!options.grouped.empty())
    problem.grouping = parsed_as("--grouped", options.grouped, parse_grouping);
  if (options.groups > 0 && !is_grouped(problem))
    refuse("--grouped none: --groups are grouped by rows or counts");
  if (is_grouped(problem))
    problem.distribution = parsed_as("--distribution", options.distribution, parse_distribution);
  return problem;
}

CLI::Option* add_list_option(CLI::App& app, const std::string& names, std::string& value,
                             const std::string& help, char separator) {
  const auto assign = [&value, separator](const std::string& lines) {
    value = lines;
    std::replace(value.begin(), value.end(), '\n', separator);  // join() puts line ends
  };
  CLI::Option* option = app.add_option_function<std::string>(names, assign, help)->join();
  return value.empty() ? option : option->default_str(value);
}

void add_kind_options(CLI::App& app, ProblemOptions& options) {
  add_list_option(app, "--layout,--layouts", options.layout,
                  "How A and B are stored (n as is, t transposed); a list, or all")
      ->type_name("{nn,nt,tn,tt,all}");
  app.add_option("--dtype", options.dtype, "Type of A, and of B without --dtype-b")
      ->type_name(choices_of([](const ProductKind& kind) { return to_string(kind.a); }))
      ->capture_default_str();
  app.add_option(
         "--dtype-b", options.dtype_b,
         "Type of B where it is narrower than A's, as of weights beside an A of f16 or bf16")
      ->type_name(choices_of([](const ProductKind& kind) {
        return kind.b == kind.a ? std::string_view() : to_string(kind.b);
      }));
  app.add_option("--out", options.out, "Type of C (else A's; of i8 i32, of e4m3 and e5m2 f32)")
      ->type_name(choices_of([](const ProductKind& kind) { return to_string(kind.c); }));
  app.add_option("--math", options.math,
                 "How f32 is multiplied: strict; on tensor cores rounded to 11 bits (tf32), or "
                 "by three products of parts, about as exact as strict (f32x3). How e4m3 and e5m2 "
                 "are: strict, or with the hardware's own sums (fast). f64 and f32 may be by "
                 "narrower products, within an error that the GPU checks (emulated; "
                 "docs/emulation.md)")
      ->type_name(choices_of([](const ProductKind& kind) { return to_string(kind.math); }))
      ->capture_default_str();
  app.add_option("--batch", options.batch,
                 "Products of each size in one call, their matrices one after the other")
      ->type_name("N")
      ->transform(whole_number(1))
      ->capture_default_str();
  app.add_option(
         "--groups", options.groups,
         "Grouped products, as of a mixture of experts: so many share the rows of A and C, m "
         "of each size, and each has a B (docs/grouped.md)")
      ->type_name("N")
      ->transform(whole_number(1))
      ->excludes(app.get_option("--batch"));
  app.add_option(
         "--grouped", options.grouped,
         "How: rows, the rows of all follow one another; counts, each has its own m rows, of "
         "which the first ones count; depth, the k of all follow one another (layout tn)")
      ->type_name("{rows,counts,depth}")
      ->needs(app.get_option("--groups"));
  app.add_option(
         "--distribution", options.distribution,
         "Rows of a group that a search measures with: even; zipf, group i in proportion to "
         "1 / i; one_hot, one has all. Any are computed")
      ->type_name("{even,zipf,one_hot}")
      ->needs(app.get_option("--groups"))
      ->capture_default_str();
}

void add_problem_options(CLI::App& app, ProblemOptions& options, const std::string& sizes_default,
                         bool with_accuracy) {
  options.sizes = sizes_default;
  CLI::Option* sizes =
      add_list_option(app, "--sizes,--size", options.sizes,
                      "N or MxNxK, several with commas or several times: 1024,4096x64x512")
          ->type_name("SIZES");
  app.add_option("--problems", options.list,
                 "Instead of --sizes: a list of problems, CSV with a heading or JSON, with m, n, k "
                 "and where they differ from these options layout, dtype, dtype_b, out, math, "
                 "batch, grouped, "
                 "distribution, align, epilogue, and a weight; - is standard input")
      ->type_name("FILE")
      ->excludes(sizes);
  add_kind_options(app, options);
  add_list_option(app, "--rows", options.rows,
                  "With --groups: rows of all groups together, instead of the sizes' m; a list")
      ->type_name("ROWS")
      ->needs(app.get_option("--groups"));
  if (with_accuracy)
    app.add_option("--accuracy", options.accuracy,
                   "Instead of --math: the fastest mode whose error bound, relative to |A||B|, is "
                   "at most this")
        ->type_name("ERROR")
        ->check(number_above_zero())
        ->excludes(app.get_option("--math"));
  app.add_option("--align", options.align,
                 "Bytes that pointers and rows are aligned to: auto, one value, or A,B,C")
      ->type_name("{auto,16,8,4,2,1}")
      ->capture_default_str();
  app.add_option("--epilogue", options.epilogue,
                 "What becomes of the sums acc before they are stored in C: 'relu(acc + bias[j])', "
                 "with operands by row [i], column [j], element [i,j] or as scalars "
                 "(docs/epilogues.md)")
      ->type_name("TEXT");
  CLI::Option* order = app.add_option(
      "--order", options.order,
      "The order in which the products of an element are added, as `autotune explain` writes it: "
      "fused, tensor16+parts2048 (docs/invariance.md)");
  order->type_name("TEXT");
  app.add_flag_callback(
         "--invariant", [&options] { options.order = "kept"; },
         "Batch-invariant products: all of one n and k in the order that is kept for them")
      ->excludes(order);
}

void need_sizes(CLI::App& app) {
  app.parse_complete_callback([&app] {
    if (app.count("--sizes") + app.count("--problems") > 0) return;
    for (const char* name :
         {"--layout", "--dtype", "--dtype-b", "--out", "--math", "--accuracy", "--batch",
          "--groups", "--align", "--epilogue", "--order", "--invariant", "--stale"})
      if (const CLI::Option* option = app.get_option_no_throw(name); option && option->count() > 0)
        throw CLI::RequiresError(name, "--sizes or --problems");
  });
}

std::vector<Layout> parse_layouts(const std::string& text) {
  if (text == "all") return {Layout::nn, Layout::nt, Layout::tn, Layout::tt};
  std::vector<Layout> layouts;
  for (const std::string& name : split_list(text)) {
    try {
      const Layout layout = parse_layout(name);
      if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
        layouts.push_back(layout);
    } catch (const Error&) {
      refuse("--layout: unknown layout '" + name + "'; there are nn, nt, tn, tt, and all");
    }
  }
  if (layouts.empty()) refuse("--layout: empty; there are nn, nt, tn, tt, and all");
  return layouts;
}

bool names_problems(const ProblemOptions& options) {
  return !options.sizes.empty() || !options.list.empty();
}

void refuse_kept_order(const ProblemOptions& options) {
  if (options.order == "kept")
    refuse(
        "--invariant: the order depends on the GPU; name it by --order, as `autotune explain "
        "--invariant` writes it");
}

namespace {

/// The sizes with each of these m, a list with commas; unchanged without any.
std::vector<Size> with_rows(const std::vector<Size>& sizes, const std::string& rows) {
  if (rows.empty()) return sizes;
  std::vector<Size> made;
  for (const Size& size : sizes)
    for (const std::string& item : split_list(rows)) {
      const auto m = number_in<std::int64_t>(item);
      if (!m || *m < 1 || *m > std::numeric_limits<std::int32_t>::max())
        refuse("--rows: '" + item +
               "' is not allowed; give numbers from 1 to 2^31 - 1, as in 1024,8192");
      const Size with{*m, size.n, size.k};
      if (std::find(made.begin(), made.end(), with) == made.end()) made.push_back(with);
    }
  return made;
}

}  // namespace

std::vector<Problem> problems_of_sizes(const ProblemOptions& options) {
  const std::vector<Size> sizes = sizes_of(options.sizes);
  const std::vector<Layout> layouts = parse_layouts(options.layout);
  Problem problem = kind_of(options);
  if (!options.epilogue.empty())
    set_epilogue(problem, parsed_as("--epilogue", options.epilogue,
                                    [](const std::string& text) { return Epilogue(text); }));
  parsed_as("--order", options.order, [&](const std::string& text) {
    set_order(problem, text);
    return true;
  });
  std::vector<Problem> problems;
  for (const Layout layout : layouts) {
    for (const Size& size : with_rows(sizes, options.rows)) {
      set_layout(problem, layout);
      problem.m = size.m, problem.n = size.n, problem.k = size.k;
      set_alignment(problem, alignment_for(problem, options.align));
      problems.push_back(problem);
    }
  }
  return problems;
}

std::vector<Problem> problems_of(const ProblemOptions& options) {
  std::vector<Problem> problems;
  for (const WeightedProblem& weighted : named_problems(options))
    problems.push_back(weighted.problem);
  return problems;
}

std::vector<WeightedProblem> weighted_problems_of(const ProblemOptions& options,
                                                  const DeviceInfo& device,
                                                  const std::vector<Winner>& winners) {
  std::vector<WeightedProblem> problems = named_problems(options);
  for (WeightedProblem& weighted : problems) {
    Problem& problem = weighted.problem;
    if (options.accuracy && !weighted.own_math)
      problem.math = mode_within(problem, *options.accuracy, device, winners);
    check_kind(problem, device);
  }
  return without_repeats(std::move(problems));
}

std::vector<Problem> problems_of(const ProblemOptions& options, const DeviceInfo& device,
                                 const std::vector<Winner>& winners) {
  std::vector<Problem> problems;
  for (const WeightedProblem& weighted : weighted_problems_of(options, device, winners))
    problems.push_back(weighted.problem);
  return problems;
}

void add_candidate_options(CLI::App& app, CandidateOptions& options) {
  add_list_option(app, "--templates,--template", options.templates,
                  "Only these kernel templates, with commas (see: autotune templates)")
      ->type_name("NAMES");
  add_list_option(
      app, "--subspace", options.subspace,
      "Only these parameter values: 'TILE_M=64,128;PREFETCH=2', or as tables print them", ';')
      ->type_name("VALUES");
}

std::vector<const KernelTemplate*> templates_of(const CandidateOptions& options) {
  return select_templates(split_list(options.templates));
}

Subspace subspace_of(const CandidateOptions& options) {
  return parse_values(options.subspace, templates_of(options));
}

Candidate parse_candidate(const std::string& text, const Problem& problem,
                          const DeviceInfo& device) {
  const std::string whole(trimmed(text));
  const std::size_t name_end = std::min(whole.find_first_of(" \t{"), whole.size());
  const KernelTemplate& kernel = find_template(whole.substr(0, name_end));
  const std::string values(trimmed(std::string_view(whole).substr(name_end)));
  if (!kernel.supports(problem, device))
    refuse("--only: template " + kernel.name + " does not support " + to_string(problem) + " on " +
           device.name);
  Candidate candidate{kernel.name, kernel.default_configuration(problem, device)};
  if (values.starts_with('{')) {
    const Configuration named = Configuration::parse(values);
    for (const auto& [name, value] : named.values()) candidate.configuration.set(name, value);
  } else if (!values.empty()) {
    candidate.configuration = parse_configuration(values, kernel);
  }
  const std::string reason = rejection(kernel, problem, candidate.configuration, device);
  if (!reason.empty()) refuse("--only: " + short_text(candidate) + " is not valid here: " + reason);
  return candidate;
}

double parse_seconds(const std::string& option, const std::string& text) {
  const auto seconds = seconds_of(text);
  if (!seconds) refuse(option + ": " + bad_time(text));
  return *seconds;
}

CLI::Validator time_span() {
  return {[](std::string& text) { return seconds_of(text) ? "" : bad_time(text); }, ""};
}

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    const auto value = number_in<std::uint64_t>(text);
    if (!value || *value < least || *value > most)
      return "'" + text + "' is not allowed; give a whole number from " + std::to_string(least) +
             " to " + std::to_string(most);
    text = std::to_string(*value);
    return "";
  };
  return {check, ""};
}

CLI::Validator number_above_zero() {
  const auto check = [](std::string& text) -> std::string {
    const auto value = number_in<double>(text);
    if (value && *value > 0 && std::isfinite(*value)) return "";
    return "'" + text + "' is not allowed; give a number above 0, as in 1e-3";
  };
  return {check, ""};
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');)
    if (const std::string_view part = trimmed(item); !part.empty()) parts.emplace_back(part);
  return parts;
}

}  // namespace tilewise::cli
