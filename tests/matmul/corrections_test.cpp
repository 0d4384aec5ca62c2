// Corrections of the cost model: what they learn, and that only known ones are used.
#include "matmul/corrections.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "matmul/stored_corrections.hpp"
#include "templates/space/search_space.hpp"
#include "tests/matmul/resolver_parts.hpp"
#include "tilewise/error.hpp"

namespace tilewise::corrections_test {
namespace {

using namespace resolver_parts;
using testing::HasSubstr;

using Sample = Corrections::Sample;

/// On this GPU `simt` takes longer than the model expects if its tiles are wide and rows few.
double true_factor(const Candidate& candidate, const Problem& problem) {
  if (candidate.kernel_template != "simt") return 1;
  return candidate.configuration.at("TILE_N") >= 64 && problem.m < 300 ? 2.5 : 0.8;
}

double true_us(const Candidate& candidate, const Problem& problem) {
  return modelled(candidate, problem) * true_factor(candidate, problem);
}

Problem random_problem(std::mt19937_64& generator) {
  const auto size = [&] {
    return static_cast<std::int64_t>(std::exp2(std::uniform_real_distribution<>(5, 11)(generator)));
  };
  return problem_of(size(), size(), size());
}

std::vector<Candidate> some_candidates(const Problem& problem, std::mt19937_64& generator,
                                       int count) {
  const SearchSpace space(problem, device(), {&find_template("simt")});
  std::vector<Candidate> candidates;
  while (static_cast<int>(candidates.size()) < count)
    if (auto drawn = space.random(generator)) candidates.push_back(*std::move(drawn));
  return candidates;
}

std::vector<Sample> measured(int problems, std::uint64_t seed = 1) {
  std::mt19937_64 generator(seed);
  std::vector<Sample> samples;
  for (int i = 0; i < problems; ++i) {
    const Problem problem = random_problem(generator);
    for (const Candidate& one : some_candidates(problem, generator, 12))
      samples.push_back({problem, one, true_us(one, problem)});
  }
  return samples;
}

double factor_of(const Corrections& corrections, const Candidate& candidate,
                 const Problem& problem) {
  return corrections.factor(candidate, problem,
                            estimate(plan_of(candidate, problem, device()), device()));
}

TEST(Corrections, LearnWhatTheModelDoesNotKnow) {
  const Corrections corrections = Corrections::fit(measured(60), device());
  EXPECT_TRUE(corrections.has("simt"));
  EXPECT_FALSE(corrections.has("skinny"));
  EXPECT_EQ(corrections.samples(), 60U * 12);
  int right = 0, count = 0;
  for (const Sample& sample : measured(20, 77)) {
    const double learned = factor_of(corrections, sample.candidate, sample.problem);
    const double truth = true_factor(sample.candidate, sample.problem);
    right += std::abs(std::log(learned / truth)) < 0.25;
    ++count;
  }
  EXPECT_GT(right, count * 9 / 10) << "of problems that were not measured";
  const Problem other = problem_of(64, 64, 64);
  EXPECT_EQ(factor_of(corrections, candidate(other, "naive"), other), 1) << "no samples of it";
}

TEST(Corrections, TakeEnoughProblemsAndSamples) {
  EXPECT_TRUE(Corrections::fit({}, device()).empty());
  EXPECT_TRUE(Corrections::fit(measured(7), device()).empty()) << "84 samples of 7 problems";
  EXPECT_FALSE(Corrections::fit(measured(8), device()).empty());
  std::vector<Sample> few = measured(20);
  few.resize(few.size() / 20 * 3);
  EXPECT_TRUE(Corrections::fit(few, device()).empty());
  DeviceInfo silent = device();
  silent.memory_clock_khz = 0;
  ASSERT_FALSE(can_estimate(silent));
  EXPECT_TRUE(Corrections::fit(measured(20), silent).empty());
}

TEST(Corrections, SamplesThatCannotBePlannedAreLeftOut) {
  std::vector<Sample> samples = measured(20);
  const Corrections without = Corrections::fit(samples, device());
  Sample strange = samples.front();
  strange.candidate.kernel_template = "of a newer version";
  samples.push_back(strange);
  strange = samples.front();
  strange.candidate.configuration.set("TILE_M", 7);
  samples.push_back(strange);
  strange = samples.front();
  strange.us = std::nan("");
  samples.push_back(strange);
  EXPECT_EQ(Corrections::fit(samples, device()).to_bytes(), without.to_bytes());
}

/// The candidate as stored by a version that did not have these parameters.
Candidate without_added(const Candidate& candidate) {
  Candidate earlier{candidate.kernel_template, {}};
  for (const Parameter& parameter : find_template(candidate.kernel_template).parameters)
    if (!parameter.added)
      earlier.configuration.set(parameter.name, candidate.configuration.at(parameter.name));
  return earlier;
}

TEST(Corrections, AParameterThatARecordLacksHasItsFirstValue) {
  std::mt19937_64 generator(5);
  std::vector<Sample> samples, earlier;
  for (int i = 0; i < 20; ++i) {
    Problem problem = random_problem(generator);
    set_types(problem, DType::bf16, DType::bf16, MathMode::strict);
    problem.n = problem.n / 16 * 16, problem.k = problem.k / 16 * 16;
    set_alignment(problem, {16, 16, 16});
    const SearchSpace space(problem, device(), {&find_template("wgmma")});
    for (int n = 0; n < 12; ++n) {
      const Candidate one = space.random(generator).value();
      const double us = modelled(one, problem) * (one.configuration.at("SWAP_AB") ? 2 : 0.5);
      const bool first = one == with(one, "STREAM_K", 0) && one == with(one, "PROMOTE", 0);
      samples.push_back({problem, one, us});
      earlier.push_back({problem, first ? without_added(one) : one, us});
    }
  }
  const Corrections corrections = Corrections::fit(samples, device());
  ASSERT_TRUE(corrections.has("wgmma"));
  EXPECT_EQ(Corrections::fit(earlier, device()).to_bytes(), corrections.to_bytes());
  std::size_t lacking = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    lacking += samples[i].candidate != earlier[i].candidate;
    EXPECT_EQ(factor_of(corrections, earlier[i].candidate, earlier[i].problem),
              factor_of(corrections, samples[i].candidate, samples[i].problem));
  }
  EXPECT_GT(lacking, samples.size() / 4);
}

TEST(Corrections, AreWithinLimits) {
  std::vector<Sample> samples = measured(20);
  for (Sample& sample : samples) sample.us *= 1e6;
  const Corrections corrections = Corrections::fit(samples, device());
  const double factor = factor_of(corrections, samples.front().candidate, samples.front().problem);
  EXPECT_GT(factor, 4);
  EXPECT_LE(factor, 5 + 1e-9);
}

TEST(Corrections, SayHowFarOffExpectationsAre) {
  const Corrections::Accuracy learned = Corrections::assess(measured(60), device());
  EXPECT_EQ(learned.problems, 60U);
  EXPECT_GE(learned.median, 1);
  EXPECT_LT(learned.median, 1.2);
  EXPECT_GE(learned.ninth_decile, learned.median);
  // Times without any rule, to which no fit applies.
  std::vector<Sample> noise = measured(60);
  std::mt19937_64 generator(3);
  for (Sample& sample : noise) sample.us *= std::exp(std::normal_distribution<>(0, 0.7)(generator));
  EXPECT_GT(Corrections::assess(noise, device()).median, 1.3);
  EXPECT_EQ(Corrections::assess(measured(5), device()), Corrections::Accuracy{});
}

TEST(Corrections, SurviveStorage) {
  const std::vector<Sample> samples = measured(40);
  Corrections corrections = Corrections::fit(samples, device());
  corrections.set_accuracy({40, 1.25, 2});
  const Problem kind = samples.front().problem;
  const Corrections again = Corrections::from_bytes(corrections.to_bytes(), kind, device());
  EXPECT_EQ(again.samples(), corrections.samples());
  EXPECT_EQ(again.accuracy(), corrections.accuracy());
  for (const Sample& sample : samples)
    EXPECT_EQ(factor_of(again, sample.candidate, sample.problem),
              factor_of(corrections, sample.candidate, sample.problem));
}

TEST(Corrections, OfAnotherCostModelOrTemplateAreNotUsed) {
  const std::vector<Sample> samples = measured(20);
  const Problem kind = samples.front().problem;
  const auto bytes = Corrections::fit(samples, device()).to_bytes();
  EXPECT_FALSE(Corrections::from_bytes(bytes, kind, device()).empty());
  const auto changed = [&](auto change) {
    nlohmann::json json = nlohmann::json::from_cbor(bytes);
    change(json);
    return Corrections::from_bytes(nlohmann::json::to_cbor(json), kind, device()).empty();
  };
  EXPECT_FALSE(changed([](nlohmann::json&) {}));
  EXPECT_TRUE(changed([](nlohmann::json& json) {
    json["templates"]["simt"]["estimates"] = "of a newer cost model";
  }));
  EXPECT_TRUE(changed([](nlohmann::json& json) {
    json["templates"]["simt"].erase("form");  // trees of an earlier version
    json["templates"]["simt"]["trees"] = nlohmann::json::binary({1, 2, 3});
  }));
  EXPECT_TRUE(changed([](nlohmann::json& json) {
    json["templates"]["simt"].erase("estimates");  // an earlier version's
    json["model"] = "of all templates";
  }));
  EXPECT_TRUE(changed(
      [](nlohmann::json& json) { json["templates"]["simt"]["revision"] = "simt.99 plan.99"; }));
  EXPECT_TRUE(changed(
      [](nlohmann::json& json) { json["templates"]["simt"]["parameters"].push_back("ZZZ"); }));
  EXPECT_TRUE(changed([](nlohmann::json& json) {
    json["templates"] = {{"of a newer version", json["templates"]["simt"]}};
  }));
}

// Beside simt's there are tiled's, of another version.
TEST(Corrections, OfOtherTemplatesStayInAPortfolioAndAreFittedAgainInADatabase) {
  const std::vector<Sample> samples = measured(20);
  const Problem kind = samples.front().problem;
  Corrections fitted = Corrections::fit(samples, device());
  fitted.set_accuracy({20, 1.25, 2});
  EXPECT_TRUE(fitted.whole());
  nlohmann::json json = nlohmann::json::from_cbor(fitted.to_bytes());
  json["templates"]["tiled"] = json["templates"]["simt"];
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(json);
  const Corrections partial = Corrections::from_bytes(bytes, kind, device());
  EXPECT_FALSE(partial.whole());
  EXPECT_TRUE(partial.has("simt"));
  EXPECT_FALSE(partial.has("tiled"));
  EXPECT_EQ(partial.accuracy(), Corrections::Accuracy{});
  EXPECT_EQ(factor_of(partial, samples.front().candidate, kind),
            factor_of(fitted, samples.front().candidate, kind));
  Database database = Database::in_memory();
  database.put({gpu_key(device()), "f32", 1000, bytes});
  EXPECT_FALSE(load_corrections(database, kind, device()));
}

// A walk must end at a leaf of its tree.
TEST(Corrections, TreesThatEndWithoutALeafAreAnError) {
  const std::vector<std::uint8_t> inner{0, 5, 0}, leaf{0xff, 0, 0x3f};
  const auto tree = [](std::vector<std::vector<std::uint8_t>> nodes) {
    std::vector<std::uint8_t> bytes(8);       // the mean, 0
    bytes.insert(bytes.end(), {1, 0, 0, 0});  // one tree
    bytes.push_back(static_cast<std::uint8_t>(nodes.size()));
    bytes.push_back(0);
    for (const auto& node : nodes) bytes.insert(bytes.end(), node.begin(), node.end());
    return bytes;
  };
  EXPECT_EQ(BoostedTrees::from_bytes(tree({leaf}), 1)({3}), 0.5);
  EXPECT_EQ(BoostedTrees::from_bytes(tree({inner, leaf, leaf}), 1)({9}), 0.5);
  const std::vector<std::vector<std::vector<std::uint8_t>>> without{{inner},
                                                                    {inner, leaf},
                                                                    {inner, leaf, inner},
                                                                    {inner, inner, leaf},
                                                                    {leaf, leaf},
                                                                    {inner, leaf, leaf, leaf}};
  for (const auto& nodes : without)
    EXPECT_THROW(BoostedTrees::from_bytes(tree(nodes), 1), Error) << nodes.size();
  EXPECT_THROW(BoostedTrees::from_bytes(tree({{7, 5, 0}, leaf, leaf}), 1), Error)
      << "of a feature that is not there";
}

TEST(Corrections, DamagedBytesAreAnErrorOrHarmless) {
  const std::vector<Sample> samples = measured(10);
  const Problem kind = samples.front().problem;
  const std::vector<std::uint8_t> bytes = Corrections::fit(samples, device()).to_bytes();
  const auto try_bytes = [&](const std::vector<std::uint8_t>& damaged) {
    try {
      const Corrections read = Corrections::from_bytes(damaged, kind, device());
      for (const Sample& sample : {samples.front(), samples.back()})
        static_cast<void>(factor_of(read, sample.candidate, sample.problem));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    }
  };
  std::mt19937_64 generator(5);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::uint8_t> damaged = bytes;
    for (int flips = 0; flips < 3; ++flips)
      damaged[generator() % damaged.size()] ^= static_cast<std::uint8_t>(1U << (generator() % 8));
    try_bytes(damaged);
    damaged.resize(generator() % damaged.size());
    try_bytes(damaged);
  }
  EXPECT_THROW(Corrections::from_bytes({}, kind, device()), Error);
}

Record record_of(const Sample& sample) {
  Record record;
  record.problem = sample.problem;
  record.candidate = sample.candidate;
  record.gpu = gpu_key(device());
  record.outcome = Outcome::ok;
  record.measurement = Measurement{};
  record.measurement->median_us = sample.us;
  return record;
}

TEST(StoredCorrections, AreMadeOfTheRecordsAndAgainWhereTheyGrow) {
  Database database = Database::in_memory();
  const std::vector<Sample> samples = measured(30);
  const Problem kind = samples.front().problem;
  EXPECT_FALSE(load_corrections(database, kind, device()));
  EXPECT_FALSE(refresh_corrections(database, kind, device())) << "no records";
  for (const Sample& sample : samples) database.add(record_of(sample));
  EXPECT_TRUE(refresh_corrections(database, kind, device()));
  EXPECT_FALSE(refresh_corrections(database, kind, device())) << "nothing is new";
  const auto stored = load_corrections(database, kind, device());
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->accuracy().problems, 30U);
  Problem half = kind;
  half.a.type = half.b.type = half.c.type = DType::f16;
  EXPECT_FALSE(load_corrections(database, half, device()));
  EXPECT_FALSE(refresh_corrections(database, half, device()));
  for (const Sample& sample : measured(10, 9)) database.add(record_of(sample));
  EXPECT_TRUE(refresh_corrections(database, kind, device()));
  EXPECT_GT(load_corrections(database, kind, device())->samples(), stored->samples());
}

TEST(StoredCorrections, LearnFromProductsWithoutAnEpilogue) {
  Database bare = Database::in_memory(), mixed = Database::in_memory(),
           others = Database::in_memory();
  const std::vector<Sample> samples = measured(30);
  const Problem kind = samples.front().problem;
  for (const Sample& sample : samples) {
    bare.add(record_of(sample));
    mixed.add(record_of(sample));
    Record slow = record_of(sample);
    set_epilogue(slow.problem, Epilogue("tanh(exp(acc + bias[j]))"));
    slow.measurement->median_us *= 20;
    mixed.add(slow);
    others.add(slow);
  }
  ASSERT_TRUE(refresh_corrections(bare, kind, device()));
  ASSERT_TRUE(refresh_corrections(mixed, kind, device()));
  EXPECT_FALSE(refresh_corrections(others, kind, device()));
  const auto of_bare = load_corrections(bare, kind, device()),
             of_mixed = load_corrections(mixed, kind, device());
  EXPECT_EQ(of_bare->samples(), of_mixed->samples());
  for (const Sample& sample : {samples.front(), samples[100], samples.back()})
    EXPECT_DOUBLE_EQ(factor_of(*of_bare, sample.candidate, sample.problem),
                     factor_of(*of_mixed, sample.candidate, sample.problem));
}

TEST(StoredCorrections, ThatCannotBeReadAreAWarning) {
  Database database = Database::in_memory();
  const Problem kind = problem_of(64, 64, 64);
  database.put({gpu_key(device()), "f32", 100, {1, 2, 3}});
  EXPECT_FALSE(load_corrections(database, kind, device()));
  EXPECT_THAT(database.warnings(), testing::ElementsAre(HasSubstr("corrections of f32")));
  const std::vector<Sample> samples = measured(20);
  for (const Sample& sample : samples) database.add(record_of(sample));
  EXPECT_TRUE(refresh_corrections(database, kind, device())) << "they are made anew";
  EXPECT_TRUE(load_corrections(database, kind, device()));
}

/// Winners of problems with many rows, whose times do not transfer to few rows.
std::vector<Winner> winners_of_many_rows(const std::vector<Sample>& samples, const Problem& asked) {
  std::vector<Winner> winners;
  std::int64_t id = 0;
  for (const Sample& sample : samples)
    if (winners.size() < 40 && sample.problem.m >= 300 &&
        rejection(find_template("simt"), asked, sample.candidate.configuration, device()).empty())
      winners.push_back(winner(++id, sample.problem, sample.candidate, sample.us));
  return winners;
}

TEST(Corrections, DecideWhatServes) {
  const std::vector<Sample> samples = measured(60);
  const Corrections corrections = Corrections::fit(samples, device());
  std::mt19937_64 generator(21);
  double with = 0, without = 0, best = 0;
  for (int i = 0; i < 10; ++i) {
    Problem asked = random_problem(generator);
    asked.m = 64 + asked.m % 100;
    asked.n = 1024 + asked.n % 1024;  // the model prefers wide tiles
    const std::vector<Winner> winners = winners_of_many_rows(samples, asked);
    int reads = 0;
    const Resolver learned(winners, device(), "", {}, [&](const Problem&) {
      ++reads;
      return std::optional(corrections);
    });
    const Resolver plain(winners, device());
    const Resolution choice = learned.resolve(asked);
    with += std::log(true_us(choice.candidate, asked));
    without += std::log(true_us(plain.resolve(asked).candidate, asked));
    double least = 1e30;
    for (const Resolver::Expected& one : learned.expected(asked, 48))
      least = std::min(least, true_us(one.candidate, asked));
    best += std::log(least);
    EXPECT_NEAR(std::log(choice.predicted_us / true_us(choice.candidate, asked)), 0, 0.6);
    EXPECT_THAT(choice.why, HasSubstr("720 measurements on this GPU"));
    EXPECT_EQ(reads, 1) << "once for a kind of products";
  }
  EXPECT_LT(with, best + 10 * 0.1) << "within 10% of the best of the table";
  EXPECT_LT(with, without - 10 * 0.1) << "by the winners' own times";
}

TEST(Corrections, ExplainSaysHowTheyWereAssessed) {
  Corrections corrections = Corrections::fit(measured(20), device());
  corrections.set_accuracy({20, 1.17, 1.62});
  const Resolver resolver({}, device(), "", {},
                          [&](const Problem&) { return std::optional(corrections); });
  EXPECT_EQ(resolver.how_far_off(problem_of(64, 64, 64)),
            "for problems that were not measured, such expectations are off by a factor of 1.17 in "
            "the median and 1.62 in the worst tenth (cross-validation over 20 problems)");
}

}  // namespace
}  // namespace tilewise::corrections_test
