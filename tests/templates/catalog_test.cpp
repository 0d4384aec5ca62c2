// Properties of every template of the catalog, over thousands of random problems and
// configurations. Needs no GPU and no compiler: constraints are pure functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/support/problems.hpp"

namespace tilewise::catalog_test {
namespace {

using test::make_problem;

DeviceInfo device_of(const char* target) { return nominal_device(parse_target(target)); }

TEST(Catalog, NamesAreUniqueAndEverythingIsExplained) {
  std::set<std::string> names;
  for (const KernelTemplate& kernel : catalog()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    EXPECT_FALSE(kernel.summary.empty());
    std::set<std::string> parameters, constraints;
    for (const Parameter& p : kernel.parameters) {
      EXPECT_TRUE(parameters.insert(p.name).second) << p.name;
      EXPECT_FALSE(p.help.empty()) << p.name;
      EXPECT_EQ(std::set<int>(p.values.begin(), p.values.end()).size(), p.values.size()) << p.name;
      EXPECT_TRUE(p.labels.empty() || p.labels.size() == p.values.size()) << p.name;
    }
    for (const Constraint& c : kernel.constraints) {
      EXPECT_TRUE(constraints.insert(c.name).second) << c.name;
      EXPECT_FALSE(c.text.empty()) << c.name;
      for (const std::string& read : c.reads)
        EXPECT_TRUE(parameters.contains(read)) << c.name << " reads " << read;
      for (const std::string& name : c.of_work)
        EXPECT_EQ(std::count(c.reads.begin(), c.reads.end(), name), 1) << c.name << ", " << name;
    }
  }
}

TEST(Catalog, AGroupMThatGivesTheOrderOfASmallerOneIsNotTried) {
  struct Case {
    const char* name;
    int tile_rows, cluster_m, group_m;
    bool tried;
  };
  const Case cases[] = {
      {"simt", 3, 1, 4, true},   {"simt", 3, 1, 8, false}, {"simt", 5, 1, 4, true},
      {"simt", 5, 1, 8, false},  {"simt", 7, 1, 4, true},  {"simt", 7, 1, 8, true},
      {"mma", 7, 1, 4, true},    {"mma", 1, 1, 4, false},  {"wgmma", 3, 1, 2, true},
      {"wgmma", 3, 1, 4, false}, {"wgmma", 7, 1, 8, true}, {"wgmma", 7, 2, 4, true},
      {"wgmma", 7, 2, 8, false}, {"wgmma", 1, 1, 1, true},
  };
  const DeviceInfo device = nominal_device(best_target(9, 0));
  for (const Case& one : cases) {
    const KernelTemplate& kernel = find_template(one.name);
    const Problem problem = test::make_problem(Layout::nt, 64 * one.tile_rows, 4096, 4096);
    Configuration configuration{{"TILE_M", 64}, {"GROUP_M", one.group_m}};
    for (const Parameter& parameter : kernel.parameters)
      if (!configuration.find(parameter.name))
        configuration.set(parameter.name, parameter.values.front());
    if (configuration.find("CLUSTER_M")) configuration.set("CLUSTER_M", one.cluster_m);
    const auto hint = std::find_if(kernel.constraints.begin(), kernel.constraints.end(),
                                   [](const Constraint& c) { return c.name == "group_m_matters"; });
    ASSERT_NE(hint, kernel.constraints.end());
    EXPECT_EQ(hint->holds({problem, configuration, device}), one.tried)
        << one.name << ", " << one.tile_rows << " rows of " << one.cluster_m << ", GROUP_M "
        << one.group_m;
  }
}

// A constraint depends only on its declared parameters: the search prunes partial configurations by
// that list.
TEST(Catalog, ConstraintsReadWhatTheyDeclare) {
  std::mt19937_64 generator(7);
  for (const KernelTemplate& kernel : catalog()) {
    for (int i = 0; i < 4000; ++i) {
      // Some are as large as a grid or a 31-bit counter.
      const Problem problem =
          test::random_typed_problem(generator, i < 3000 ? 3000 : std::int64_t{1} << 35);
      const DeviceInfo device =
          nominal_device(known_targets()[generator() % known_targets().size()]);
      if (!kernel.supports(problem, device))
        continue;  // constraints apply to supported problems only
      Configuration full;
      for (const Parameter& p : kernel.parameters)
        full.set(p.name, p.values[generator() % p.values.size()]);
      for (const Constraint& c : kernel.constraints) {
        Configuration partial;
        for (const std::string& name : c.reads) partial.set(name, full.at(name));
        const bool holds = c.holds({problem, full, device});
        if (holds == c.holds({problem, partial, device})) continue;
        std::string lacking;
        for (const Parameter& p : kernel.parameters) {
          Configuration more = partial;
          more.set(p.name, full.at(p.name));
          if (holds == c.holds({problem, more, device})) lacking += " " + p.name;
        }
        FAIL() << kernel.name << ": " << c.name
               << " reads a parameter that its list `reads` lacks ("
               << (lacking.empty() ? " more than one" : lacking) << " ): " << full.text() << " for "
               << to_string(problem);
      }
    }
  }
}

// Parameters are macros, so one with the name of a template parameter of the dialect breaks its
// headers.
TEST(Catalog, NoParameterHasTheNameOfATemplateParameterOfTheDialect) {
  std::string dialect;
  for (const auto& [name, text] : kernel_source("naive.cu").headers)
    if (name.starts_with("words/") || name.starts_with("parts/")) dialect += text;
  const std::regex declaration("template *<([^>]*)>"), word("[A-Z][A-Z0-9_]*");
  std::set<std::string> taken;
  for (std::sregex_iterator at(dialect.begin(), dialect.end(), declaration), end; at != end; ++at) {
    const std::string list = (*at)[1];
    for (std::sregex_iterator name(list.begin(), list.end(), word); name != end; ++name)
      taken.insert(name->str());
  }
  EXPECT_TRUE(taken.contains("COUNT"));
  for (const KernelTemplate& kernel : catalog())
    for (const Parameter& parameter : kernel.parameters)
      EXPECT_FALSE(taken.contains(parameter.name))
          << kernel.name << ": " << parameter.name
          << " is a template parameter in templates/words or templates/parts; take another name";
}

/// The words of the text outside of comments that start a line.
std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == line.npos || line.compare(begin, 2, "//") == 0) continue;
    std::string word;
    for (const char c : line + '\n')
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
        word += c;
      else
        words.insert(std::exchange(word, ""));
  }
  return words;
}

TEST(Catalog, EveryConstantOfAKernelIsInItsSource) {
  const std::set<std::string_view> for_the_compiler = {kMaxRegisters, kNoSpills};
  const DeviceInfo device = device_of("sm_90a");
  for (const KernelTemplate& kernel : catalog())
    for (const ProductKind& kind : product_kinds()) {
      const Problem problem = test::with_kind(make_problem(Layout::nn, 64, 64, 64), kind);
      if (!kernel.supports(problem, device)) continue;
      const Configuration configuration = kernel.default_configuration(problem, device);
      for (const LaunchStep& step : kernel.plan(problem, configuration, device).steps) {
        const KernelSource source = kernel_source(step.kernel.source);
        std::string text = source.text;
        const std::string family =
            "families/" + step.kernel.source.substr(0, step.kernel.source.find('.'));
        for (const auto& [name, header] : source.headers)
          if (!name.starts_with("families/") || name.starts_with(family + "/"))
            text += "\n" + header;
        const std::set<std::string> words = words_of(text);
        for (const auto& [name, value] : step.kernel.defines)
          ASSERT_TRUE(for_the_compiler.contains(name) || words.contains(name))
              << step.kernel.source << " does not read " << name;
      }
      break;
    }
}

TEST(Catalog, DefaultsServeEveryProblem) {
  std::mt19937_64 generator(3);
  for (const Target& target : known_targets()) {
    const DeviceInfo device = nominal_device(target);
    for (int i = 0; i < 300; ++i) {
      Problem problem = test::random_typed_problem(generator, 100000);
      set_alignment(problem,
                    {bytes_of(problem.a.type), bytes_of(problem.b.type), bytes_of(problem.c.type)});
      // Larger results exceed any GPU's memory.
      const std::int64_t most = std::int64_t{10'000'000'000} / (problem.m * problem.n);
      problem.batch = std::clamp<std::int64_t>(problem.batch, 1, std::max<std::int64_t>(1, most));
      bool served = problem.math != MathMode::strict;  // the others need tensor cores
      for (const KernelTemplate& kernel : catalog()) {
        if (!kernel.supports(problem, device)) continue;
        served = true;
        ASSERT_EQ(rejection(kernel, problem, kernel.default_configuration(problem, device), device),
                  "")
            << kernel.name << ": the default configuration must be valid for every supported "
            << "problem at any alignment; a condition that concerns speed only is a hint "
            << "(for_search_only). " << to_string(problem) << ' ' << to_string(target);
      }
      EXPECT_TRUE(served) << to_string(problem) << ' ' << to_string(target);
    }
  }
}

TEST(Catalog, EveryValueOfEveryParameterIsReachable) {
  // Over aligned and unaligned problems of every kind, large, long and many small ones, every value
  // must be valid for some problem on sm_90a.
  const DeviceInfo device = device_of("sm_90a");
  std::mt19937_64 generator(11);
  std::vector<Problem> problems;
  for (const ProductKind& kind : product_kinds())
    for (const Problem& problem :
         {make_problem(Layout::nn, 4096, 4096, 4096), make_problem(Layout::nt, 4095, 4095, 4095, 1),
          make_problem(Layout::tn, 128, 128, 65536), make_problem(Layout::tt, 1000, 1000, 1000),
          make_problem(Layout::nt, 16, 4096, 16384), make_problem(Layout::tn, 8192, 16, 8192),
          make_problem(Layout::nt, 500, 500, 500, 8), make_problem(Layout::nt, 200, 250, 500, 4)})
      problems.push_back(test::with_kind(problem, kind));
  struct Many {
    Layout layout;
    std::int64_t size, batch;
  };
  for (const ProductKind& kind : product_kinds())
    for (const Many& many :
         {Many{Layout::nt, 4, 65536}, {Layout::tn, 24, 4096}, {Layout::nt, 64, 64}}) {
      const std::int64_t size = many.size;
      problems.push_back(test::with_kind(make_problem(many.layout, size, size, size), kind));
      problems.back().batch = many.batch;
    }
  Problem in_parts =
      test::with_kind(make_problem(Layout::nt, 4096, 4096, 4096),
                      *find_product_kind(DType::bf16, DType::bf16, MathMode::strict));
  in_parts.order = interned(parse_sum_order("tensor16+parts2048"));
  problems.push_back(in_parts);
  std::shuffle(problems.begin(), problems.end(), generator);
  // Most values occur in a few draws; the others are searched for.
  constexpr std::size_t kDrawnProblems = 40;
  for (const KernelTemplate& kernel : catalog()) {
    std::vector<Problem> supported;
    for (const Problem& problem : problems)
      if (kernel.supports(problem, device)) supported.push_back(problem);
    std::set<std::pair<std::string, int>> seen;
    for (std::size_t i = 0; i < std::min(kDrawnProblems, supported.size()); ++i) {
      const SearchSpace space(supported[i], device, {&kernel});
      for (int draw = 0; draw < 5; ++draw)
        if (const auto candidate = space.random(generator))
          for (const auto& [name, value] : candidate->configuration.values())
            seen.insert({name, value});
    }
    for (const Parameter& p : kernel.parameters)
      for (const int value : p.values)
        EXPECT_TRUE(seen.contains({p.name, value}) ||
                    std::any_of(supported.begin(), supported.end(),
                                [&](const Problem& problem) {
                                  return SearchSpace(problem, device, {&kernel},
                                                     {{p.name, {value}}})
                                      .random(generator)
                                      .has_value();
                                }))
            << kernel.name << ' ' << p.name << '=' << value;
  }
}

TEST(Rejection, NamesTheConstraint) {
  const DeviceInfo device = device_of("sm_75");
  const Problem problem = make_problem(Layout::nn, 1000, 1000, 1000, 4);
  const KernelTemplate& simt = find_template("simt");
  const Configuration good = simt.default_configuration(problem, device);
  const auto with = [&](const char* name, int value) {
    Configuration c = good;
    c.set(name, value);
    return rejection(simt, problem, c, device);
  };
  EXPECT_EQ(with("TILE_M", 64), "");
  EXPECT_NE(with("TILE_M", 48).find("TILE_M"), std::string::npos);
  EXPECT_NE(with("VECTOR_A", 4).find("aligned_a"), std::string::npos);
  EXPECT_NE(with("PREFETCH", 4).find("cp_async"), std::string::npos);
  EXPECT_NE(with("BOGUS", 1).find("BOGUS"), std::string::npos);
  EXPECT_NE(with("THREAD_N", 16).find("warps_tile_n"), std::string::npos);
}

TEST(Rejection, Fp8IsPromotedWhereItsSumsAreCoarseOrLong) {
  const KernelTemplate& mma = find_template("mma");
  const auto refused = [&](const char* target, std::int64_t k, int promote) {
    const DeviceInfo device = nominal_device(parse_target(target));
    const Problem problem =
        test::with_kind(test::make_problem(Layout::nt, 64, 64, k, 16),
                        *find_product_kind(DType::e4m3, DType::f32, MathMode::strict));
    Configuration c = mma.default_configuration(problem, device);
    c.set("PROMOTE", promote);
    return rejection(mma, problem, c, device);
  };
  // These targets widen fp8 to f16, whose sums are finer; the others have an fp8 instruction.
  for (const char* target : {"sm_90", "sm_100"}) {
    EXPECT_EQ(refused(target, 65536, 0), "") << target;
    EXPECT_NE(refused(target, 65537, 0).find("promotes_where_it_helps"), std::string::npos);
  }
  for (const char* target : {"sm_89", "sm_120"})
    EXPECT_NE(refused(target, 64, 0).find("promotes_where_it_helps"), std::string::npos) << target;
  for (const char* target : {"sm_89", "sm_90", "sm_100", "sm_120"})
    EXPECT_EQ(refused(target, 65537, 1), "") << target;
}

TEST(Sources, HashIgnoresCommentsAndSeesTheRest) {
  add_kernel_source(
      {"hash_a.cu", "#include \"hash.cuh\"\nint x;  // one\n", {{"hash.cuh", "int y;"}}});
  add_kernel_source(
      {"hash_b.cu", "#include \"hash.cuh\"\nint   x;/* two */\n\n", {{"hash.cuh", "int y;"}}});
  add_kernel_source({"hash_c.cu", "#include \"hash.cuh\"\nint x;\n", {{"hash.cuh", "int z;"}}});
  const auto hash = [](const char* source, std::int64_t value, const char* compiler) {
    return source_hash({source, "k", {{"X", value}}}, compiler);
  };
  EXPECT_EQ(hash("hash_a.cu", 1, "c"), hash("hash_a.cu", 1, "c"));
  EXPECT_NE(hash("hash_a.cu", 1, "c"), hash("hash_a.cu", 2, "c"));
  EXPECT_NE(hash("hash_a.cu", 1, "c"), hash("hash_a.cu", 1, "d"));
  EXPECT_EQ(kernel_text_hash("hash_a.cu"), kernel_text_hash("hash_b.cu"));
  EXPECT_NE(kernel_text_hash("hash_a.cu"), kernel_text_hash("hash_c.cu"));
  EXPECT_THROW(kernel_source("none.cu"), std::exception);
  EXPECT_THROW(add_kernel_source({"simt.cu", "", {}}), std::exception);
}

}  // namespace
}  // namespace tilewise::catalog_test
