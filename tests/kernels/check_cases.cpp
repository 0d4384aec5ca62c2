#include "tests/kernels/check_cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <set>

#include "tests/kernels/own_templates.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"

namespace tilewise::check {
namespace {

const std::vector<KernelTemplate>& all_templates() {
  static const std::vector<KernelTemplate> all = [] {
    std::vector<KernelTemplate> templates(catalog().begin(), catalog().end());
    for (KernelTemplate& own : own_templates()) templates.push_back(std::move(own));
    return templates;
  }();
  return all;
}

/// The spread of one template: layouts and alignments share `limit` evenly. Drawing valid
/// candidates is what takes time, so a few times as many are drawn as are kept.
void spread(const KernelTemplate& kernel, const DeviceInfo& device, std::size_t limit,
            std::uint64_t seed, std::vector<Case>& cases) {
  std::vector<Problem> problems;
  for (const int alignment : {16, 8, 4})
    for (const Layout layout : test::kLayouts)
      for (const Problem& problem : test::typical_problems(kernel, device, layout, alignment))
        problems.push_back(problem);
  for (std::size_t i = 0; i < problems.size() && i < limit; ++i) {
    const std::size_t share = limit / problems.size() + (i < limit % problems.size());
    const SearchSpace space(problems[i], device, {&kernel});
    std::set<Candidate> taken;
    // A cover ends when every pair of values was drawn together; then another is begun.
    for (std::uint64_t round = 0, before = 1; taken.size() < share && taken.size() != before;
         ++round) {
      before = taken.size();
      for (const Candidate& c :
           test::pairwise_cover(space, seed * 100 + i + round * 10007, share - taken.size(),
                                static_cast<int>(4 * (share - taken.size())) + 20))
        if (taken.insert(c).second) cases.push_back({c, problems[i]});
    }
  }
}

/// One candidate; parameters that are not named have their default values.
std::vector<Case> only_cases(const Options& options, const DeviceInfo& device) {
  const auto brace = options.only.find('{');
  if (brace == options.only.npos) bad_usage("--only takes NAME {\"PARAMETER\":VALUE,...}");
  std::string name = options.only.substr(0, brace);
  name.resize(name.find_last_not_of(' ') + 1);
  const KernelTemplate& kernel = checked_template(name);
  const Configuration given = Configuration::parse(options.only.substr(brace));
  std::vector<Case> cases;
  for (const Layout layout : options.layouts) {
    Problem problem = test::make_problem(layout, 1536, 1536, 1536, 4);
    if (!kernel.supports(problem, device)) problem.alignment = {16, 16, 16};
    Configuration configuration = kernel.default_configuration(problem, device);
    for (const auto& [parameter, value] : given.values()) configuration.set(parameter, value);
    const std::string why = rejection(kernel, problem, configuration, device);
    if (!why.empty()) bad_usage("--only " + name + " " + configuration.text() + ": " + why);
    cases.push_back({{name, configuration}, problem});
  }
  return cases;
}

void mutate(std::string& text, const Mutation& mutation) {
  const auto at = text.find(mutation.from);
  if (at == text.npos || text.find(mutation.from, at + 1) != text.npos)
    bad_usage("--mutate: \"" + mutation.from + "\" does not occur exactly once in " +
              mutation.file);
  text.replace(at, mutation.from.size(), mutation.to);
}

}  // namespace

void bad_usage(const std::string& what) {
  std::cerr << "check_kernels: " << what << '\n';
  std::exit(2);
}

Options parse_options(int argc, char** argv) {
  Options options;
  if (std::getenv("TILEWISE_FULL")) options.cases *= 10;
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
    if (name == "--cases")
      options.cases = number(value());
    else if (name == "--seed")
      options.seed = number(value());
    else if (name == "--jobs")
      options.jobs = static_cast<unsigned>(number(value()));
    else if (name == "--longest")
      options.longest = static_cast<unsigned>(number(value()));
    else if (name == "--template")
      options.only_template = value();
    else if (name == "--only")
      options.only = value();
    else if (name == "--layout")
      options.layouts = {parse_layout(value())};
    else if (name == "--mutate") {
      Mutation mutation;
      mutation.file = value(), mutation.from = value(), mutation.to = value();
      options.mutations.push_back(mutation);
    } else
      bad_usage("unknown option " + name);
  }
  for (const Mutation& mutation : options.mutations) {
    const bool header = mutation.file.ends_with(".cuh");
    source_of(header ? "tiled.cu" : mutation.file, options);
  }
  return options;
}

std::string Case::name() const {
  return to_string(candidate) + " for layout " + std::string(to_string(typical.layout)) +
         ", alignment " + std::to_string(typical.alignment.a);
}

const KernelTemplate& checked_template(std::string_view name) {
  for (const KernelTemplate& kernel : all_templates())
    if (kernel.name == name) return kernel;
  return find_template(name);
}

std::vector<Case> cases_for(const Options& options, const DeviceInfo& device) {
  if (!options.only.empty()) return only_cases(options, device);
  std::vector<Case> cases;
  if (!options.only_template.empty()) {
    spread(checked_template(options.only_template), device, options.cases, options.seed, cases);
    return cases;
  }
  // Small templates have few configurations: what they do not need goes to the largest.
  const auto& all = all_templates();
  const auto largest = std::max_element(all.begin(), all.end(), [](const auto& x, const auto& y) {
    return x.parameters.size() < y.parameters.size();
  });
  const std::size_t small = std::max<std::size_t>(4, options.cases / 20);
  for (const KernelTemplate& kernel : all)
    if (&kernel != &*largest) spread(kernel, device, small, options.seed, cases);
  if (options.cases > cases.size())
    spread(*largest, device, options.cases - cases.size(), options.seed, cases);
  return cases;
}

KernelSource source_of(const std::string& name, const Options& options) {
  KernelSource source = source_by_name(name);
  for (const Mutation& mutation : options.mutations) {
    if (mutation.file == name) mutate(source.text, mutation);
    for (auto& [header, text] : source.headers)
      if (mutation.file == header) mutate(text, mutation);
  }
  return source;
}

}  // namespace tilewise::check
