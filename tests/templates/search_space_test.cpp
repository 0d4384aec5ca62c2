#include "templates/space/search_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tilewise/error.hpp"

namespace tilewise::search_space_test {
namespace {

using testing::HasSubstr;

int get(const ConstraintInput& in, const char* name) { return in.configuration.at(name); }

/// TILE must be a multiple of THREAD x VECTOR; no constraint reads FREE.
KernelTemplate small_template(const std::string& name = "small") {
  KernelTemplate t;
  t.name = name;
  t.revision = 3;
  t.parameters = {{"TILE", {8, 16, 32, 64}, ""},
                  {"THREAD", {2, 4, 8, 16}, ""},
                  {"VECTOR", {1, 2, 4}, ""},
                  {"FREE", {0, 1}, ""}};
  t.constraints = {
      {"whole_vectors",
       {"TILE", "THREAD", "VECTOR"},
       "TILE is a multiple of THREAD x VECTOR",
       [](const ConstraintInput& in) {
         return get(in, "TILE") % (get(in, "THREAD") * get(in, "VECTOR")) == 0;
       }},
      {"tile_not_over_m",
       {"TILE"},
       "TILE is at most m",
       [](const ConstraintInput& in) { return get(in, "TILE") <= in.problem.m; }},
  };
  t.supports = [](const Problem& p, const DeviceInfo&) { return p.batch == 1; };
  t.default_configuration = [](const Problem&, const DeviceInfo&) {
    return Configuration{{"TILE", 8}, {"THREAD", 2}, {"VECTOR", 1}, {"FREE", 0}};
  };
  return t;
}

/// Twelve parameters of eight values in chains. About one of 10^5 raw configurations is valid.
KernelTemplate sparse_template() {
  KernelTemplate t = small_template("sparse");
  t.parameters.clear();
  t.constraints.clear();
  for (int i = 0; i < 12; ++i)
    t.parameters.push_back({"P" + std::to_string(i + 10), {0, 1, 2, 3, 4, 5, 6, 7}, ""});
  for (int i = 0; i + 1 < 12; ++i) {
    const std::string x = t.parameters[i].name, y = t.parameters[i + 1].name;
    t.constraints.push_back(
        {x + "_near_" + y, {x, y}, "differ by at most 1", [x, y](const auto& in) {
           return std::abs(in.configuration.at(x) - in.configuration.at(y)) <= 1;
         }});
  }
  return t;
}

Problem problem(std::int64_t m = 32) {
  Problem p;
  p.m = p.n = p.k = m;
  return p;
}

bool valid(const KernelTemplate& t, const Problem& p, const Configuration& c) {
  return rejection(t, p, c, {}).empty();
}

std::set<Configuration> brute_force(const KernelTemplate& t, const Problem& p) {
  std::set<Configuration> found;
  for (int tile : {8, 16, 32, 64})
    for (int thread : {2, 4, 8, 16})
      for (int vector : {1, 2, 4})
        for (int free : {0, 1}) {
          Configuration c{{"TILE", tile}, {"THREAD", thread}, {"VECTOR", vector}, {"FREE", free}};
          if (valid(t, p, c)) found.insert(c);
        }
  return found;
}

std::string message_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Rejection, AConfigurationOfAnEarlierVersionMayLackAnAddedParameter) {
  KernelTemplate t = small_template();
  const Configuration before{{"TILE", 8}, {"THREAD", 2}, {"VECTOR", 1}, {"FREE", 0}};
  t.parameters.push_back({"NEW", {0, 1}, "added"});
  EXPECT_EQ(rejection(t, problem(), before, {}), "parameter NEW is missing");
  t.parameters.back().added = true;
  EXPECT_EQ(rejection(t, problem(), before, {}), "");
}

TEST(SearchSpace, AConfigurationOfAnEarlierVersionIsInTheSpace) {
  KernelTemplate t = small_template();
  const Configuration before{{"TILE", 8}, {"THREAD", 2}, {"VECTOR", 1}, {"FREE", 0}};
  t.parameters.push_back({"NEW", {0, 1}, "added", {}, true});
  const SearchSpace space(problem(), {}, {&t});
  EXPECT_TRUE(space.contains({"small", before}));
  for (const Candidate& neighbour : space.neighbours({"small", before}))
    EXPECT_TRUE(neighbour.configuration.find("NEW"));
  EXPECT_FALSE(space.neighbours({"small", before}).empty());
}

TEST(Rejection, SaysTheFirstReason) {
  const KernelTemplate t = small_template();
  const Configuration good{{"TILE", 8}, {"THREAD", 2}, {"VECTOR", 1}, {"FREE", 0}};
  const auto why = [&](const char* name, int value) {
    Configuration c = good;
    c.set(name, value);
    return rejection(t, problem(), c, {});
  };
  EXPECT_EQ(rejection(t, problem(), good, {}), "");
  EXPECT_EQ(why("WARP", 1), "unknown parameter WARP");
  EXPECT_EQ(why("TILE", 9), "TILE=9 is not one of 8, 16, 32, 64");
  EXPECT_EQ(why("THREAD", 16), "constraint whole_vectors: TILE is a multiple of THREAD x VECTOR");
  EXPECT_EQ(why("TILE", 64), "constraint tile_not_over_m: TILE is at most m");
  EXPECT_EQ(rejection(t, problem(), {{"TILE", 8}}, {}), "parameter THREAD is missing");
  Problem batched = problem();
  batched.batch = 2;
  EXPECT_THAT(rejection(t, batched, good, {}), HasSubstr("does not support"));
}

TEST(Rejection, ServingIgnoresWhatIsForTheSearchOnly) {
  KernelTemplate t = small_template();
  t.constraints[1].for_search_only = true;
  const Candidate big{"small", {{"TILE", 64}, {"THREAD", 2}, {"VECTOR", 1}, {"FREE", 0}}};
  EXPECT_EQ(rejection(t, problem(), big.configuration, {}), "");
  EXPECT_FALSE(SearchSpace(problem(), {}, {&t}).contains(big));
  t.default_configuration = [&](const Problem&, const DeviceInfo&) { return big.configuration; };
  EXPECT_THAT(SearchSpace(problem(), {}, {&t}).defaults(), testing::ElementsAre(big));
}

TEST(LaunchRevision, NamesTemplateAndPlan) {
  EXPECT_EQ(launch_revision(small_template()), "small.3 plan." + std::to_string(kPlanRevision) +
                                                   " words." + std::to_string(kWordsRevision));
}

TEST(SearchSpace, ListsExactlyTheValidOnesEachOnce) {
  const KernelTemplate t = small_template();
  const SearchSpace space(problem(), {}, {&t});
  std::vector<Configuration> listed;
  space.for_each([&](const Candidate& c) {
    EXPECT_EQ(c.kernel_template, "small");
    EXPECT_TRUE(space.contains(c));
    listed.push_back(c.configuration);
    return true;
  });
  const std::set<Configuration> expected = brute_force(t, problem());
  EXPECT_EQ(listed.size(), expected.size());
  EXPECT_EQ(std::set<Configuration>(listed.begin(), listed.end()), expected);
  EXPECT_EQ(space.count(1000), static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(space.count(static_cast<std::int64_t>(expected.size())), space.count(1000));
  EXPECT_EQ(space.count(static_cast<std::int64_t>(expected.size()) - 1), std::nullopt);
  EXPECT_EQ(space.raw_size(), 4 * 4 * 3 * 2);
}

TEST(SearchSpace, VisitingStopsWhenAsked) {
  const KernelTemplate one = small_template("one"), two = small_template("two");
  const SearchSpace space(problem(), {}, {&one, &two});
  int visits = 0;
  space.for_each([&](const Candidate&) { return ++visits < 3; });
  EXPECT_EQ(visits, 3);
}

TEST(SearchSpace, PrunesInsteadOfListingTheProduct) {
  KernelTemplate t = sparse_template();
  // The first pair never holds, so 8^12 raw configurations are refused after 64 evaluations.
  int asked = 0;
  t.constraints[0].holds = [&asked](const ConstraintInput&) { return ++asked < 0; };
  EXPECT_EQ(SearchSpace(problem(), {}, {&t}).count(10), 0);
  EXPECT_LE(asked, 64);
}

TEST(SearchSpace, RandomIsUniformInADenseSpace) {
  const KernelTemplate t = small_template();
  const SearchSpace space(problem(), {}, {&t});
  std::mt19937_64 generator(7);
  std::map<Candidate, int> counts;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[space.random(generator).value()];
  const double expected = draws / static_cast<double>(brute_force(t, problem()).size());
  EXPECT_EQ(counts.size(), brute_force(t, problem()).size());
  for (const auto& [candidate, count] : counts)
    EXPECT_NEAR(count, expected, 6 * std::sqrt(expected)) << to_string(candidate);
}

TEST(SearchSpace, RandomFindsValidOnesInASparseSpace) {
  const KernelTemplate t = sparse_template();
  const SearchSpace space(problem(), {}, {&t});
  std::mt19937_64 generator(1);
  std::set<Candidate> found;
  for (int i = 0; i < 200; ++i) {
    const auto candidate = space.random(generator);
    ASSERT_TRUE(candidate && space.contains(*candidate));
    found.insert(*candidate);
  }
  EXPECT_GT(found.size(), 190u);
}

TEST(SearchSpace, RandomIsDeterministicAndTriesEveryTemplate) {
  KernelTemplate none = small_template("none");
  none.constraints.push_back({"never", {}, "never", [](const ConstraintInput&) { return false; }});
  const KernelTemplate some = small_template("some");
  const SearchSpace space(problem(), {}, {&none, &some});
  std::mt19937_64 one(5), two(5);
  for (int i = 0; i < 20; ++i) {
    const auto candidate = space.random(one);
    ASSERT_TRUE(candidate);
    EXPECT_EQ(candidate->kernel_template, "some");
    EXPECT_EQ(candidate, space.random(two));
  }
  EXPECT_EQ(space.random_of(none, one), std::nullopt);
  EXPECT_EQ(SearchSpace(problem(), {}, {&none}).random(one), std::nullopt);
}

TEST(SearchSpace, AsksAConstraintOnceForWhatItReads) {
  KernelTemplate t = small_template();
  int asked = 0;
  t.constraints = {{"counted",
                    {"TILE", "THREAD"},
                    "TILE is at least THREAD",
                    [&asked](const ConstraintInput& in) {
                      ++asked;
                      return get(in, "TILE") >= get(in, "THREAD");
                    }}};
  const SearchSpace space(problem(), {}, {&t});
  std::size_t combinations = 1;
  for (const Parameter& parameter : t.parameters)
    if (parameter.name == "TILE" || parameter.name == "THREAD")
      combinations *= parameter.values.size();
  std::mt19937_64 generator(1);
  for (int i = 0; i < 1000; ++i) {
    const auto candidate = space.random(generator);
    ASSERT_TRUE(candidate);
    EXPECT_TRUE(space.contains(*candidate));
    EXPECT_GE(candidate->configuration.at("TILE"), candidate->configuration.at("THREAD"));
  }
  EXPECT_LE(asked, static_cast<int>(combinations));
}

TEST(SearchSpace, ADeadEndIsLeftBehind) {
  // All values of the first parameter except one are dead ends, which only the last parameter
  // reveals.
  KernelTemplate t = small_template("trap");
  t.parameters.clear();
  std::vector<std::string> all;
  for (int i = 0; i < 12; ++i) {
    t.parameters.push_back({"P" + std::to_string(10 + i), {0, 1, 2, 3, 4, 5}, ""});
    all.push_back(t.parameters.back().name);
  }
  t.constraints = {{"late", all, "P10 is 3, or all others are 0", [all](const ConstraintInput& in) {
                      return in.configuration.at("P10") == 3 ||
                             std::all_of(all.begin() + 1, all.end(), [&](const auto& name) {
                               return in.configuration.at(name) == 0;
                             });
                    }}};
  const SearchSpace space(problem(), {}, {&t});
  std::mt19937_64 generator(5);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(space.random(generator, 20'000));
}

TEST(KnownAnswers, AreRememberedAndNeverMixedUp) {
  for (const std::uint64_t count : {1ull, 5ull, 100'000ull, 1ull << 40}) {
    KnownAnswers known(count);
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const std::uint64_t combination = i * (count / 3000 + 1) % count;
      const bool answer = combination % 3 == 0;
      const auto found = known.find(combination);
      EXPECT_TRUE(!found || *found == answer) << combination;
      known.add(combination, answer);
      EXPECT_EQ(known.find(combination), answer);
    }
  }
}

TEST(SearchSpace, MillionRawDrawsTakeSeconds) {
  KernelTemplate t = sparse_template();
  t.constraints.push_back({"never", {"P10", "P21"}, "never", [](const ConstraintInput& in) {
                             return in.configuration.at("P10") > 7;
                           }});
  const SearchSpace space(problem(), {}, {&t});
  std::mt19937_64 generator(1);
  EXPECT_EQ(space.random(generator, 1'000'000), std::nullopt);  // bounded by ctest's time limit
}

// Some problems have no candidates of one template, but a search still requests draws from it.
TEST(SearchSpace, TenThousandDrawsFromAnEmptySpaceTakeSeconds) {
  KernelTemplate t = sparse_template();
  t.constraints.push_back({"never", {"P20", "P21"}, "never", [](const ConstraintInput& in) {
                             return in.configuration.at("P20") > 7;
                           }});
  const SearchSpace space(problem(), {}, {&t});
  std::mt19937_64 generator(1);
  for (int i = 0; i < 10'000; ++i)  // bounded by ctest's time limit
    ASSERT_EQ(space.random(generator), std::nullopt);
}

TEST(SearchSpace, NeighboursChangeOneParameterNearestFirst) {
  const KernelTemplate t = small_template();
  const SearchSpace space(problem(), {}, {&t});
  const Candidate from{"small", {{"TILE", 16}, {"THREAD", 2}, {"VECTOR", 1}, {"FREE", 0}}};
  const auto changes = [&](const Candidate& to) {
    int count = 0;
    for (const auto& [name, value] : to.configuration.values())
      count += value != from.configuration.at(name);
    return count;
  };
  const std::vector<Candidate> neighbours = space.neighbours(from);
  std::set<Candidate> singles;
  for (const Configuration& c : brute_force(t, problem()))
    if (changes({"small", c}) == 1) singles.insert({"small", c});
  ASSERT_GE(neighbours.size(), singles.size());
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    EXPECT_TRUE(space.contains(neighbours[i]));
    EXPECT_EQ(changes(neighbours[i]), i < singles.size() ? 1 : 2) << to_string(neighbours[i]);
  }
  EXPECT_EQ(std::set<Candidate>(neighbours.begin(), neighbours.end()).size(), neighbours.size());
  std::vector<int> threads;
  for (const Candidate& n : neighbours)
    if (changes(n) == 1 && n.configuration.at("THREAD") != 2)
      threads.push_back(n.configuration.at("THREAD"));
  EXPECT_THAT(threads, testing::ElementsAre(4, 8, 16));
  EXPECT_TRUE(space.neighbours({"elsewhere", from.configuration}).empty());
}

TEST(SearchSpace, NeighboursCrossCoupledConstraints) {
  // A and B must be equal, so neither can change alone.
  KernelTemplate t = small_template("coupled");
  t.parameters = {{"A", {1, 2, 4, 8}, ""}, {"B", {1, 2, 4, 8}, ""}};
  t.constraints = {{"equal", {"A", "B"}, "A is B", [](const ConstraintInput& in) {
                      return get(in, "A") == get(in, "B");
                    }}};
  const SearchSpace space(problem(), {}, {&t});
  const auto neighbours = space.neighbours({"coupled", {{"A", 2}, {"B", 2}}});
  std::vector<int> values;
  for (const Candidate& n : neighbours) values.push_back(n.configuration.at("A"));
  EXPECT_THAT(values, testing::UnorderedElementsAre(1, 4, 8));
}

TEST(SearchSpace, SubspaceNarrowsAndRefusesNonsense) {
  const KernelTemplate one = small_template("one");
  KernelTemplate two = small_template("two");
  two.parameters[0].values = {8};
  const SearchSpace space(problem(), {}, {&one, &two}, {{"TILE", {16, 32}}, {"FREE", {1}}});
  ASSERT_EQ(space.templates().size(), 1u) << "two has neither value of TILE";
  space.for_each([](const Candidate& c) {
    EXPECT_GE(c.configuration.at("TILE"), 16);
    EXPECT_EQ(c.configuration.at("FREE"), 1);
    return true;
  });
  EXPECT_TRUE(space.defaults().empty());
  const auto make = [&](Subspace subspace) {
    return message_of([&] { SearchSpace(problem(), {}, {&one}, subspace); },
                      ErrorKind::invalid_argument);
  };
  EXPECT_EQ(make({{"WARP", {1}}}),
            "no chosen template has a parameter WARP; there are FREE, THREAD, TILE, VECTOR");
  EXPECT_EQ(make({{"TILE", {8, 9}}}), "TILE=9 is not one of 8, 16, 32, 64");
}

TEST(SearchSpace, LeavesOutTemplatesThatCannot) {
  const KernelTemplate t = small_template();
  Problem batched = problem();
  batched.batch = 4;
  EXPECT_THAT(message_of([&] { SearchSpace(batched, {}, {&t}); }, ErrorKind::unsupported),
              HasSubstr("no chosen kernel template can do"));
}

TEST(SearchSpace, ATemplateMistakeIsNamed) {
  KernelTemplate t = small_template();
  t.constraints[0].reads.push_back("TYLE");
  EXPECT_THAT(message_of([&] { SearchSpace(problem(), {}, {&t}); }, ErrorKind::invalid_argument),
              HasSubstr("whole_vectors of template small reads TYLE"));
}

TEST(SearchSpace, RejectionsCountTheFirstRefusal) {
  const KernelTemplate t = small_template();
  const SearchSpace space(problem(), {}, {&t});
  std::mt19937_64 generator(3);
  const auto rejections = space.rejections(generator, 9600);
  std::int64_t refused = 0;
  for (const auto& [name, count] : rejections) refused += count;
  const double valid_share = static_cast<double>(brute_force(t, problem()).size()) / 96;
  EXPECT_NEAR(static_cast<double>(refused), 9600 * (1 - valid_share), 300);
  EXPECT_GT(rejections.at("whole_vectors"), 0);
  EXPECT_GT(rejections.at("tile_not_over_m"), 0);
}

TEST(SearchSpace, OfTheCatalogIsSoundForManyProblems) {
  std::mt19937_64 generator(11);
  for (const Target& target : known_targets())
    for (const std::int64_t size : {1, 33, 1024}) {
      Problem p = problem(size);
      set_alignment(p, {4, 4, 4});
      const SearchSpace space(p, nominal_device(target), select_templates());
      for (const Candidate& candidate : space.defaults())
        EXPECT_EQ(rejection(find_template(candidate.kernel_template), p, candidate.configuration,
                            space.device()),
                  "");
      EXPECT_EQ(space.defaults().size(), space.templates().size());
      for (int i = 0; i < 5; ++i) {
        const auto candidate = space.random(generator);
        ASSERT_TRUE(candidate);
        EXPECT_EQ(rejection(find_template(candidate->kernel_template), p, candidate->configuration,
                            space.device()),
                  "");
      }
    }
}

TEST(SelectTemplates, ByNameOnceOrAll) {
  EXPECT_EQ(select_templates().size(), catalog().size());
  const std::string name = catalog().front().name;
  EXPECT_EQ(select_templates({name, name}).size(), 1u);
  EXPECT_THROW(select_templates({"nonesuch"}), Error);
}

}  // namespace
}  // namespace tilewise::search_space_test
