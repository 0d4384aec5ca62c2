#include "tests/kernels/check_cases.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "templates/space/candidate_text.hpp"
#include "tests/kernels/own_templates.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::check {
namespace {

const std::vector<KernelTemplate>& all_templates() {
  static const std::vector<KernelTemplate> all = [] {
    std::vector<KernelTemplate> templates(catalog().begin(), catalog().end());
    for (KernelTemplate& own : own_templates()) templates.push_back(std::move(own));
    // Templates that take long come first, so that all processes have work until the end.
    std::stable_sort(templates.begin(), templates.end(), [](const auto& x, const auto& y) {
      return x.parameters.size() > y.parameters.size();
    });
    return templates;
  }();
  return all;
}

// A kernel specialised on its sizes runs on the case's own sizes.
constexpr Size kSmallSizes[] = {{48, 48, 48}, {40, 64, 50}, {33, 17, 9}, {6, 20, 64}, {1, 1, 1}};

/// Adds the problem, or small problems instead, so that a kernel may be specialised on their sizes.
void add_typical(Problem problem, const KernelTemplate& kernel, const DeviceInfo& device,
                 std::vector<Problem>& problems) {
  // Of batches a third each has rows one after another, and counts of rows.
  if (problem.batch > 1 && kernel.grouped)
    set_grouping(problem, std::array{"", "rows even", "counts even"}[problems.size() % 3]);
  if (problem.grouping == Grouping::rows) problem.batch = problems.size() % 2 == 0 ? 5 : 37;
  if (problem.grouping == Grouping::rows && layout_of(problem) == Layout::tn)
    problem.grouping = Grouping::depth;
  if (rows_begin_anywhere(problem)) problem.a.alignment = bytes_of(problem.a.type);
  // Some with an order in parts of k, which a block of wgmma may add itself.
  if (kernel.name == "wgmma" && problems.size() % 5 == 4 && !is_grouped(problem)) {
    SumOrder order = default_order(problem, device);
    if (order.arithmetic == SumOrder::Arithmetic::tensor) {
      order.part = 256 / bytes_of(problem.a.type);
      problem.order = interned(order);
    }
  }
  if (!kernel.supports(problem, device)) return;
  if (std::max({problem.m, problem.n, problem.k}) > kSmallSizes[0].m) {
    problems.push_back(problem);
    return;
  }
  for (const Size& size : kSmallSizes) {
    problem.m = size.m, problem.n = size.n, problem.k = size.k;
    if (kernel.supports(problem, device)) problems.push_back(problem);
  }
}

/// Problems that cover all features of the template: kinds of products, layouts, alignments, single
/// products and batches.
std::vector<Problem> problems_for(const KernelTemplate& kernel, const DeviceInfo& device,
                                  std::uint64_t seed) {
  std::vector<Problem> problems;
  for (const ProductKind& kind : product_kinds())
    for (const int alignment : {16, 8, 4, 2, 1}) {
      if (alignment < std::max(bytes_of(kind.a), bytes_of(kind.b))) continue;
      for (const std::int64_t batch : {1, 3})
        for (const Layout layout : test::kLayouts)
          for (const Problem& problem :
               test::typical_problems(kernel, device, layout, alignment, kind, batch))
            add_typical(problem, kernel, device, problems);
    }
  std::mt19937_64 generator(seed);
  std::shuffle(problems.begin(), problems.end(), generator);
  return problems;
}

/// The pairs of values of the configuration, and pairs of a value and a property of the problem.
std::vector<test::ValuePair> pairs_of(const Case& c) {
  Configuration all = c.candidate.configuration;
  const Problem& problem = c.typical;
  all.set("its kind", static_cast<int>(product_kind(problem) - product_kinds().data()));
  all.set("its layout", static_cast<int>(layout_of(problem)));
  all.set("its alignment", problem.a.alignment);
  all.set("its batch", static_cast<int>(problem.batch));
  all.set("its grouping", static_cast<int>(problem.grouping));
  return test::pairs_of(all);
}

/// The pairwise spread of one template. For each of its problems in turn, some candidates are
/// drawn, and the one with the most pairs of values not covered yet is taken.
void spread(const KernelTemplate& kernel, const DeviceInfo& device, std::size_t limit,
            std::uint64_t seed, std::vector<Case>& cases) {
  constexpr int kDraws = 12;
  constexpr std::size_t kTries = 3;  // for a problem whose few candidates are known already
  const std::vector<Problem> problems = problems_for(kernel, device, seed);
  std::mt19937_64 generator(seed);
  std::set<test::ValuePair> covered;
  std::set<std::pair<Candidate, Problem>> taken;
  for (std::size_t i = 0; !problems.empty() && i < kTries * limit && taken.size() < limit; ++i) {
    const Problem& problem = problems[i % problems.size()];
    const SearchSpace space(problem, device, {&kernel});
    std::vector<Candidate> drawn = space.defaults();
    for (int draw = 0; draw < kDraws; ++draw)
      if (const auto candidate = space.random(generator)) drawn.push_back(*candidate);
    const Candidate* best = nullptr;
    std::ptrdiff_t most = -1;
    for (const Candidate& candidate : drawn) {
      if (taken.contains({candidate, problem})) continue;
      const auto pairs = pairs_of({candidate, problem});
      const auto gain = std::count_if(pairs.begin(), pairs.end(),
                                      [&](const auto& pair) { return !covered.contains(pair); });
      if (gain > most) best = &candidate, most = gain;
    }
    if (!best) continue;
    cases.push_back({*best, problem});
    for (test::ValuePair& pair : pairs_of(cases.back())) covered.insert(std::move(pair));
    taken.insert({*best, problem});
  }
}

/// One candidate; parameters that are not named have their defaults.
std::vector<Case> only_cases(const Options& options, const DeviceInfo& device) {
  const auto end = options.only.find_first_of(" {");
  const std::string name = options.only.substr(0, end);
  const std::string values = end == options.only.npos ? "" : options.only.substr(end);
  const KernelTemplate& kernel = checked_template(name);
  const auto brace = values.find('{');
  // The form of tables, or {"PARAMETER":VALUE,...}; empty: the default.
  const Configuration given = brace != values.npos ? Configuration::parse(values.substr(brace))
                              : values.empty()     ? Configuration{}
                                                   : parse_configuration(values, kernel);
  std::vector<Case> cases;
  for (const Layout layout : options.layouts) {
    const ProductKind& kind = options.kind ? *options.kind : product_kinds().front();
    Problem problem = test::with_kind(test::make_problem(layout, 1472, 1472, 1536, 1), kind);
    problem.batch = options.batch;
    set_grouping(problem, options.grouped);
    if (rows_begin_anywhere(problem)) problem.a.alignment = bytes_of(problem.a.type);
    if (!options.epilogue.empty()) set_epilogue(problem, Epilogue(options.epilogue));
    if (!options.order.empty()) problem.order = interned(parse_sum_order(options.order));
    if (!kernel.supports(problem, device)) set_alignment(problem, {16, 16, 16});
    Configuration configuration = kernel.default_configuration(problem, device);
    for (const auto& [parameter, value] : given.values()) configuration.set(parameter, value);
    std::string why = rejection(kernel, problem, configuration, device);
    if (!why.empty()) {  // it may need aligned operands
      set_alignment(problem, {rows_begin_anywhere(problem) ? problem.a.alignment : 16, 16, 16});
      why = rejection(kernel, problem, configuration, device);
    }
    if (!why.empty()) bad_usage("--only " + name + " " + configuration.text() + ": " + why);
    cases.push_back({{name, configuration}, problem});
  }
  return cases;
}

/// All kernel sources and headers, as file name and text.
std::vector<std::pair<std::string, std::string>> kernel_sources() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& name : kernel_source_names())
    all.emplace_back(name, kernel_source(name).text);
  // Every source has the same headers.
  for (const auto& header : kernel_source(kernel_source_names().front()).headers)
    all.push_back(header);
  for (const KernelTemplate& own : own_templates())
    all.emplace_back(own.name + ".cu", source_by_name(own.name + ".cu").text);
  return all;
}

}  // namespace

void bad_usage(const std::string& what) {
  std::cerr << "check_kernels: " << what << '\n';
  std::exit(2);
}

[[noreturn]] void show_usage() {
  std::cout
      << "Checks kernels on the CPU executor: a pairwise spread of candidates, or one.\n"
         "  --template NAME        only its share of the cases\n"
         "  --cases N              cases in all, or of the one template\n"
         "  --only CANDIDATE       'tiled 16x16 ...' or 'tiled {\"TILE\":8}'\n"
         "  --layout nn|nt|tn|tt, --types A|AxB C MATH, --batch N, --grouped 'rows even',\n"
         "  --order tensor16+parts128   of --only\n"
         "  --epilogue TEXT        of every case; else some have one\n"
         "  --device host:sm_90a|gpu, --seed N, --jobs N, --longest SECONDS\n"
         "  --mutate MARKER CODE, --mutate-in MARKER FROM TO    plant a mistake\n"
         "TILEWISE_FULL=1 takes four times the cases, and every shape in every thread order.\n";
  std::exit(0);
}

Options parse_options(int argc, char** argv) {
  Options options;
  options.layouts.assign(std::begin(test::kLayouts), std::end(test::kLayouts));
  const auto number = [](const std::string& text) {
    char* end = nullptr;
    const auto value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || *end) bad_usage("'" + text + "' is not a number");
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) bad_usage(name + " needs a value");
      return argv[i];
    };
    if (name == "--help" || name == "-h")
      show_usage();
    else if (name == "--cases")
      options.cases = number(value()), options.cases_given = true;
    else if (name == "--seed")
      options.seed = number(value());
    else if (name == "--jobs")
      options.jobs = static_cast<unsigned>(number(value()));
    else if (name == "--longest")
      options.longest = static_cast<unsigned>(number(value()));
    else if (name == "--device")
      options.device = value();
    else if (name == "--template")
      options.only_template = value();
    else if (name == "--only")
      options.only = value();
    else if (name == "--types") {
      const std::string operands = value();
      const std::size_t end_of_a = operands.find('x');
      const DType a = parse_dtype(operands.substr(0, end_of_a));
      const DType b = end_of_a == operands.npos ? a : parse_dtype(operands.substr(end_of_a + 1));
      const DType c = parse_dtype(value());
      options.kind = find_product_kind(a, b, c, parse_math_mode(value()));
      if (!options.kind) bad_usage("--types: no such kind of product");
    } else if (name == "--batch")
      options.batch = static_cast<std::int64_t>(number(value()));
    else if (name == "--grouped")
      options.grouped = value();
    else if (name == "--order")
      options.order = value();
    else if (name == "--epilogue")
      options.epilogue = value();
    else if (name == "--layout")
      options.layouts = {parse_layout(value())};
    else if (name == "--mutate" || name == "--mutate-in") {
      Mutation mutation;
      mutation.marker = value();
      if (name == "--mutate-in") mutation.from = value();
      mutation.to = value();
      options.mutations.push_back(mutation);
    } else
      bad_usage("unknown option " + name);
  }
  if (std::getenv("TILEWISE_FULL")) options.cases *= 4, options.every_order = true;
  for (const Mutation& mutation : options.mutations) expect_plantable(mutation, kernel_sources());
  return options;
}

std::string Case::name() const {
  return to_string(candidate) + " for problems like " + to_string(typical);
}

const KernelTemplate& checked_template(std::string_view name) {
  for (const KernelTemplate& kernel : all_templates())
    if (kernel.name == name) return kernel;
  return find_template(name);
}

/// The problem with scales of blocks of k, if the candidate is valid with them; of every second.
static std::optional<Problem> with_scales(const Case& one, const DeviceInfo& device,
                                          std::size_t nth) {
  constexpr const char* kTexts[] = {"acc(a[i,k/128] * b[j/128,k/128])",
                                    "relu(acc(b[k/128,j] * a:bf16[k/128,i])) + c[j]",
                                    "acc(a[k/128,i] * b[k/128,j/128])", "acc(b[j,k/128])"};
  constexpr const char* kOfNarrow[] = {"acc(b[k/128,j])", "relu(acc(b:bf16[j,k/32])) + c[j]",
                                       "acc(b:f16[k/64,j])", "acc(b[j,k/512])"};
  constexpr const char* kOfIntegers[] = {"acc(b[k/128,j],z[k/128,j])",
                                         "acc(b:bf16[j,k/256],z[j,k/256])+c[j]"};
  Problem problem = one.typical;
  const bool narrow = problem.a.type != problem.b.type;
  if (!(is_fp8(problem.a.type) || narrow) || problem.order || nth % 2 == 0) return std::nullopt;
  const bool integers = narrow && is_integer(problem.b.type), zeros = integers && nth % 4 == 1;
  const std::size_t turn = integers ? nth / 4 : nth / 2;
  const auto in_turn = [&](const auto& texts) { return texts[turn % std::size(texts)]; };
  set_epilogue(problem, Epilogue(zeros    ? in_turn(kOfIntegers)
                                 : narrow ? in_turn(kOfNarrow)
                                          : in_turn(kTexts)));
  const KernelTemplate& kernel = find_template(one.candidate.kernel_template);
  if (!is_valid(kernel, problem, one.candidate.configuration, device)) return std::nullopt;
  return problem;
}

std::vector<Case> cases_for(const Options& options, const DeviceInfo& device) {
  if (!options.only.empty()) return only_cases(options, device);
  // Weight in proportion to the number of parameters above a few.
  const auto weight = [](const KernelTemplate& kernel) {
    constexpr std::size_t few = 4;
    return std::max(kernel.parameters.size(), few + 1) - few;
  };
  std::size_t weights = 0;
  for (const KernelTemplate& kernel : all_templates()) weights += weight(kernel);
  std::vector<Case> cases;
  for (const KernelTemplate& kernel : all_templates()) {
    const bool alone = kernel.name == options.only_template;
    if (!alone && !options.only_template.empty()) continue;
    const std::size_t share = std::max<std::size_t>(2, options.cases * weight(kernel) / weights);
    spread(kernel, device, alone && options.cases_given ? options.cases : share, options.seed,
           cases);
  }
  if (cases.empty()) checked_template(options.only_template);  // throws for an unknown name
  std::map<std::string, int> of_template;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Problem& problem = cases[i].typical;
    const std::string& name = cases[i].candidate.kernel_template;
    if (!known_template(name)) continue;
    const std::string usual = is_grouped(problem) ? kGroupedEpilogue : kEpilogue;
    // The second case of each template has all functions.
    const bool functions = ++of_template[name] == 2;
    if (!options.epilogue.empty())
      set_epilogue(problem, Epilogue(options.epilogue));
    else if (const auto scaled = with_scales(cases[i], device, i))
      problem = *scaled;
    else if (functions || i % 4 == 3)
      set_epilogue(problem, Epilogue(functions ? kEveryFunction : usual));
  }
  return cases;
}

KernelSource source_of(const KernelSpec& kernel, const Options& options) {
  KernelSource source =
      kernel.epilogue.empty() ? source_by_name(kernel.source) : kernel_source(kernel);
  for (const Mutation& mutation : options.mutations) {
    plant(mutation, source.text);
    for (auto& [header, text] : source.headers) plant(mutation, text);
  }
  return source;
}

}  // namespace tilewise::check
