// Corrections of the cost model: one row for each GPU and kind of product.
#include "tests/db/damage.hpp"
#include "tests/db/samples.hpp"

namespace tilewise::database_corrections_test {
namespace {

using namespace samples;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const StoredCorrections kOne{kGpu, "bf16", 400, {1, 0, 255, 7}};

TEST(DatabaseCorrections, OneRowOfEachGpuAndKind) {
  const TemporaryFolder folder;
  Database db = Database::open(folder / "x.db");
  EXPECT_FALSE(db.corrections(kGpu, "bf16"));
  db.put(kOne);
  db.put(StoredCorrections{kGpu, "f32 by tf32", 70, {9}});
  EXPECT_EQ(db.corrections(kGpu, "bf16"), kOne);
  EXPECT_FALSE(db.corrections("another GPU", "bf16"));
  StoredCorrections newer = kOne;
  newer.samples = 500;
  newer.trees.assign(100'000, 3);
  db.put(newer);
  EXPECT_EQ(db.corrections(kGpu, "bf16"), newer);
  EXPECT_EQ(Database::open(folder / "x.db", OpenMode::read_only).corrections(kGpu, "bf16"), newer);
  EXPECT_THAT(db.check(), IsEmpty());
}

TEST(DatabaseCorrections, ADamagedRowIsNotUsedAndPruned) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path).put(kOne);
  Connection(path, Connection::Access::write).execute("UPDATE corrections SET trees = x'01020304'");
  Database db = Database::open(path);
  EXPECT_FALSE(db.corrections(kGpu, "bf16"));
  EXPECT_THAT(db.warnings(), ElementsAre(HasSubstr("corrections of bf16")));
  EXPECT_THAT(db.check(), ElementsAre(HasSubstr("corrections of bf16")));
  EXPECT_EQ(db.prune().damaged_rows, 1);
  EXPECT_THAT(db.check(), IsEmpty());
  db.put(kOne);
  EXPECT_EQ(db.corrections(kGpu, "bf16"), kOne);
}

TEST(DatabaseCorrections, GoWithTheRecordsThatTheyAreMadeOf) {
  Database db = Database::in_memory();
  db.add(record(32));
  db.put(kOne);
  db.put(StoredCorrections{"another GPU", "bf16", 9, {1}});
  db.prune();
  EXPECT_TRUE(db.corrections(kGpu, "bf16"));
  db.remove({.gpu = kGpu});
  EXPECT_FALSE(db.corrections(kGpu, "bf16"));
  EXPECT_TRUE(db.corrections("another GPU", "bf16"));
}

TEST(DatabaseRecords, AreCountedAndChosenByTypes) {
  Database db = Database::in_memory();
  db.add(record(32));
  db.add(record(64));
  Record half = record(32);
  half.problem.a.type = half.problem.b.type = half.problem.c.type = DType::f16;
  db.add(half);
  Record fast = record(32);
  fast.problem.math = MathMode::tf32;
  db.add(fast);
  RecordFilter filter;
  EXPECT_EQ(db.count(filter), 4);
  filter.types = record().problem;
  EXPECT_EQ(db.count(filter), 2);
  filter.types = half.problem;
  EXPECT_EQ(db.count(filter), 1);
  ASSERT_EQ(db.records(filter).size(), 1U);
  EXPECT_EQ(db.records(filter).front().problem, half.problem);
  filter.gpu = "another GPU";
  EXPECT_EQ(db.count(filter), 0);
}

}  // namespace
}  // namespace tilewise::database_corrections_test
