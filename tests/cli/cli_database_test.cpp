// query, db, export and import on databases made by hand: no GPU, no driver, no compiler.
#include <gmock/gmock.h>

#include "db/database.hpp"
#include "templates/kernel_template.hpp"
#include "tests/cli/program.hpp"
#include "tests/cli/report_samples.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/record.hpp"

namespace cli_test::cli_database_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kH200 = "NVIDIA H200|9.0|132";
const std::string kRtx = "NVIDIA GeForce RTX 3090|8.6|82";

tilewise::Problem square(std::int64_t n) {
  tilewise::Problem problem;
  problem.m = problem.n = problem.k = n;
  return problem;
}

Json record(int id, const std::string& gpu, std::int64_t n, double median_us,
            const std::string& kernel_template) {
  const tilewise::DeviceInfo device = tilewise::nominal_device(tilewise::parse_target("sm_90a"));
  tilewise::Record record;
  record.id = id;
  record.problem = square(n);
  record.candidate = {
      kernel_template,
      tilewise::find_template(kernel_template).default_configuration(record.problem, device)};
  record.gpu = gpu;
  record.source_hash = "0123";
  record.measurement.emplace();
  record.measurement->median_us = median_us;
  record.measurement->spread = 0.001;
  record.measurement->samples = 7;
  record.environment.date =
      "2026-01-" + std::string(id < 10 ? "0" : "") + std::to_string(id) + "T00:00:00Z";
  return Json::parse(tilewise::to_json(record));
}

Json rejected(Json record, const std::string& outcome) {
  record["outcome"] = outcome;
  record["detail"] = "C[17][4] = 3 instead of 5 (exact)";
  record.erase("measurement");
  return record;
}

Json winner(int id) {
  return {{"record", id}, {"since", "2026-01-05T00:00:00Z"}, {"quarantined", ""}};
}

/// Three winners on two GPUs, one rejected candidate, one baseline.
Json hand_made() {
  Json baseline;
  baseline["problem"] = Json::parse(tilewise::to_json(square(1024)));
  baseline["gpu"] = kH200;
  baseline["library"] = "cuBLAS";
  baseline["version"] = "13.1.0";
  baseline["variant"] = "default";
  baseline["measurement"] = {{"median_us", 59.25}};
  return {{"format", "tilewise"},
          {"version", 1},
          {"records",
           {record(1, kH200, 1024, 61.123456789, "simt"), record(2, kH200, 4096, 2900, "simt"),
            record(3, kRtx, 1024, 99.5, "tiled"),
            rejected(record(4, kH200, 1024, 0, "naive"), "wrong_result")}},
          {"winners", {winner(1), winner(2), winner(3)}},
          {"baselines", {baseline}},
          {"searches", Json::array()}};
}

class CliDatabase : public ProgramTest {
 protected:
  CliDatabase() {
    hide_gpus();
    set("TILEWISE_NVRTC", "/nowhere");
    write(file("hand.json"), hand_made().dump());
  }
  void fill() {
    const Result result = run({"import", file("hand.json")});
    ASSERT_EQ(result.status, 0) << result.err;
    ASSERT_THAT(result.out, HasSubstr("4 new records"));
  }
};

TEST_F(CliDatabase, ADatabaseThatIsNotThereIsNamedAndNotCreated) {
  const std::vector<std::vector<std::string>> readers = {
      {"query"},       {"query", "--sizes", "64"},
      {"verify"},      {"export"},
      {"db", "info"},  {"db", "list"},
      {"db", "model"}, {"db", "delete", "--all"},
      {"db", "prune"},
  };
  const auto all_fail_naming = [&](const fs::path& path) {
    for (const auto& reader : readers) {
      const Result result = run(reader);
      EXPECT_EQ(result.status, 5) << reader.back() << ": " << result.err;
      EXPECT_THAT(result.err, AllOf(HasSubstr(path.string()), HasSubstr("autotune --sizes"),
                                    HasSubstr("--db"), Not(HasSubstr(":memory:"))));
      EXPECT_EQ(result.out, "") << reader.back();
    }
    EXPECT_FALSE(fs::exists(path));
  };
  all_fail_naming(database());
  unset("TILEWISE_DB");
  all_fail_naming(file(".local/share/tilewise/tilewise.db"));
}

TEST_F(CliDatabase, WithoutADatabaseAQueryForADeviceAnswersWithDefaultsAndSaysSo) {
  EXPECT_EQ(run({"query", "--device", "host", "--sizes", "64"}).status, 5) << "it was named";
  unset("TILEWISE_DB");
  const Result result = run({"query", "--device", "host", "--sizes", "64", "--json", "--quiet"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("no database at"), HasSubstr(file(".local/share").string())));
  EXPECT_EQ(result.json().at("database"), nullptr);
  EXPECT_EQ(result.json().at("answers")[0].at("match"), "default");
  EXPECT_FALSE(fs::exists(file(".local")));
}

TEST_F(CliDatabase, QueryByPartOfAGpusNameShowsItsWinners) {
  fill();
  const Result result = run({"query", "--gpu", "nvidia h200"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("nn 1024x1024x1024"), HasSubstr("nn 4096x4096x4096"),
                                HasSubstr("61.1 us"), HasSubstr("0.97x"), HasSubstr("simt"),
                                Not(HasSubstr("RTX"))));
  const Json gpus = run({"query", "--gpu", "H200", "--json"}).json().at("gpus");
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].at("gpu"), kH200);
  ASSERT_EQ(gpus[0].at("winners").size(), 2U);
  EXPECT_EQ(gpus[0].at("winners")[0].at("measurement").at("median_us"), 61.123456789) << "rounded";
  EXPECT_EQ(gpus[0].at("baselines").size(), 1U);
  EXPECT_EQ(run({"query", "--json"}).json().at("gpus").size(), 2U);
}

/// Three records of one problem with the times `times`, for `tiled` with tiles of 8, 16 and 32.
Json three_measured(const std::vector<double>& times) {
  Json document = hand_made();
  document["winners"] = document["baselines"] = Json::array();
  document["records"] = Json::array();
  for (int i = 0; i < 3; ++i) {
    Json made = record(i + 1, kH200, 1024, times[static_cast<std::size_t>(i)], "tiled");
    made["candidate"]["configuration"] = {{"TILE", 8 << i}, {"READ_B", 2}, {"UNROLL", 8}};
    made["predicted_us"] = 10 - i;
    document["records"].push_back(made);
  }
  return document;
}

TEST_F(CliDatabase, ModelComparesPredictionsOfTodayAndStoredOnesWithWhatWasMeasured) {
  write(file("three.json"), three_measured({640, 380, 410}).dump());
  ASSERT_EQ(run({"import", file("three.json")}).status, 0);
  const Result text = run({"db", "model"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("NVIDIA H200"), HasSubstr("nn 1024x1024x1024")));
  const Json rows = run({"db", "model", "--gpu", "H200", "--json"}).json().at("model");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("records"), 3);
  EXPECT_EQ(rows[0].at("best_of_first_10"), 1);
  EXPECT_EQ(rows[0].at("stored_predictions"), 3);
  EXPECT_EQ(rows[0].at("stored_rank_correlation"),
            0.5);  // predictions 10, 9, 8; times 640, 380, 410
  EXPECT_GE(rows[0].at("rank_correlation"), 0.5) << "tiles of 8 are the slowest";
  EXPECT_GT(rows[0].at("predicted_over_measured"), 0.5);
  EXPECT_LT(rows[0].at("predicted_over_measured"), 2);
}

TEST_F(CliDatabase, ModelLeavesOutWhatThisVersionCannotPlan) {
  Json document = three_measured({640, 380, 410});
  document["records"][0]["candidate"]["configuration"]["TILE"] = 9;
  document["records"][1]["candidate"]["kernel_template"] = "from_the_future";
  write(file("three.json"), document.dump());
  ASSERT_EQ(run({"import", file("three.json")}).status, 0);
  const Json rows = run({"db", "model", "--json"}).json().at("model");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("records"), 1);
  EXPECT_EQ(rows[0].at("rank_correlation"), nullptr);
}

TEST_F(CliDatabase, AGpuThatIsNotStoredIsNamedWithThoseThatAre) {
  fill();
  const Result result = run({"query", "--gpu", "A100"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("'A100'"), HasSubstr(kH200), HasSubstr(kRtx)));
}

TEST_F(CliDatabase, QueryWithSizesSaysExactPredictedOrDefault) {
  fill();
  const Json answers =
      run({"query", "--gpu", "H200", "--sizes", "1024,1300,3000x3000x3000", "--json"})
          .json()
          .at("answers");
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].at("match"), "exact");
  EXPECT_EQ(answers[0].at("distance"), 0.0);
  EXPECT_EQ(answers[0].at("record").at("problem").at("m"), 1024);
  EXPECT_GT(answers[0].at("predicted_us"), 30);
  EXPECT_LT(answers[0].at("predicted_us"), 300);
  EXPECT_THAT(answers[0].at("why").get<std::string>(),
              HasSubstr("limited by " + answers[0].at("limited_by").get<std::string>()));
  EXPECT_EQ(answers[1].at("match"), "predicted");
  const auto served = answers[1].at("record").at("problem").at("m").get<double>();
  EXPECT_NEAR(answers[1].at("distance").get<double>(), 3 * std::fabs(std::log2(1300. / served)),
              1e-9);
  EXPECT_GT(answers[1].at("predicted_us"), answers[0].at("predicted_us"));
  EXPECT_EQ(answers[2].at("match"), "predicted");
  const auto of_f16 = [&](const std::string& out) {
    return run({"query", "--gpu", "H200", "--sizes", "1024", "--dtype", "f16", "--out", out,
                "--json"})
        .json()
        .at("answers")
        .at(0);
  };
  const Json shipped = of_f16("f16"), other = of_f16("f32");
  EXPECT_EQ(shipped.at("match"), "predicted") << "by the portfolio";
  EXPECT_EQ(shipped.at("record").at("origin"), "shipped");
  EXPECT_EQ(other.at("match"), "default") << "no winner of these types is stored or shipped";
  EXPECT_TRUE(other.at("record").is_null());
  const Result table = run({"query", "--sizes", "1024"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("H200"), HasSubstr("RTX 3090"), HasSubstr("exact")));
}

TEST_F(CliDatabase, TablesFitTheTerminal) {
  fill();
  set("COLUMNS", "60");
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"query"},
                                             {"query", "-v"},
                                             {"query", "--sizes", "1024,3000"},
                                             {"db", "list"},
                                             {"db", "list", "-v"},
                                             {"space", "--arch", "sm_90", "--draws", "100"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_LE(widest_line(result.out), 60U) << result.out;
  }
}

TEST_F(CliDatabase, ANarrowTableSaysWhatItLeavesOut) {
  fill();
  set("COLUMNS", "60");
  EXPECT_THAT(run({"query"}).err, HasSubstr("too narrow for"));
  EXPECT_EQ(run({"query", "--quiet"}).err, "");
  set("COLUMNS", "200");
  EXPECT_EQ(run({"query"}).err, "");
}

TEST_F(CliDatabase, ExportAndImportGiveTheSameBack) {
  fill();
  const Result exported = run({"export"});
  EXPECT_EQ(exported.status, 0);
  write(file("out.json"), exported.out);
  const std::string other = file("other.db");
  EXPECT_EQ(run({"import", "-", "--db", other}, file("out.json")).status, 0);
  const Json before = run({"query", "--json"}).json(),
             after = run({"query", "--json", "--db", other}).json();
  const auto medians = [](const Json& document) {
    std::map<std::string, double> found;
    for (const Json& gpu : document.at("gpus"))
      for (const Json& each : gpu.at("winners"))
        found[gpu.at("gpu").get<std::string>() + each.at("problem").dump()] =
            each.at("measurement").at("median_us");
    return found;
  };
  EXPECT_EQ(medians(before).size(), 3U);
  EXPECT_EQ(medians(before), medians(after));
  EXPECT_EQ(run({"import", file("out.json"), "--json", "--db", other}).json().at("imported"), 0);
}

TEST_F(CliDatabase, ExportCanBeOfOneGpuAndIntoAFile) {
  fill();
  EXPECT_EQ(run({"export", file("rtx.json"), "--gpu", "3090"}).status, 0);
  EXPECT_EQ(Json::parse(read(file("rtx.json"))).at("records").size(), 1U);
  const Result several = run({"export", "--gpu", "NVIDIA"});
  EXPECT_EQ(several.status, 2);
  EXPECT_THAT(several.err, HasSubstr("several"));
  EXPECT_EQ(run({"export", file("hand.json") / "below.json"}).status, 2);
  const std::string before = read(file("rtx.json"));
  EXPECT_EQ(run({"export", file("rtx.json"), "--gpu", "absent"}).status, 2);
  EXPECT_EQ(read(file("rtx.json")), before) << "a failed export touched the file";
}

TEST_F(CliDatabase, APortfolioIsFilledFromAnOlderOne) {
  {
    tilewise::Database made = tilewise::Database::open(database());
    fill_samples(made, {.candidates = 20});
  }
  const auto portfolio = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"export", "--portfolio",      "--gpu",
                                       "H200",   "--configurations", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out);
  };
  const Json alone = portfolio({});
  EXPECT_EQ(alone.at("records").size(), 1U);
  EXPECT_THAT(alone.at("made_by").get<std::string>(), HasSubstr("export --portfolio"));

  Json older = alone;
  older["made_by"] = "an older command";
  older["records"].push_back(older["records"][0]);
  older["records"].back()["problem"]["m"] = 77;
  older["records"].push_back(older["records"].back());
  older["records"].back()["problem"]["dtype"] = "f64";
  write(file("older.json"), older.dump());
  const Json filled =
      portfolio({"--made-by", "a command", "--fill-from", file("older.json").string()});
  EXPECT_EQ(filled.at("records").size(), 2U) << "a line of each type";
  EXPECT_EQ(filled.at("records")[0].at("also").size(), 1U);
  EXPECT_EQ(filled.at("made_by"), "a command; 2 records of an older portfolio: an older command");

  write(file("older.json"), "{}");
  const Result none =
      run({"export", "--portfolio", "--gpu", "H200", "--fill-from", file("older.json").string()});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("--fill-from"), HasSubstr("older.json")));
  EXPECT_EQ(run({"export", "--made-by", "a command"}).status, 2) << "it is of a portfolio";
}

TEST_F(CliDatabase, ABadImportTakesNothing) {
  fill();
  Json broken = hand_made();
  broken["records"][2].erase("candidate");
  broken["records"][0]["problem"]["m"] = 77;
  write(file("broken.json"), broken.dump());
  EXPECT_EQ(run({"import", file("broken.json")}).status, 2);
  write(file("text.json"), "nothing of the kind");
  EXPECT_EQ(run({"import", file("text.json")}).status, 2);
  EXPECT_EQ(run({"import", file("absent.json")}).status, 2);
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("records"), 4);
}

TEST_F(CliDatabase, PathFollowsOptionThenVariableThenHome) {
  EXPECT_EQ(run({"db", "path"}).out, database().string() + "\n");
  EXPECT_EQ(run({"db", "path", "--db", "x.db"}).out, "x.db\n");
  unset("TILEWISE_DB");
  EXPECT_EQ(run({"db", "path"}).out, file(".local/share/tilewise/tilewise.db").string() + "\n");
  EXPECT_EQ(run({"db", "path", "--json"}).json().at("cache"),
            file(".cache/tilewise/images.db").string());
}

TEST_F(CliDatabase, ListFiltersByGpuTemplateOutcomeAndSize) {
  fill();
  const auto count = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"db", "list", "--json"});
    return run(arguments).json().at("records").size();
  };
  EXPECT_EQ(count({}), 4U);
  EXPECT_EQ(count({"--gpu", "H200"}), 3U);
  EXPECT_EQ(count({"--template", "tiled"}), 1U);
  EXPECT_EQ(count({"--outcome", "wrong_result"}), 1U);
  EXPECT_EQ(count({"--sizes", "4096"}), 1U);
  EXPECT_EQ(count({"--sizes", "1024,4096"}), 4U);
  EXPECT_EQ(count({"--sizes", "1024", "--gpu", "3090"}), 1U);
  EXPECT_EQ(count({"--limit", "2"}), 2U);
  EXPECT_THAT(run({"db", "list"}).out, AllOf(HasSubstr("wrong_result"), HasSubstr("2.900 ms")));
}

TEST_F(CliDatabase, DeleteRemovesWhatIsNamedAndItsWinners) {
  fill();
  EXPECT_EQ(
      run({"db", "delete", "--gpu", "H200", "--sizes", "4096", "--json"}).json().at("deleted"), 1);
  EXPECT_EQ(run({"query", "--gpu", "H200", "--json"}).json().at("gpus")[0].at("winners").size(),
            1U);
  EXPECT_EQ(run({"db", "delete", "--all", "--gpu", "H200"}).status, 2);
  EXPECT_THAT(run({"db", "delete", "--all"}).out, HasSubstr("3 records deleted"));
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("records"), 0);
  EXPECT_EQ(run({"query"}).status, 0);
}

TEST_F(CliDatabase, PruneKeepsWinners) {
  fill();
  EXPECT_GE(run({"db", "prune", "--json"}).json().at("freed_bytes"), 0);
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("winners"), 3);
}

TEST_F(CliDatabase, PruneDropsLosersOfOlderVersionsAndKeepsThoseOfNewer) {
  Json document = hand_made();
  // Eight finalists of the problem stay, of any version; three of ten older ones are pruned.
  for (int i = 0; i < 10; ++i) {
    Json older = record(10 + i, kH200, 2048, 301 + i, "tiled");
    Json& values = older["candidate"]["configuration"];
    values.erase(values.begin());  // a parameter of a later version
    older["source_hash"] = "4567" + std::to_string(i);
    document["records"].push_back(older);
  }
  Json newer = record(6, kH200, 2048, 300, "tiled");
  newer["candidate"]["configuration"]["NOT_YET_KNOWN"] = 1;
  document["records"].push_back(newer);
  write(file("hand.json"), document.dump());
  ASSERT_EQ(run({"import", file("hand.json")}).status, 0);
  ASSERT_EQ(run({"db", "info", "--json"}).json().at("counts").at("records"), 15);
  ASSERT_EQ(run({"db", "prune"}).status, 0);
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("records"), 12)
      << "what a compiler that is not here would have made stays";
  EXPECT_THAT(run({"db", "list", "--json"}).out, HasSubstr("NOT_YET_KNOWN"));
}

TEST_F(CliDatabase, EveryDocumentHasAVersionAndAnExportKeepsItsOwn) {
  fill();
  const std::vector<std::vector<std::string>> commands = {
      {"query"},
      {"query", "--sizes", "64"},
      {"db", "path"},
      {"db", "info"},
      {"db", "list"},
      {"db", "model"},
      {"db", "prune"},
      {"devices"},
      {"templates"},
      {"space", "--arch", "sm_90", "--draws", "10"},
      {"completion", "bash"},
      {"--version"},
      {"export", file("out.json")},
      {"import", file("hand.json")},
      {"verify", "--device", "host"},
      {"--sizes", "0"},
      {"db", "delete", "--all"},
  };
  for (std::vector<std::string> command : commands) {
    command.push_back("--json");
    const Json document = run(command).json();
    EXPECT_EQ(document.begin().key(), "version") << command[0];
    EXPECT_EQ(document.at("version"), 1) << command[0];
    EXPECT_TRUE(document.at("program_version").is_string()) << command[0];
  }
  const Json exported = run({"export", "--json"}).json();
  EXPECT_EQ(exported.at("format"), "tilewise");
  EXPECT_FALSE(exported.contains("program_version"));
}

TEST_F(CliDatabase, QueryReadsWhatItMayNotWrite) {
  fill();
  fs::permissions(database(), fs::perms::owner_read);
  EXPECT_EQ(run({"query", "--gpu", "H200"}).status, 0);
}

}  // namespace
}  // namespace cli_test::cli_database_test
