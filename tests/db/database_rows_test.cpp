// Records, winners, baselines and searches are read back as written.
#include <cmath>
#include <limits>

#include "samples.hpp"

namespace tilewise::database_rows_test {
namespace {

using namespace samples;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Records, KeepEveryField) {
  Database db = Database::in_memory();
  Record stored = record();
  stored.problem = odd_problem();
  stored.detail = std::string("quotes ' \" \n and a zero \0 byte", 29);
  stored.id = db.add(stored);
  EXPECT_GT(stored.id, 0);
  EXPECT_EQ(db.record(stored.id), stored);
  EXPECT_THAT(db.records({}), ElementsAre(stored));
  EXPECT_EQ(db.record(stored.id + 1), std::nullopt);
}

TEST(Records, ManyAreAddedAsOneAfterAnother) {
  Database db = Database::in_memory(), one_by_one = Database::in_memory();
  std::vector<Record> records(3, record());
  records[1].candidate.configuration.set("TILE_M", 32);  // the third replaces the first
  const std::vector<std::int64_t> ids = db.add_all(records);
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(ids[i], one_by_one.add(records[i])) << i;
  EXPECT_EQ(db.records({}), one_by_one.records({}));
  EXPECT_THAT(db.records({}), testing::SizeIs(2));
  EXPECT_THAT(db.add_all({}), IsEmpty());
}

TEST(Records, KeepEmptyTextAndNoMeasurement) {
  Database db = Database::in_memory();
  Record bare;
  bare.candidate.kernel_template = "naive";
  bare.outcome = Outcome::timeout;
  bare.id = db.add(bare);
  EXPECT_EQ(db.record(bare.id), bare);
}

TEST(Records, KeepEveryOutcome) {
  Database db = Database::in_memory();
  for (const Outcome outcome : {Outcome::ok, Outcome::compile_error, Outcome::launch_error,
                                Outcome::wrong_result, Outcome::timeout}) {
    const auto id = db.add(rejected(static_cast<int>(outcome) + 1, outcome, "why"));
    EXPECT_EQ(db.record(id)->outcome, outcome);
  }
  EXPECT_EQ(db.records({.outcome = Outcome::wrong_result}).size(), 1u);
}

TEST(Records, KeepEverySample) {
  Database db = Database::in_memory();
  Record r = record();
  for (const std::vector<double>& samples :
       {std::vector<double>{},
        {0},
        {0.1, 1e-300, 1.2345678901234567e16, 1e22, 5e-324, 1.7e308},
        {10, -1.5, 3}}) {
    r.measurement->samples_us = samples;
    EXPECT_EQ(db.record(db.add(r))->measurement->samples_us, samples);
  }
}

TEST(Records, KeepNanAndInfinity) {
  Database db = Database::in_memory();
  Record r = record();
  r.error_ratio = std::numeric_limits<double>::infinity();
  r.normwise_error = std::nan("");
  r.measurement->median_us = std::nan("");
  r.measurement->samples_us = {1, std::nan("")};
  const Record found = *db.record(db.add(r));
  EXPECT_EQ(found.error_ratio, r.error_ratio);
  EXPECT_TRUE(std::isnan(found.normwise_error));
  ASSERT_TRUE(found.measurement);
  EXPECT_TRUE(std::isnan(found.measurement->median_us));
  EXPECT_TRUE(std::isnan(found.measurement->samples_us.at(1)));
  EXPECT_EQ(found.measurement->samples, 3);
}

TEST(Records, ReplaceTheSameCandidateAndKeepItsId) {
  Database db = Database::in_memory();
  const auto first = db.add(record(64, 20));
  const auto other = db.add(record(128, 30));
  Record again = record(64, 15);
  again.environment = {"600.1", "NVRTC 14.0", "elsewhere", "2026-01-01T00:00:00Z"};
  again.id = db.add(again);
  EXPECT_EQ(again.id, first);
  EXPECT_EQ(db.record(first), again);
  EXPECT_EQ(db.record(other)->measurement->median_us, 30);
  EXPECT_EQ(db.counts().records, 2);
}

TEST(Records, AreSeparateByEachPartOfTheKey) {
  Database db = Database::in_memory();
  db.add(record());
  Record problem = record(), gpu = record(), kernel = record(), source = record();
  problem.problem.c.alignment = 4;
  gpu.gpu = "other|8.0|108";
  kernel.candidate.kernel_template = "tiled";
  source.source_hash = "def456";
  for (const Record& r : {problem, gpu, kernel, source}) db.add(r);
  EXPECT_EQ(db.counts().records, 5);
  // The revision is part of a record, but not of its key.
  Record revision = record();
  revision.launch_revision = "simt.2 plan.1";
  db.add(revision);
  EXPECT_EQ(db.counts().records, 5);
}

TEST(Records, AreFiltered) {
  Database db = Database::in_memory();
  Record a = record(64), b = record(128), c = rejected(32, Outcome::timeout, "hung");
  b.problem = problem(512);
  b.gpu = "other|8.0|108";
  b.candidate.kernel_template = "tiled";
  a.environment.date = "2025-06-03T00:00:00Z";
  b.environment.date = "2025-06-02T00:00:00Z";
  for (Record* r : {&a, &b, &c}) r->id = db.add(*r);
  EXPECT_THAT(db.records({}), ElementsAre(a, b, c));
  EXPECT_THAT(db.records({.problem = problem(512)}), ElementsAre(b));
  EXPECT_THAT(db.records({.problem = problem(77)}), IsEmpty());
  EXPECT_THAT(db.records({.gpu = kGpu}), ElementsAre(a, c));
  EXPECT_THAT(db.records({.gpu = "NVIDIA H200"}), IsEmpty());
  EXPECT_THAT(db.records({.kernel_template = "tiled"}), ElementsAre(b));
  EXPECT_THAT(db.records({.problem = problem(), .gpu = kGpu, .outcome = Outcome::timeout}),
              ElementsAre(c));
  EXPECT_THAT(db.records({.limit = 2}), ElementsAre(a, b)) << "newest first";
  EXPECT_THAT(db.gpus(), ElementsAre(kGpu, "other|8.0|108"));
}

TEST(Records, TheirProblemsAreCounted) {
  Database db = Database::in_memory();
  Record other = record(64);
  other.problem = problem(512);
  for (const Record& one : {record(64), record(128), other}) db.add(one);
  other.gpu = "other|8.0|108";
  db.add(other);
  const auto counts = [&](const std::string& gpu) {
    std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> all;
    for (const auto& one : db.problems(gpu)) all.emplace_back(one.gpu, one.problem.m, one.records);
    return all;
  };
  EXPECT_THAT(counts(kGpu), ElementsAre(std::tuple(kGpu, 512, 1), std::tuple(kGpu, 1024, 2)));
  EXPECT_EQ(counts("").size(), 3);
  EXPECT_TRUE(counts("NVIDIA H200").empty());
}

TEST(Winners, AreSetAndReplaced) {
  Database db = Database::in_memory();
  EXPECT_FALSE(db.winner(problem(), kGpu));
  const auto slow = db.add(record(64, 20)), fast = db.add(record(128, 10));
  db.set_winner(slow);
  ASSERT_TRUE(db.winner(problem(), kGpu));
  EXPECT_EQ(db.winner(problem(), kGpu)->record, db.record(slow));
  EXPECT_THAT(db.winner(problem(), kGpu)->since, testing::MatchesRegex("20..-..-..T..:..:..Z"));
  db.set_winner(fast);
  EXPECT_EQ(db.winner(problem(), kGpu)->record.id, fast);
  EXPECT_EQ(db.counts().winners, 1);
  EXPECT_FALSE(db.winner(problem(), "other|8.0|108"));
  EXPECT_FALSE(db.winner(problem(512), kGpu));
}

TEST(Winners, StayValidWhenTheirRecordIsMeasuredAgain) {
  Database db = Database::in_memory();
  db.set_winner(db.add(record(64, 20)));
  db.add(record(64, 15));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.measurement->median_us, 15);
  EXPECT_EQ(db.winner(problem(), kGpu)->quarantined, "");
}

TEST(Winners, AreQuarantinedWhenTheirRecordFails) {
  Database db = Database::in_memory();
  const auto id = db.add(record(64));
  db.set_winner(id);
  db.add(rejected(64, Outcome::wrong_result, "C[0][1] = 3 instead of 5"));
  EXPECT_EQ(db.winner(problem(), kGpu)->quarantined, "wrong_result: C[0][1] = 3 instead of 5");
  db.add(record(64));
  db.set_winner(id);
  EXPECT_EQ(db.winner(problem(), kGpu)->quarantined, "");
}

TEST(Winners, ProblemsThatAreFasterThanEveryBaseline) {
  Database db = Database::in_memory();
  const auto faster = [&](double share) { return db.problems_faster_than_baselines(share); };
  db.set_winner(db.add(record(64, 8)));
  EXPECT_TRUE(faster(1).empty()) << "nothing was measured beside it";
  db.add(baseline("default", 10));
  EXPECT_THAT(faster(0.9), ElementsAre(problem()));
  EXPECT_TRUE(faster(0.8).empty());
  Baseline other = baseline("lt_best", 8.1);
  db.add(other);
  EXPECT_TRUE(faster(0.9).empty()) << "the fastest counts";
  other.problem = problem(512);
  db.add(other);
  db.add(record(64, 1, 512));
  EXPECT_TRUE(faster(0.9).empty()) << "a record that is no winner";
  const auto id = db.add(record(128, 1));
  db.set_winner(id);
  EXPECT_EQ(faster(0.9).size(), 1u);
  db.quarantine(id, "cannot be loaded");
  EXPECT_TRUE(faster(0.9).empty());
}

TEST(Winners, AreQuarantinedOnRequest) {
  Database db = Database::in_memory();
  const auto id = db.add(record(64)), loser = db.add(record(128));
  db.set_winner(id);
  db.quarantine(id, "cannot be loaded");
  db.quarantine(loser, "no winner: nothing happens");
  ASSERT_EQ(db.winners().size(), 1u);
  EXPECT_EQ(db.winners().front().quarantined, "cannot be loaded");
  db.quarantine(id, "");
  EXPECT_EQ(db.winners().front().quarantined, "");
}

TEST(Winners, KeepWhatTheyWereChosenBy) {
  Database db = Database::in_memory();
  const auto id = db.add(record(64)), other = db.add(record(128));
  const auto objective = [&db] { return db.winner(problem(), kGpu)->objective; };
  db.set_winner(id);
  EXPECT_EQ(objective(), Objective::time);
  db.set_winner(id, Objective::energy);
  EXPECT_EQ(objective(), Objective::energy);
  db.quarantine(id, "cannot be loaded");
  EXPECT_EQ(objective(), Objective::energy);
  db.renew(id, "newer", "simt.2 plan.1");
  EXPECT_EQ(objective(), Objective::energy);
  EXPECT_EQ(db.winner(problem(), kGpu)->quarantined, "cannot be loaded");
  db.set_winner(other);
  EXPECT_EQ(objective(), Objective::time);
  EXPECT_THAT(db.check(), testing::IsEmpty());
}

TEST(Winners, MustBeOkAndThere) {
  Database db = Database::in_memory();
  const auto id = db.add(rejected(64, Outcome::launch_error, "illegal address"));
  EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.set_winner(id); }),
              HasSubstr("launch_error"));
  EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.set_winner(77); }),
              HasSubstr("no such record"));
  EXPECT_EQ(db.counts().winners, 0);
}

TEST(Winners, AreListedByGpu) {
  Database db = Database::in_memory();
  Record other = record(64, 5, 512);
  other.gpu = "other|8.0|108";
  db.set_winner(db.add(record(64)));
  db.set_winner(db.add(record(64, 3, 256)));
  db.set_winner(db.add(other));
  EXPECT_EQ(db.winners().size(), 3u);
  ASSERT_EQ(db.winners(kGpu).size(), 2u);
  EXPECT_EQ(db.winners(kGpu).front().record.problem.m, 256) << "by size";
  EXPECT_EQ(db.winners("none").size(), 0u);
}

TEST(Baselines, KeepEveryFieldAndTheNewest) {
  Database db = Database::in_memory();
  Baseline b = baseline();
  b.problem = odd_problem();
  db.add(b);
  EXPECT_THAT(db.baselines(), ElementsAre(b));
  b.measurement.median_us = 8;
  b.environment.date = "2025-07-01T00:00:00Z";
  db.add(b);
  EXPECT_THAT(db.baselines(), ElementsAre(b));
  db.add(baseline("lt_best"));
  db.add(baseline("default"));
  EXPECT_EQ(db.baselines().size(), 3u);
  EXPECT_EQ(db.baselines(problem()).size(), 2u);
  EXPECT_EQ(db.baselines(problem(), "other").size(), 0u);
  EXPECT_EQ(db.baselines(problem(4096)).size(), 0u);
}

TEST(Searches, KeepEveryFieldAndAreUpdated) {
  Database db = Database::in_memory();
  Search s = search();
  s.id = db.add(s);
  const auto same = [](const Search& x, const Search& y) {
    return x.id == y.id && x.problem == y.problem && x.gpu == y.gpu && x.strategy == y.strategy &&
           x.seed == y.seed && x.space == y.space && x.budget_seconds == y.budget_seconds &&
           x.max_evaluations == y.max_evaluations && x.finished == y.finished &&
           x.evaluations == y.evaluations && x.seconds == y.seconds && x.date == y.date;
  };
  ASSERT_EQ(db.searches(problem(), kGpu).size(), 1u);
  EXPECT_TRUE(same(db.searches(problem(), kGpu).front(), s));
  s.finished = true;
  s.evaluations = 1000;
  db.update(s);
  db.add(search());
  ASSERT_EQ(db.searches(problem(), kGpu).size(), 2u);
  EXPECT_TRUE(same(db.searches(problem(), kGpu).front(), s));
  EXPECT_EQ(db.searches(problem(512), kGpu).size(), 0u);
  s.id = 99;
  EXPECT_THAT(error_of(ErrorKind::database, [&] { db.update(s); }), HasSubstr("no search 99"));
}

TEST(Databases, Move) {
  Database first = Database::in_memory();
  const auto id = first.add(record());
  Database second = std::move(first);
  EXPECT_TRUE(second.record(id));
  second = Database::in_memory();
  EXPECT_FALSE(second.record(id));
  EXPECT_EQ(second.path(), ":memory:");
  EXPECT_FALSE(second.read_only());
}

TEST(Winners, ComeInTheOrderOfTheirSizes) {
  Database db = Database::in_memory();
  for (const std::int64_t size : {300, 20, 1000}) {
    Record r = record();
    r.problem = problem(size);
    db.set_winner(db.add(r));
  }
  std::vector<std::int64_t> sizes;
  for (const Winner& winner : db.winners()) sizes.push_back(winner.record.problem.m);
  EXPECT_THAT(sizes, ElementsAre(20, 300, 1000));
}

}  // namespace
}  // namespace tilewise::database_rows_test
