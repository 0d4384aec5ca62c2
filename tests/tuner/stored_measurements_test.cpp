// Measurements of other sources, compilers and machines.
#include "tuner/stored_measurements.hpp"

#include "tests/support/elf.hpp"
#include "tests/tuner/tune_fixture.hpp"

namespace tilewise::stored_measurements_test {
namespace {

/// The machine code depends only on X and Y; the compiler's name is in a note section.
struct StoredMeasurements : Tune {
  StoredMeasurements() {
    compiler.code = [this](const KernelSpec& spec) {
      return test::elf_with_code(to_string(spec) + extra_code, compiler.name);
    };
  }
  /// Changes every source hash.
  void move_sources() { compiler.name += "x"; }

  std::string extra_code;
};

TEST_F(StoredMeasurements, RecordsCarryTheirMachineCode) {
  run();
  std::set<std::string> hashes;
  for (const Record& record : records()) {
    EXPECT_EQ(record.code_hash.empty(), record.outcome == Outcome::compile_error);
    hashes.insert(record.code_hash);
  }
  EXPECT_EQ(hashes.size(), 56u + 1u) << "one each, and none for what was refused";
}

TEST_F(StoredMeasurements, ASearchOfTheSameMachineCodeIsNotRepeated) {
  run();
  const std::int64_t before = database.winner(problem, gpu)->record.id;
  forget_counts();
  move_sources();
  const TuneResult result = run();
  EXPECT_TRUE(result.already_done);
  EXPECT_TRUE(evaluator.evaluated.empty());
  EXPECT_LE(compiler.count, 17) << "winner, finalists and a sample, and the pack kernel of all";
  EXPECT_GE(compiler.count, 10);
  EXPECT_EQ(database.winner(problem, gpu)->record.id, before);
  EXPECT_EQ(database.winner(problem, gpu)->record.source_hash,
            source_hash({source_name(), "grid", {{"X", 6}, {"Y", 2}}}, compiler.identity()))
      << "and is current from now on";
  forget_counts();
  EXPECT_TRUE(run().already_done);
  EXPECT_EQ(compiler.count, 0) << "nothing is compared twice";
}

TEST_F(StoredMeasurements, OtherMachineCodeIsMeasuredAgain) {
  run();
  forget_counts();
  move_sources();
  extra_code = " another instruction";
  const TuneResult result = run();
  EXPECT_FALSE(result.already_done);
  EXPECT_EQ(result.evaluated, 64);
  EXPECT_EQ(result.reused, 0);
}

TEST_F(StoredMeasurements, WhereOnlySomeCodeChangedTheRestIsReused) {
  run();
  forget_counts();
  move_sources();
  compiler.code = [this](const KernelSpec& spec) {
    const auto x = spec.defines.find("X");
    const bool changed = x != spec.defines.end() && x->second == 6;  // also the winner's
    return test::elf_with_code(to_string(spec) + (changed ? " changed" : ""), compiler.name);
  };
  const TuneResult result = run();
  EXPECT_FALSE(result.already_done);
  EXPECT_EQ(result.reused, 48);
  for (const Point& p : evaluator.evaluated) EXPECT_EQ(p.first, 6);
  EXPECT_EQ(evaluator.evaluated.size(), 8u);
  EXPECT_EQ(winner(), Point(6, 2));
}

TEST_F(StoredMeasurements, AWrongResultOfTheSameCodeIsNotTriedAgain) {
  options.subspace = {{"X", {kWrong, 6}}};
  run();
  forget_counts();
  move_sources();
  options.seed = 2;  // another search
  run();
  EXPECT_TRUE(evaluator.evaluated.empty());
}

TEST_F(StoredMeasurements, ImportedOnesAreMeasuredHere) {
  Database elsewhere = Database::in_memory();
  {
    TuneContext context{elsewhere, nullptr, &compiler, evaluator, {}, nullptr};
    tune(problem, options, context);
  }
  database.import_json(elsewhere.export_json());
  ASSERT_EQ(database.winner(problem, gpu)->record.origin, Origin::imported);
  forget_counts();
  options.strategy = "local";
  options.max_evaluations = 8;
  const TuneResult result = run();
  EXPECT_FALSE(result.already_done) << "that search was not made here";
  EXPECT_EQ(result.reused, 0);
  EXPECT_EQ(evaluator.evaluated.front(), Point(6, 2)) << "whoever is served comes first";
  EXPECT_EQ(database.winner(problem, gpu)->record.origin, Origin::measured);
  // The fastest candidates of other machines are tried early.
  EXPECT_THAT(evaluator.evaluated, testing::Contains(Point(6, 1)));
  EXPECT_THAT(evaluator.evaluated, testing::Contains(Point(6, 3)));
}

TEST_F(StoredMeasurements, AClaimOfAnImpossibleTimeDisplacesNothing) {
  run();
  Database liar = Database::in_memory();
  Record claim = database.winner(problem, gpu)->record;
  claim.candidate.configuration.set("X", 1);
  claim.measurement->median_us = 0.001;
  liar.set_winner(liar.add(claim));
  database.import_json(liar.export_json());
  EXPECT_EQ(winner(), Point(6, 2));
  options.seed = 2;
  run();
  EXPECT_EQ(winner(), Point(6, 2));
  EXPECT_GT(database.winner(problem, gpu)->record.measurement->median_us, 1);
}

}  // namespace
}  // namespace tilewise::stored_measurements_test
