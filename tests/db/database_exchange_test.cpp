// Export to JSON and back.
#include <cmath>
#include <nlohmann/json.hpp>

#include "samples.hpp"

namespace tilewise::database_exchange_test {
namespace {

using namespace samples;
using nlohmann::json;
using testing::HasSubstr;

/// A database with two GPUs, a winner for each, a rejected record, a baseline, a search, and images
/// with and without records.
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
  EXPECT_EQ(to.import_json(from.export_json(), from.stored_images()), 3);
  EXPECT_EQ(to.counts().images, 3);
  to.remove({.problem = problem(), .gpu = "none"});
  const auto id = to.winner(problem(), kGpu)->record.id;
  Record expected = from.winner(problem(), kGpu)->record;
  expected.id = id;
  expected.origin = Origin::imported;
  EXPECT_EQ(to.record(id), expected);
  EXPECT_EQ(to.winner(problem(), kGpu)->since, from.winner(problem(), kGpu)->since);
  EXPECT_EQ(to.winner(problem(), "other|8.0|108")->quarantined, "cannot be loaded");
  EXPECT_EQ(to.winner(problem(), "other|8.0|108")->record.candidate.kernel_template,
            "from_the_future");
  EXPECT_EQ(to.baselines(), from.baselines());
  EXPECT_TRUE(to.searches(problem(), kGpu).empty()) << "they were not made here";
  EXPECT_EQ(to.image(kernel(64), {9, 0, true}, "simt.1 plan.1"), image(64));
  EXPECT_EQ(to.counts().images, 3);
  to.prune();
  EXPECT_EQ(to.counts().images, 3) << "which record uses which image came along";
}

TEST(Exchange, OfACopyOfACopyIsTheSameText) {
  const Database from = filled();
  Database copy = Database::in_memory(), again = Database::in_memory();
  copy.import_json(from.export_json());
  again.import_json(copy.export_json());
  EXPECT_EQ(again.export_json(), copy.export_json());
}

TEST(Exchange, TwiceAddsNothing) {
  Database db = filled();
  const std::string text = db.export_json();
  EXPECT_EQ(db.import_json(text, db.stored_images()), 0);
  EXPECT_EQ(db.export_json(), text);
  EXPECT_EQ(db.counts().images, 3);
}

TEST(Exchange, OfAllHasTheFormatAndNoImages) {
  const json exported = json::parse(filled().export_json());
  EXPECT_EQ(exported.at("format"), "tilewise");
  EXPECT_EQ(exported.at("version"), 1);
  EXPECT_FALSE(exported.contains("images"));
  EXPECT_EQ(exported.at("records").size(), 3u);
}

TEST(Exchange, OfOneGpu) {
  const json exported = json::parse(filled().export_json("other|8.0|108"));
  EXPECT_EQ(exported.at("records").size(), 1u);
  EXPECT_EQ(exported.at("winners").size(), 1u);
  EXPECT_EQ(exported.at("baselines").size(), 0u);
  EXPECT_EQ(exported.at("searches").size(), 0u);
}

/// An export of another machine, whose winner is by energy.
std::string exported_by_energy(int tile, double median_us, double energy_mj) {
  Database there = Database::in_memory();
  Record measured = record(tile, median_us);
  measured.measurement->energy_mj = energy_mj;
  measured.measurement->power_limit_w = 700;
  there.set_winner(there.add(measured), Objective::energy);
  Search made = search();
  made.objective = Objective::energy;
  there.add(made);
  return there.export_json();
}

TEST(Exchange, KeepsEnergyAndWhatAWinnerWasChosenBy) {
  const std::string text = exported_by_energy(64, 10, 3.25);
  EXPECT_EQ(json::parse(text).at("winners").at(0).at("objective"), "energy");
  EXPECT_EQ(json::parse(text).at("searches").at(0).at("objective"), "energy");
  Database db = Database::in_memory();
  db.import_json(text);
  const auto winner = db.winner(problem(), kGpu);
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->objective, Objective::energy);
  EXPECT_EQ(winner->record.measurement->energy_mj, 3.25);
  EXPECT_EQ(winner->record.measurement->power_limit_w, 700);
  EXPECT_THAT(db.check(), testing::IsEmpty());
}

TEST(Exchange, OfBeforeObjectivesIsByTime) {
  json text = json::parse(exported_by_energy(64, 10, 3.25));
  text["winners"][0].erase("objective");
  text["records"][0]["measurement"].erase("energy_mj");
  Database db = Database::in_memory();
  db.import_json(text.dump());
  EXPECT_EQ(db.winner(problem(), kGpu)->objective, Objective::time);
  EXPECT_EQ(db.winner(problem(), kGpu)->record.measurement->energy_mj, 0);
}

TEST(Exchange, OfImportedWinnersByEnergyTheOneOfLessEnergyStays) {
  const auto winner_of = [](const std::vector<std::string>& texts) {
    Database db = Database::in_memory();
    for (const std::string& text : texts) db.import_json(text);
    return db.winner(problem(), kGpu)->record.candidate.configuration.at("TILE_M");
  };
  const std::string less = exported_by_energy(64, 20, 3), more = exported_by_energy(32, 10, 4);
  EXPECT_EQ(winner_of({less, more}), 64);
  EXPECT_EQ(winner_of({more, less}), 64);
}

TEST(Exchange, NoImportedWinnerReplacesOneOfAnotherObjective) {
  Database by_time = Database::in_memory(), by_energy = Database::in_memory();
  Database fast = Database::in_memory();
  fast.set_winner(fast.add(record(32, 1)));
  by_time.import_json(fast.export_json());
  by_time.import_json(exported_by_energy(64, 20, 3));
  EXPECT_EQ(by_time.winner(problem(), kGpu)->record.candidate, record(32).candidate);
  by_energy.import_json(exported_by_energy(64, 20, 3));
  by_energy.import_json(fast.export_json());
  EXPECT_EQ(by_energy.winner(problem(), kGpu)->record.candidate, record(64).candidate);
}

/// An export of another machine: an ok record of TILE_M = `tile` that is its winner.
std::string exported(int tile, double median_us, const std::string& date = "") {
  Database there = Database::in_memory();
  Record measured = record(tile, median_us);
  if (!date.empty()) measured.environment.date = date;
  there.set_winner(there.add(measured));
  return there.export_json();
}

TEST(Exchange, OfImportedRecordsTheLaterStays) {
  for (const bool later_first : {false, true}) {
    Database db = Database::in_memory();
    const std::string earlier = exported(64, 10), later = exported(64, 20, "2026-01-01T00:00:00Z");
    EXPECT_EQ(db.import_json(later_first ? later : earlier), 1);
    EXPECT_EQ(db.import_json(later_first ? earlier : later), 0);
    EXPECT_EQ(db.records({}).front().measurement->median_us, 20);
    EXPECT_EQ(db.records({}).front().origin, Origin::imported);
  }
}

TEST(Exchange, NothingImportedReplacesWhatWasMeasuredHere) {
  Database db = Database::in_memory();
  db.set_winner(db.add(record(64, 100)));
  db.add(baseline("default", 90));
  db.import_json(exported(64, 0.001, "2030-01-01T00:00:00Z"));
  EXPECT_EQ(db.record(1)->measurement->median_us, 100) << "the same candidate, later and faster";
  db.import_json(exported(128, 0.001));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.measurement->median_us, 100) << "another, faster";
  EXPECT_EQ(db.records({}).size(), 2u) << "but known: a search begins with it";
  Database there = Database::in_memory();
  Baseline faster = baseline("default", 1);
  faster.environment.date = "2030-01-01T00:00:00Z";
  there.add(faster);
  db.import_json(there.export_json());
  EXPECT_EQ(db.baselines().front().measurement.median_us, 90);
}

TEST(Exchange, WhatSaysItWasMeasuredHereIsImportedAllTheSame) {
  json text = json::parse(exported(64, 10));
  text["records"][0]["origin"] = "measured";
  Database db = Database::in_memory();
  db.import_json(text.dump());
  EXPECT_EQ(db.records({}).front().origin, Origin::imported);
}

TEST(Exchange, MeasuringAgainMakesAnImportedRecordOnesOwn) {
  Database db = Database::in_memory();
  db.import_json(exported(64, 0.001));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.origin, Origin::imported) << "better than nothing";
  db.add(record(64, 50));
  EXPECT_EQ(db.winner(problem(), kGpu)->record.origin, Origin::measured);
  EXPECT_EQ(db.winner(problem(), kGpu)->record.measurement->median_us, 50);
}

TEST(Exchange, ReplacesAnImportedWinnerOnlyByMoreThanTheSpread) {
  const auto imported_winner = [](double median_us) {
    Database here = Database::in_memory();
    here.import_json(exported(64, 100));
    here.import_json(exported(128, median_us));
    return here.winner(problem(), kGpu)->record.candidate.configuration.at("TILE_M");
  };
  EXPECT_EQ(imported_winner(200), 64);
  EXPECT_EQ(imported_winner(99.5), 64) << "the spread is 1%";
  EXPECT_EQ(imported_winner(98), 128);
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

TEST(Exchange, KeepsNanAndInfinity) {
  Database from = Database::in_memory(), to = Database::in_memory();
  Record r = rejected(64, Outcome::wrong_result, "");
  r.error_ratio = HUGE_VAL;
  r.normwise_error = std::nan("");
  from.add(r);
  to.import_json(from.export_json());
  EXPECT_EQ(to.records({}).front().error_ratio, HUGE_VAL);
  EXPECT_TRUE(std::isnan(to.records({}).front().normwise_error));
}

TEST(Import, RefusesBadTextAndImportsNothing) {
  const json good = json::parse(filled().export_json());
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
      {changed("/version", 5), "version is 5"},
      {changed("/version", "1"), "versions 1 to 4"},
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
      {changed("/records/0/origin", "elsewhere"), "records[0]"},
      {std::string(75'000, '['), "nested"},
      {"{\"format\":\"tilewise\",\"version\":1,\"records\":" + std::string(100'000, '['), "nested"},
  };
  for (const auto& [text, words] : cases) {
    Database db = Database::in_memory();
    EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.import_json(text); }),
                testing::AllOf(HasSubstr("nothing was imported"), HasSubstr(words)));
    const DatabaseCounts counts = db.counts();
    EXPECT_EQ(counts.records + counts.winners + counts.images + counts.searches, 0) << words;
  }
}

TEST(Import, RefusesClaimsThatNoMachineMadeAndNamesThatSteerATerminal) {
  const json good = json::parse(filled().export_json());
  const std::string record = "/records/1/", measured = record + "measurement/";
  struct {
    std::string pointer;
    json value;
    const char* words;
  } const cases[] = {
      {measured + "median_us", -1, "above 0, at most 1e+12, not -1"},
      {measured + "median_us", 0, "not 0"},
      {measured + "median_us", 1e308, "not 1e+308"},
      {measured + "median_us", "nan", "not nan"},
      {measured + "median_us", "inf", "not inf"},
      {measured + "spread", -1, "spread must be 0 .. 100, not -1"},
      {measured + "spread", 1e308, "spread"},
      {measured + "samples", -5, "samples must be 0 or more, not -5"},
      {measured + "launches_per_sample", -5, "launches_per_sample"},
      {measured + "samples_us", {1, -1}, "samples_us"},
      {measured + "method", "\x1b[2J", "method"},
      {measured + "sm_clock_mhz", -1, "sm_clock_mhz"},
      {measured + "power_w", -1, "power_w"},
      {measured + "host_us", -1, "host_us"},
      {measured + "energy_mj", -1, "energy_mj must be 0 .. 1e+18, not -1"},
      {measured + "energy_mj", "inf", "energy_mj"},
      {measured + "power_limit_w", -1, "power_limit_w"},
      {record + "usage/registers", -1, "registers must be 0 or more, not -1"},
      {record + "error_ratio", -1, "error_ratio must be 0 or more, not -1"},
      {record + "normwise_error", "-inf", "normwise_error"},
      {record + "predicted_us", -1, "predicted_us"},
      {record + "compile_ms", -1, "compile_ms"},
      {record + "environment/date", "x", "a date in UTC"},
      {record + "environment/host", "a\nb", "environment.host"},
      {record + "problem/m", 0, "problem.m must be 1 or more, not 0"},
      {record + "problem/k", 0, "problem.k"},
      {record + "gpu", "", "gpu must be a name, not empty"},
      {record + "gpu", std::string("a\0b", 3), "\"a\\u0000b\""},
      {record + "gpu", "\x1b]0;pwned\x07", "control characters, not \"\\u001b]0;pwned"},
      {record + "gpu", "\xc2\x9b", "control characters"},
      {record + "gpu", std::string(1000, 'g'), "at most 256 bytes"},
      {record + "candidate/kernel_template", "../../etc/passwd", "kernel_template"},
      {record + "candidate/kernel_template", "", "kernel_template"},
      {record + "candidate/configuration/A B", 1, "the name of a parameter"},
      {record + "source_hash", "\x07", "source_hash"},
      {"/winners/0/since", "yesterday", "since"},
      {"/winners/0/objective", "noise",
       "unknown objective \"noise\"; the objectives are time, energy"},
      {"/baselines/0/measurement/median_us", -1, "baselines[0]: measurement.median_us"},
      {"/baselines/0/library", "\x1b", "library"},
      {"/baselines/0/gpu", "", "gpu"},
  };
  for (const auto& [pointer, value, words] : cases) {
    SCOPED_TRACE(pointer + " = " + value.dump());
    json changed = good;
    changed[json::json_pointer(pointer)] = value;
    Database db = Database::in_memory();
    EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { db.import_json(changed.dump()); }),
                testing::AllOf(HasSubstr("nothing was imported"), HasSubstr(words)));
    EXPECT_EQ(db.counts().records, 0);
  }
}

TEST(Import, TakesNoImagesOfATextOfBefore) {
  json text = json::parse(filled().export_json());
  text["images"] = {{{"kernel", "simt.cu:simt"}, {"binary", "AAAA"}}};
  Database db = Database::in_memory();
  EXPECT_EQ(db.import_json(text.dump()), 3);
  EXPECT_EQ(db.counts().images, 0);
}

TEST(Import, RefusesImagesWithNamesThatSteerATerminal) {
  const Database from = filled();
  std::vector<StoredImage> images = from.stored_images();
  images.front().image.source_hash = "\x1b[2J";
  Database db = Database::in_memory();
  EXPECT_THAT(
      error_of(ErrorKind::invalid_argument, [&] { db.import_json(from.export_json(), images); }),
      HasSubstr("source_hash"));
  EXPECT_EQ(db.counts().records, 0);
}

TEST(Import, TakesImagesWhoseLogIsNoUtf8) {
  Database db = Database::in_memory();
  Image stored = image();
  stored.log = "warning: \xff\xfe";
  db.put_image(stored, db.add(record()));
  Database copy = Database::in_memory();
  copy.import_json(db.export_json(), db.stored_images());
  EXPECT_EQ(copy.image(stored.kernel, stored.target, stored.launch_revision), stored);
  EXPECT_THAT(copy.check(), testing::IsEmpty());
}

TEST(Import, NeedsOnlyTheHeader) {
  Database db = Database::in_memory();
  EXPECT_EQ(db.import_json(R"({"format":"tilewise","version":1})"), 0);
}

}  // namespace
}  // namespace tilewise::database_exchange_test
