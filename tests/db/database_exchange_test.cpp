// Export to JSON and back.
#include <cmath>
#include <nlohmann/json.hpp>

#include "samples.hpp"

namespace tilewise {
namespace {

using namespace samples;
using nlohmann::json;
using testing::HasSubstr;

/// Two GPUs, a winner each, a rejected record, a baseline, a search, images with and without
/// records.
Database filled() {
  Database db = Database::in_memory();
  db.add(rejected(13, Outcome::compile_error, "error: \xff no UTF-8, \"quotes\""));
  const auto id = db.add(record(64, 10));
  db.set_winner(id);
  db.put_image(image(64), id);
  db.put_image(image(65));
  Record other = record(32, 40);
  other.gpu = "other|8.0|108";
  other.candidate = {"from_the_future", {{"NEW_PARAMETER", 3}}};
  other.launch_revision = "from_the_future.1 plan.1";
  const auto other_id = db.add(other);
  db.set_winner(other_id);
  db.quarantine(other_id, "cannot be loaded");
  Image other_image = image(32);
  other_image.target = {8, 0, false};
  db.put_image(other_image, other_id);
  db.add(baseline());
  db.add(search());
  return db;
}

TEST(Exchange, BringsEverythingBack) {
  const Database from = filled();
  Database to = Database::in_memory();
  to.add(record(99));  // so that ids differ
  const std::string text = from.export_json("", true);
  EXPECT_EQ(to.import_json(text), 3);
  to.remove({.problem = problem(), .gpu = "none"});
  const auto id = to.winner(problem(), kGpu)->record.id;
  Record expected = from.winner(problem(), kGpu)->record;
  expected.id = id;
  EXPECT_EQ(to.record(id), expected);
  EXPECT_EQ(to.winner(problem(), kGpu)->since, from.winner(problem(), kGpu)->since);
  EXPECT_EQ(to.winner(problem(), "other|8.0|108")->quarantined, "cannot be loaded");
  EXPECT_EQ(to.winner(problem(), "other|8.0|108")->record.candidate.kernel_template,
            "from_the_future");
  EXPECT_EQ(to.baselines(), from.baselines());
  EXPECT_EQ(to.searches(problem(), kGpu).front().seed, search().seed);
  EXPECT_EQ(to.image(kernel(64), {9, 0, true}, "simt.1 plan.1"), image(64));
  EXPECT_EQ(to.counts().images, 3);
  to.prune();
  EXPECT_EQ(to.counts().images, 3) << "which record uses which image came along";
}

TEST(Exchange, OfACopyIsTheSameText) {
  const Database from = filled();
  Database to = Database::in_memory();
  to.import_json(from.export_json("", true));
  EXPECT_EQ(to.export_json("", true), from.export_json("", true));
}

TEST(Exchange, TwiceAddsNothing) {
  Database db = filled();
  const std::string text = db.export_json("", true);
  EXPECT_EQ(db.import_json(text), 0);
  EXPECT_EQ(db.export_json("", true), text);
}

TEST(Exchange, LeavesImagesOutUnlessAsked) {
  const json exported = json::parse(filled().export_json());
  EXPECT_EQ(exported.at("format"), "tilewise");
  EXPECT_EQ(exported.at("version"), 1);
  EXPECT_FALSE(exported.contains("images"));
  EXPECT_EQ(exported.at("records").size(), 3u);
}

TEST(Exchange, OfOneGpu) {
  const json exported = json::parse(filled().export_json("other|8.0|108", true));
  EXPECT_EQ(exported.at("records").size(), 1u);
  EXPECT_EQ(exported.at("winners").size(), 1u);
  EXPECT_EQ(exported.at("baselines").size(), 0u);
  EXPECT_EQ(exported.at("searches").size(), 0u);
  EXPECT_EQ(exported.at("images").size(), 1u);
  EXPECT_EQ(json::parse(filled().export_json(kGpu, true)).at("images").size(), 2u)
      << "the one without records fits by its launch revision";
}

TEST(Exchange, KeepsTheNewerRecord) {
  Database here = Database::in_memory(), there = Database::in_memory();
  Record older = record(64, 10), newer = record(64, 20);
  newer.environment.date = "2026-01-01T00:00:00Z";
  here.add(newer);
  there.add(older);
  EXPECT_EQ(here.import_json(there.export_json()), 0);
  EXPECT_EQ(here.records({}).front().measurement->median_us, 20);
  there.import_json(here.export_json());
  EXPECT_EQ(there.records({}).front().measurement->median_us, 20);
}

TEST(Exchange, ReplacesAWinnerOnlyByMoreThanTheSpread) {
  const auto imported_winner = [](double median_us) {
    Database here = Database::in_memory(), there = Database::in_memory();
    here.set_winner(here.add(record(64, 100)));
    there.set_winner(there.add(record(128, median_us)));
    here.import_json(there.export_json());
    return here.winner(problem(), kGpu)->record.candidate.configuration.at("TILE_M");
  };
  EXPECT_EQ(imported_winner(200), 64);
  EXPECT_EQ(imported_winner(99.5), 64) << "the spread is 1%";
  EXPECT_EQ(imported_winner(98), 128);
  EXPECT_EQ(imported_winner(std::nan("")), 64);
}

TEST(Exchange, QuarantinedWinnersGiveWay) {
  Database here = Database::in_memory(), there = Database::in_memory();
  const auto id = here.add(record(64, 100));
  here.set_winner(id);
  there.set_winner(there.add(record(128, 500)));
  const std::string theirs = there.export_json();
  here.quarantine(id, "cannot be loaded");
  const std::string ours = here.export_json();
  here.import_json(theirs);
  EXPECT_EQ(here.winner(problem(), kGpu)->record.measurement->median_us, 500);
  there.import_json(ours);
  EXPECT_EQ(there.winner(problem(), kGpu)->record.measurement->median_us, 500)
      << "a quarantined winner takes no other's place";
}

TEST(Exchange, KeepsNanInfinityAndNoBudget) {
  Database from = Database::in_memory(), to = Database::in_memory();
  Record r = rejected(64, Outcome::wrong_result, "");
  r.error_ratio = HUGE_VAL;
  r.normwise_error = std::nan("");
  from.add(r);
  Search unlimited = search();
  unlimited.budget_seconds = HUGE_VAL;
  from.add(unlimited);
  to.import_json(from.export_json());
  EXPECT_EQ(to.records({}).front().error_ratio, HUGE_VAL);
  EXPECT_TRUE(std::isnan(to.records({}).front().normwise_error));
  EXPECT_EQ(to.searches(problem(), kGpu).front().budget_seconds, HUGE_VAL);
}

TEST(Import, RefusesBadTextAndImportsNothing) {
  const json good = json::parse(filled().export_json("", true));
  const auto changed = [&good](const char* pointer, const json& value) {
    json copy = good;
    copy[json::json_pointer(pointer)] = value;
    return copy.dump();
  };
  const auto without = [&good](const char* list, const char* key) {
    json copy = good;
    copy[list][0].erase(key);
    return copy.dump();
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "not JSON"},
      {"{\"format\":", "not JSON"},
      {good.dump().substr(0, good.dump().size() / 2), "not JSON"},
      {"[]", "no export"},
      {"{}", "no export"},
      {changed("/format", "kernel_tuner"), "no export"},
      {changed("/format", 7), "no export"},
      {changed("/version", 2), "version is 2"},
      {changed("/version", "1"), "version 1"},
      {changed("/records", 5), "\"records\" is no array"},
      {changed("/records/1", nullptr), "records[1]"},
      {changed("/records/2/outcome", "maybe"), "records[2]"},
      {changed("/records/2/problem/dtype", "f8"), "records[2]"},
      {changed("/records/1/id", 1), "two records have the id 1"},
      {without("records", "gpu"), "records[0]"},
      {changed("/winners/0/record", 1), "outcome compile_error"},
      {changed("/winners/0/record", 77), "record 77"},
      {without("winners", "since"), "winners[0]"},
      {changed("/baselines/0/measurement", nullptr), "baselines[0]"},
      {changed("/searches/0/seed", "one"), "searches[0]"},
      {changed("/images/2/binary", "@@@@"), "images[2]"},
      {changed("/images/0/target", "gfx90a"), "images[0]"},
      {changed("/images/0/kernel", "simt"), "images[0]"},
      {without("images", "log"), "images[0]"},
  };
  for (const auto& [text, words] : cases) {
    Database db = Database::in_memory();
    EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.import_json(text); }),
                testing::AllOf(HasSubstr("nothing was imported"), HasSubstr(words)));
    const DatabaseCounts counts = db.counts();
    EXPECT_EQ(counts.records + counts.winners + counts.images + counts.searches, 0) << words;
  }
}

TEST(Import, NeedsOnlyTheHeader) {
  Database db = Database::in_memory();
  EXPECT_EQ(db.import_json(R"({"format":"tilewise","version":1})"), 0);
}

}  // namespace
}  // namespace tilewise
