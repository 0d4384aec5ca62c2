// Orders of sums that are kept for invariant products.
#include <nlohmann/json.hpp>

#include "damage.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise::orders_test {
namespace {

using namespace samples;
using testing::HasSubstr;
using testing::IsEmpty;

KeptOrder kept(std::int64_t n = 4096, const std::string& order = "tensor16",
               const std::string& gpu = kGpu) {
  return {order_key(typed_problem(Layout::nt, 1, n, 4096, DType::bf16, DType::bf16)), gpu, order,
          "2026-11-28T10:00:00Z"};
}

TEST(Orders, AreKeptByProblemAndGpu) {
  Database db = Database::in_memory();
  EXPECT_EQ(db.order(kept().problem, kGpu), std::nullopt);
  db.put(kept());
  db.put(kept(1023, "tensor16+parts512"));
  db.put(kept(4096, "fused", "other|8.0|108"));
  EXPECT_EQ(db.order(kept().problem, kGpu), kept());
  EXPECT_EQ(db.order(kept(1023).problem, kGpu), kept(1023, "tensor16+parts512"));
  EXPECT_EQ(db.order(kept().problem, "other|8.0|108"), kept(4096, "fused", "other|8.0|108"));
  EXPECT_EQ(db.order(kept(5).problem, kGpu), std::nullopt);
  EXPECT_EQ(db.orders(kGpu).size(), 2u);
  EXPECT_EQ(db.orders().size(), 3u);
  db.put(kept(4096, "tensor16+parts1024"));
  EXPECT_EQ(db.order(kept().problem, kGpu), kept(4096, "tensor16+parts1024"));
  EXPECT_EQ(db.orders().size(), 3u);
}

TEST(Orders, AreOfProductsOfOneRow) {
  Database db = Database::in_memory();
  KeptOrder wrong = kept();
  wrong.problem.m = 2;
  EXPECT_THROW(db.put(wrong), Error);
  wrong = kept(4096, "ascending");
  EXPECT_THROW(db.put(wrong), Error);
  EXPECT_THAT(db.orders(), IsEmpty());
}

TEST(Orders, ThatAreDamagedAreAnErrorSinceAnyOtherGivesOtherBits) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path).put(kept());
  change(path, "UPDATE orders SET sum_order = 'tensor16+parts512'");
  Database db = Database::open(path);
  try {
    (void)db.order(kept().problem, kGpu);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::database);
    EXPECT_THAT(error.what(), HasSubstr("does not match its hash"));
  }
  EXPECT_THAT(db.orders(), IsEmpty()) << "of a list it is left out, with a warning";
  EXPECT_EQ(db.check().size(), 1u);
  EXPECT_EQ(db.prune().damaged_rows, 1);
  EXPECT_EQ(db.order(kept().problem, kGpu), std::nullopt);
}

TEST(Orders, AreExportedAndImportedButReplaceNone) {
  Database from = Database::in_memory(), to = Database::in_memory();
  from.put(kept());
  from.put(kept(1023, "tensor16+parts512"));
  to.put(kept(1023));
  const std::string text = from.export_json();
  EXPECT_EQ(nlohmann::json::parse(text)["version"], 3) << "older programs refuse it";
  to.import_json(text, {});
  EXPECT_EQ(to.order(kept().problem, kGpu), kept());
  EXPECT_EQ(to.order(kept(1023).problem, kGpu), kept(1023));
  nlohmann::json bad = nlohmann::json::parse(text);
  bad["orders"][0]["sum_order"] = "ascending";
  EXPECT_THROW(to.import_json(bad.dump(), {}), Error);
  bad = nlohmann::json::parse(text);
  bad["orders"][0]["problem"]["m"] = 5;
  EXPECT_THROW(to.import_json(bad.dump(), {}), Error);
}

TEST(Orders, OfProblemsWithAnOrderAreExportedToo) {
  Database from = Database::in_memory(), to = Database::in_memory();
  EXPECT_EQ(nlohmann::json::parse(from.export_json())["version"], 1);
  Record one = record(64, 10);
  set_order(one.problem, "fused");
  from.set_winner(from.add(one));
  const std::string text = from.export_json();
  EXPECT_EQ(nlohmann::json::parse(text)["version"], 3);
  to.import_json(text, {});
  EXPECT_TRUE(to.winner(one.problem, kGpu));
  EXPECT_FALSE(to.winner(problem(), kGpu)) << "the plain problem is another one";
}

TEST(Orders, AndGroupsOfProblemsAreExportedInAVersionOfTheirOwn) {
  Database from = Database::in_memory(), to = Database::in_memory();
  Record one = record(64, 10);
  one.problem.batch = 4;
  one.problem.grouping = Grouping::rows;
  one.problem.distribution = Distribution::zipf;
  from.set_winner(from.add(one));
  const std::string text = from.export_json();
  EXPECT_EQ(nlohmann::json::parse(text)["version"], 4);
  to.import_json(text, {});
  EXPECT_TRUE(to.winner(one.problem, kGpu));
  one.problem.distribution = Distribution::even;
  EXPECT_FALSE(to.winner(one.problem, kGpu));
}

TEST(Orders, GoWithTheLastRecordOfTheirGpu) {
  Database db = Database::in_memory();
  db.add(record(64, 10));
  db.add(record(32, 10));
  db.put(kept());
  db.put(kept(4096, "fused", "other|8.0|108"));
  db.prune();
  EXPECT_EQ(db.orders().size(), 2u) << "no record has their problem";
  db.remove({.problem = problem(), .gpu = kGpu});
  EXPECT_THAT(db.orders(kGpu), IsEmpty());
  EXPECT_EQ(db.orders().size(), 1u);
}

}  // namespace
}  // namespace tilewise::orders_test
