// `autotune report`: the data of the page, without a browser. tests/cli/report_browser.py tests the
// browser's part.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <utility>

#include "tests/cli/program.hpp"
#include "tests/cli/report_samples.hpp"
#include "vocabulary/record.hpp"

namespace cli_test::cli_report_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kH200 = "NVIDIA H200|9.0|132";

// The columns of a problem's candidates, in their order on the page.
enum : std::size_t {
  kTemplate = 0,
  kUs = 2,
  kSeconds = 4,
  kSearch = 5,
  kPlace = 6,
  kRegisters = 7,
  kIntensity = 10
};

class CliReport : public ProgramTest {
 protected:
  CliReport() {
    hide_gpus();
    unset("VIRTUAL_ENV");
    write(file("plotly.min.js"),
          "/**\n* plotly.js v9.8.7\n* Copyright 2012-2025, Plotly, Inc.\n*/\n"
          "var Plotly = {}; var text = '</script><!-- ';");
    set("TILEWISE_PLOTLY", file("plotly.min.js").string());
  }
  void fill(const SampleOptions& options) const {
    tilewise::Database database = tilewise::Database::open(this->database());
    fill_samples(database, options);
  }
  std::string page_file() const { return file("report.html").string(); }
  Result report(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"report", "-o", page_file()});
    return run(more);
  }
  /// The JSON of a script element of the page.
  Json data(const std::string& id) const {
    const std::string page = read(page_file());
    const std::string open = "<script type=\"application/json\" id=\"" + id + "\">";
    const auto at = page.find(open);
    if (at == std::string::npos) return nullptr;
    const auto begin = at + open.size();
    const Json json =
        Json::parse(page.substr(begin, page.find("</script>", begin) - begin), nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << id;
    return json;
  }
  /// A text that the details refer to by index.
  std::string text(const Json& number) const {
    return data("strings").at(number.get<std::size_t>()).get<std::string>();
  }
  static std::vector<std::string> words(const Json& column) {
    std::vector<std::string> all(1);
    for (const char c : column.get<std::string>())
      if (c == ' ')
        all.emplace_back();
      else
        all.back() += c;
    return all;
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }
};

TEST_F(CliReport, HoldsEveryProblemWithItsCandidates) {
  fill({.problems = 3, .candidates = 40});
  const Result result = report({"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("problems"), 3);
  EXPECT_EQ(result.json().at("plotly").at("version"), "9.8.7");
  EXPECT_EQ(result.json().at("bytes"), fs::file_size(page_file()));
  const Json rows = data("overview");
  ASSERT_EQ(rows.size(), 3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json details = data("details-" + std::to_string(i)), columns = details.at("columns");
    const std::size_t records = rows[i].at(8);
    EXPECT_EQ(rows[i].at(0), kH200);
    EXPECT_GT(records, 20);
    EXPECT_EQ(columns.at(kTemplate).get<std::string>().size(), records);
    for (const std::size_t column : {kUs, kSeconds, kSearch, kRegisters, kIntensity})
      EXPECT_EQ(words(columns.at(column)).size(), records) << column;
    // Each candidate of a template has a value of each parameter. A value that all of them have is
    // stored once.
    const std::string templates = columns.at(kTemplate);
    for (std::size_t t = 0; t < details.at("templates").size(); ++t) {
      const Json& one = details.at("templates")[t];
      const auto candidates =
          std::count(templates.begin(), templates.end(), static_cast<char>('0' + t));
      EXPECT_EQ(one.at("of").size(), data("catalog").at(one.at("name").get<std::string>()).size());
      for (const Json& values : one.at("of"))
        EXPECT_THAT(values.get<std::string>().size(), testing::AnyOf(1, candidates));
    }
    std::int64_t rejected = details.at("other_rejections");
    for (const Json& one : details.at("rejections")) rejected += one.at(4).get<int>();
    EXPECT_EQ(rejected, rows[i].at(9));
    ASSERT_FALSE(details.at("winner").is_null());
    EXPECT_GT(details.at("winner").at("plan").at("global_bytes"), 0);
    EXPECT_EQ(details.at("winner").at("tiles").at(0).at(0), "block");
    EXPECT_EQ(text(details.at("baselines").at(0).at(0)), "cuBLAS 13.1.0");
    EXPECT_FALSE(Json::parse(text(details.at("roofs"))).empty());
    EXPECT_EQ(Json::parse(text(details.at("memories"))).at(0).at("name"), "device memory");
    EXPECT_GT(rows[i].at(14), 0) << "share of the roofline";
  }
}

TEST_F(CliReport, ShowsTheEpilogue) {
  fill({.candidates = 20, .epilogue = "gelu_tanh(acc + bias[j]) + residual[i,j]"});
  ASSERT_EQ(report().status, 0);
  const Json rows = data("overview");
  ASSERT_EQ(rows.size(), 1);
  const std::string kind = rows[0].at(5);
  EXPECT_THAT(kind,
              testing::AllOf(testing::HasSubstr(" epilogue "), testing::HasSubstr("gelu_tanh"),
                             testing::HasSubstr("[j]"), testing::HasSubstr("[i,j]")));
}

TEST_F(CliReport, TheWinnersRowIsThatOfTheDatabase) {
  fill({.problems = 1, .candidates = 30});
  ASSERT_EQ(report().status, 0);
  const Json winner =
      run({"query", "--gpu", "H200", "--json"}).json().at("gpus")[0].at("winners")[0];
  const Json details = data("details-0"), row = data("overview")[0];
  const double us = winner.at("measurement").at("median_us");
  EXPECT_NEAR(row.at(10), us, us * 1e-4);
  EXPECT_NEAR(row.at(12), winner.at("tflops"), winner.at("tflops").get<double>() * 1e-4);
  const std::size_t index = details.at("winner").at("index");
  EXPECT_NEAR(std::stod(words(details.at("columns").at(kUs)).at(index)), us, us * 1e-4);
  EXPECT_EQ(words(details.at("columns").at(kRegisters)).at(index),
            std::to_string(winner.at("usage").at("registers").get<int>()));
}

// The H100 has the H200's capability and less bandwidth.
TEST_F(CliReport, ShowsTheFactsThatAreStoredWithTheRecords) {
  const std::string h100 = "NVIDIA H100 80GB HBM3|9.0|132";
  fill({.problems = 1, .candidates = 20, .gpu = h100, .facts = false});
  const tilewise::DeviceFacts facts{
      h100, 1'980'000, 2'619'000, 5120, std::int64_t{80} << 30, std::int64_t{50} << 20, 650, ""};
  tilewise::Database::open(database()).put(facts);
  ASSERT_EQ(report().status, 0);
  const Json gpu = data("summary").at("gpus")[0];
  EXPECT_EQ(gpu.at("facts"), true);
  EXPECT_NEAR(gpu.at("bandwidth"), 3.35e12, 0.01e12);
  EXPECT_EQ(gpu.at("clock_mhz"), 1980);
  EXPECT_EQ(gpu.at("l2_bytes"), std::int64_t{50} << 20);
  EXPECT_EQ(gpu.at("power_limit_w"), 650);
  const Json memories = Json::parse(text(data("details-0").at("memories")));
  EXPECT_EQ(memories.at(0).at("name"), "device memory");
  EXPECT_NEAR(memories.at(0).at("rate"), 3.35e12, 0.01e12);
  const Json stored = run({"query", "--json"}).json().at("gpus")[0].at("facts");
  EXPECT_EQ(stored.at("memory_bus_bits"), 5120);
}

TEST_F(CliReport, SaysWhereTheFactsOfAGpuAreNotStored) {
  const std::string h100 = "NVIDIA H100 80GB HBM3|9.0|132";
  fill({.problems = 1, .candidates = 20, .gpu = h100, .facts = false});
  ASSERT_EQ(report().status, 0);
  const Json gpu = data("summary").at("gpus")[0], details = data("details-0");
  EXPECT_EQ(gpu.at("facts"), false);
  EXPECT_EQ(gpu.at("multiprocessors"), 132) << "of the key";
  for (const char* unknown : {"bandwidth", "peak_tflops", "clock_mhz", "l2_bytes"})
    EXPECT_FALSE(gpu.contains(unknown)) << unknown;
  EXPECT_EQ(text(details.at("roofs")), "[]");
  EXPECT_EQ(text(details.at("memories")), "[]");
  EXPECT_FALSE(details.at("winner").contains("limit"));
  EXPECT_TRUE(data("overview")[0].at(14).is_null()) << "share of the roofline";
  EXPECT_THAT(read(page_file()), HasSubstr("are not stored in this database"));
  EXPECT_TRUE(run({"query", "--json"}).json().at("gpus")[0].at("facts").is_null());
  const Result explained = run({"explain", "--gpu", "H100", "--sizes", "1024"});
  EXPECT_EQ(explained.status, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("are not stored in the database"));
  EXPECT_THAT(explained.out, Not(HasSubstr("roofline")));
}

TEST_F(CliReport, HostileTextStaysText) {
  fill({.problems = 1, .candidates = 30});
  Json exported = run({"export"}).json();
  const std::string evil = "</script><script>alert('x')</script><!-- \xe2\x80\xa8 & \" ";
  for (Json& record : exported.at("records")) {
    record["gpu"] = evil + "|9.0|132";
    if (record.at("outcome") != "ok") record["detail"] = evil;
    record["environment"]["driver"] = evil;
  }
  for (Json& baseline : exported.at("baselines"))
    baseline["gpu"] = evil + "|9.0|132", baseline["library"] = evil;
  write(file("evil.json"), exported.dump());
  ASSERT_EQ(run({"import", file("evil.json").string(), "--db", file("evil.db").string()}).status,
            0);
  const Result result = report({"--db", file("evil.db").string()});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(data("overview")[0].at(0), evil + "|9.0|132") << "the data is what was stored";
  const std::string page = read(page_file());
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<!-- ")));
  EXPECT_EQ(count(page, "<script"), count(page, "</script>")) << "no text ends an element";
  EXPECT_THAT(page, HasSubstr("'<\\/script><\\!-- '")) << "plotly's own strings";
}

TEST_F(CliReport, ConfigurationsOfOtherVersionsAreWhole) {
  fill({.problems = 1, .candidates = 20});
  Json exported = run({"export"}).json();
  Json& candidate = exported.at("records")[0]["candidate"];
  const std::string name = candidate.at("kernel_template");
  candidate["configuration"]["SOMETHING_NEW"] = 77;
  write(file("newer.json"), exported.dump());
  const std::string newer = file("newer.db").string();
  ASSERT_EQ(run({"import", file("newer.json").string(), "--db", newer}).status, 0);
  ASSERT_EQ(report({"--db", newer}).status, 0);
  const Json details = data("details-0");
  for (const Json& one : details.at("templates")) {
    EXPECT_EQ(one.contains("parameters"), one.at("name") == name);
    if (one.at("name") != name) continue;
    const Json& parameters = one.at("parameters");
    const auto added = std::find_if(parameters.begin(), parameters.end(),
                                    [](const Json& p) { return p.at("name") == "SOMETHING_NEW"; });
    ASSERT_NE(added, parameters.end());
    EXPECT_EQ(added->at("values"), (Json{77, nullptr}));
  }
}

TEST_F(CliReport, NoNetworkAndNoOtherFileIsNamed) {
  fill({.problems = 1, .candidates = 10});
  ASSERT_EQ(report().status, 0);
  const std::string page = read(page_file());
  for (const char* fetching :
       {" src=", "<link", "@import", "url(", "fetch(", "http://cdn", "https://"})
    EXPECT_THAT(page, Not(HasSubstr(fetching)));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy"));
  EXPECT_THAT(page, HasSubstr("Copyright 2012-2025, Plotly, Inc."));
  EXPECT_THAT(page, HasSubstr("MIT License"));
}

TEST_F(CliReport, AnEmptyDatabaseGivesAPage) {
  { const tilewise::Database made = tilewise::Database::open(database()); }
  ASSERT_EQ(report().status, 0);
  EXPECT_EQ(data("overview"), Json::array());
  EXPECT_EQ(data("summary").at("problems"), 0);
}

TEST_F(CliReport, OneGpuCanBeChosen) {
  fill({.problems = 2, .candidates = 5});
  fill({.problems = 1, .candidates = 5, .gpu = "NVIDIA A100-SXM4-80GB|8.0|108"});
  ASSERT_EQ(report().status, 0);
  EXPECT_EQ(data("overview").size(), 3);
  ASSERT_EQ(report({"--gpu", "a100"}).status, 0);
  ASSERT_EQ(data("overview").size(), 1);
  EXPECT_EQ(data("overview")[0].at(0), "NVIDIA A100-SXM4-80GB|8.0|108");
  const Result none = report({"--gpu", "B900"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("stored are"));
}

TEST_F(CliReport, ManyCandidatesAreThinnedAndTheLimitIsStated) {
  const SampleOptions options{.problems = 1, .candidates = 5'400};
  fill(options);
  const Json result = report({"--json"}).json();
  EXPECT_LE(result.at("candidates"), 5'000);
  EXPECT_EQ(data("summary").at("most_candidates"), 5'000);
  const Json details = data("details-0");
  const std::int64_t all = details.at("records");
  ASSERT_GT(all, 5'000) << "draws repeat candidates";
  const std::vector<std::string> places = words(details.at("columns").at(kPlace));
  EXPECT_EQ(places.size(), result.at("candidates"));
  EXPECT_GT(std::stol(places.back()), all - 10) << "the end is there, too";
  EXPECT_FALSE(details.at("winner").is_null());
}

TEST_F(CliReport, PlotlyThatIsMissingIsAClearErrorAndNothingIsWritten) {
  fill({.problems = 1, .candidates = 5});
  set("TILEWISE_PLOTLY", "/nowhere");
  EXPECT_THAT(report().err, HasSubstr("TILEWISE_PLOTLY: there is no plotly.min.js at '/nowhere'"));
  unset("TILEWISE_PLOTLY");
  set("PATH", file("nothing").string());
  const Result missing = report();
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err,
              AllOf(HasSubstr("pip"), HasSubstr("install plotly"), HasSubstr("TILEWISE_PLOTLY")));
  EXPECT_FALSE(fs::exists(page_file()));
}

TEST_F(CliReport, PlotlyIsFoundInAnEnvironmentAndByOption) {
  fill({.problems = 1, .candidates = 5});
  unset("TILEWISE_PLOTLY");
  const fs::path package = file("env/lib/python3.11/site-packages/plotly/package_data");
  fs::create_directories(package);
  fs::copy_file(file("plotly.min.js"), package / "plotly.min.js");
  EXPECT_EQ(report({"--plotly", file("plotly.min.js").string()}).status, 0);
  EXPECT_EQ(report({"--plotly", file("env").string()}).status, 0);
  EXPECT_EQ(report({"--plotly", package.string()}).status, 0);
  set("VIRTUAL_ENV", file("env").string());
  EXPECT_EQ(report().status, 0);
}

TEST_F(CliReport, ALinkIsWrittenThroughAndAPageReplacesAnother) {
  fill({.problems = 1, .candidates = 5});
  write(file("target.html"), "old");
  fs::create_symlink(file("target.html"), file("report.html"));
  ASSERT_EQ(report().status, 0);
  EXPECT_TRUE(fs::is_symlink(page_file()));
  EXPECT_THAT(read(file("target.html")), HasSubstr("<!DOCTYPE html>"));
  ASSERT_EQ(run({"report", "-o", file("target.html").string()}).status, 0);
  EXPECT_FALSE(fs::exists(file("target.html.part")));
  const Result piped = run({"report", "-o", "/dev/stdout", "--quiet"});
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_THAT(piped.out, HasSubstr("<!DOCTYPE html>"));
}

TEST_F(CliReport, BadOutputIsRefusedBeforeAnythingIsRead) {
  fill({.problems = 1, .candidates = 5});
  EXPECT_EQ(run({"report"}).status, 2);
  EXPECT_THAT(run({"report", "-o", "/nowhere/x.html"}).err, HasSubstr("cannot write"));
  const auto bytes = fs::file_size(database());
  const Result itself = run({"report", "-o", database().string()});
  EXPECT_EQ(itself.status, 2);
  EXPECT_EQ(fs::file_size(database()), bytes);
  EXPECT_EQ(run({"report", "--db", file("absent.db").string(), "-o", page_file()}).status, 5);
}

TEST_F(CliReport, AHundredThousandRecordsTakeLessThanAGigabyte) {
  if (!std::getenv("TILEWISE_FULL")) GTEST_SKIP() << "TILEWISE_FULL=1 runs it";
  fill({.problems = 3'000, .candidates = 34});  // the page's limit: its largest size
  // The program has one thread, so its processor time is its duration on a quiet machine.
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return std::pair{seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss};
  };
  const double before = used().first;
  const Result result = report({"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto [after, peak_kb] = used();
  EXPECT_GT(result.json().at("candidates"), 80'000);
  EXPECT_LT(result.json().at("bytes"), 10'000'000) << "plotly takes another 5 MB";
  EXPECT_LT(peak_kb, 1'000'000);
  // About 5 s. A busy machine or an unoptimised build takes longer.
  EXPECT_LT(after - before, 100);
}

}  // namespace
}  // namespace cli_test::cli_report_test
