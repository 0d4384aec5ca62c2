// Batch-invariant products on the command line, on the CPU.
#include <gmock/gmock.h>

#include "db/database.hpp"
#include "tests/cli/program.hpp"
#include "tests/cli/report_samples.hpp"

namespace cli_test::cli_invariant_test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class CliInvariant : public ProgramTest {
 protected:
  CliInvariant() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");
  }
  Result tune(const std::string& sizes, std::vector<std::string> more = {}) {
    std::vector<std::string> all{
        "tune", "--device",    "host", "--sizes",     sizes,   "--max-evaluations", "2", "--budget",
        "600",  "--finalists", "1",    "--invariant", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  Json explained(const std::string& sizes, std::vector<std::string> more = {}) {
    std::vector<std::string> all{"explain", "--device", "host",       "--sizes",
                                 sizes,     "--json",   "--invariant"};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = run(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.json().at("explanations").at(0);
  }
};

TEST_F(CliInvariant, TheOrderIsMeasuredKeptAndObeyed) {
  // One tile leaves one of the CPU's two multiprocessors idle.
  const Result result = tune("1x32x1024,8x32x1024");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = result.json(), orders = document.at("orders");
  ASSERT_EQ(orders.size(), 1U);
  const std::string order = orders[0].at("order");
  EXPECT_THAT(order, AnyOf("fused", "fused+parts512"));
  ASSERT_EQ(orders[0].at("measured").size(), 2U);
  for (const Json& measured : orders[0].at("measured")) {
    EXPECT_GE(measured.at("loss"), 1);
    EXPECT_EQ(measured.at("times").size(), 2U);
    for (const Json& time : measured.at("times")) EXPECT_GT(time.at("us"), 0);
  }
  for (const Json& one : document.at("results")) EXPECT_EQ(one.at("problem").at("order"), order);
  // Other m have the same order, and so do calls of other alignment.
  for (const char* sizes : {"1x32x1024", "3x32x1024", "500x32x1024"})
    EXPECT_EQ(explained(sizes).at("sum_order"), order) << sizes;
  EXPECT_EQ(explained("3x32x1024", {"--align", "4"}).at("sum_order"), order);
  EXPECT_EQ(explained("8x32x1024").at("match"), "exact");
  // A later run keeps the order.
  const Json later = tune("20x32x1024").json().at("orders");
  EXPECT_EQ(later.at(0).at("order"), order);
  EXPECT_EQ(later.at(0).at("measured").size(), 0U);
}

TEST_F(CliInvariant, ThePriceIsShownWhereBothWereTuned) {
  ASSERT_EQ(tune("1x64x96,8x64x96").status, 0);
  ASSERT_EQ(run({"tune", "--device", "host", "--sizes", "8x64x96", "--max-evaluations", "2",
                 "--budget", "600", "-q"})
                .status,
            0);
  const Json prices = explained("3x64x96").at("order_prices");
  ASSERT_EQ(prices.size(), 2U);
  EXPECT_EQ(prices[0].at("problem").at("m"), 1);
  EXPECT_TRUE(prices[0].at("free_us").is_null());
  EXPECT_GT(prices[1].at("ratio"), 0);
  const Result words = run({"explain", "--device", "host", "--sizes", "3x64x96", "--invariant"});
  EXPECT_THAT(words.out, AllOf(HasSubstr("The price of the order"), HasSubstr("of the time in any"),
                               HasSubstr("not tuned in any order")));
  const Result plain = run({"explain", "--device", "host", "--sizes", "3x64x96"});
  EXPECT_THAT(plain.out, Not(HasSubstr("The price of the order")));
}

TEST_F(CliInvariant, AProblemMayNameItsOrder) {
  const Result result =
      run({"tune", "--device", "host", "--sizes", "8x16x256", "--order", "fused+parts128",
           "--max-evaluations", "1", "--budget", "600", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json winner = result.json().at("results").at(0).at("winner");
  EXPECT_EQ(winner.at("problem").at("order"), "fused+parts128");
  const Result bad = run({"tune", "--device", "host", "--sizes", "8", "--order", "pairwise"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("--order"), HasSubstr("pairwise"), HasSubstr("tensor16")));
  EXPECT_EQ(run({"tune", "--sizes", "8", "--order", "fused", "--invariant"}).status, 2);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"db", "list"}, {"space", "--device", "host"}, {"compile", "--arch", "host"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--sizes", "8", "--invariant"});
    const Result refused = run(words);
    EXPECT_EQ(refused.status, 2) << command[0];
    EXPECT_THAT(refused.err, HasSubstr("name it by --order")) << command[0];
  }
  // No kernel has it: an error, and no other order.
  const Result none = run({"explain", "--device", "host", "--sizes", "8", "--order", "tensor16"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no kernel adds in the order tensor16"));
}

TEST_F(CliInvariant, AListMayMixOrders) {
  write(file("list.csv"), "m,n,k,order\n4,16,64,kept\n4,16,64,\n4,16,64,fused\n");
  const Result result = run({"tune", "--device", "host", "--problems", file("list.csv").string(),
                             "--max-evaluations", "1", "--budget", "600", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json results = result.json().at("results");
  std::vector<std::string> orders;
  for (const Json& one : results) orders.push_back(one.at("problem").value("order", ""));
  EXPECT_THAT(orders, testing::ElementsAre("fused", "")) << "kept and fused are one problem";
}

TEST_F(CliInvariant, ABundleCarriesTheOrder) {
  ASSERT_EQ(tune("4x16x64").status, 0);
  const std::string bundle = file("app.tilewise").string();
  const Result written =
      run({"bundle", "--sizes", "4x16x64,9x16x64", "--invariant", "-o", bundle, "--json"});
  ASSERT_EQ(written.status, 0) << written.err;
  const std::vector<tilewise::KeptOrder> orders =
      tilewise::Database::open(bundle, tilewise::OpenMode::read_only).orders();
  ASSERT_EQ(orders.size(), 1U);
  EXPECT_EQ(orders[0].sum_order, "fused");
  EXPECT_EQ(orders[0].problem.n, 16);
  // A problem that names the order, as a list of missed ones does, brings what is kept, too.
  const std::string other = file("other.tilewise").string();
  ASSERT_EQ(run({"bundle", "--sizes", "4x16x64", "--order", "fused", "-o", other}).status, 0);
  EXPECT_EQ(tilewise::Database::open(other, tilewise::OpenMode::read_only).orders().size(), 1U);
}

TEST_F(CliInvariant, ARangeIsCoveredInItsOrder) {
  const Result result =
      run_with_budget({"cover", "--device", "host", "--layout", "nt", "--m", "1..16", "--n", "16",
                       "--k", "64", "--invariant", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = result.json();
  ASSERT_EQ(document.at("orders").size(), 1U);
  EXPECT_EQ(document.at("orders").at(0).at("order"), "fused");
  ASSERT_GE(document.at("points").size(), 1U);
  EXPECT_EQ(document.at("points").at(0).at("problem").at("order"), "fused");
}

TEST_F(CliInvariant, TheOrderOfAnotherGpuIsSaid) {
  ASSERT_EQ(tune("4x16x64").status, 0);
  {
    tilewise::Database opened = tilewise::Database::open(database());
    tilewise::KeptOrder other = opened.orders().at(0);
    other.gpu = "NVIDIA H200|9.0|132";
    opened.put(other);
    other.problem.n = 32;
    opened.put(other);
  }
  const auto said = [&](const char* sizes) {
    return run({"explain", "--device", "host", "--sizes", sizes, "--invariant"}).err;
  };
  EXPECT_THAT(said("3x32x64"), HasSubstr("is kept for invariant products"));
  const std::string twice = said("3x32x64,5x32x64");
  EXPECT_THAT(twice, HasSubstr("NVIDIA H200"));
  EXPECT_EQ(twice.find("is kept for"), twice.rfind("is kept for")) << "once";
  EXPECT_THAT(said("3x16x64"), Not(HasSubstr("is kept for invariant products")));
}

TEST_F(CliInvariant, TheReportHasThePrices) {
  unset("VIRTUAL_ENV");
  write(file("plotly.min.js"), "/**\n* plotly.js v9.8.7\n*/\nvar Plotly = {};");
  set("TILEWISE_PLOTLY", file("plotly.min.js").string());
  ASSERT_EQ(tune("4x16x64").status, 0);
  const Result result = run({"report", "-o", file("report.html").string()});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string page = read(file("report.html"));
  EXPECT_THAT(page, HasSubstr("f32 order fused"));
  EXPECT_THAT(page, HasSubstr("\"prices\":[[\"nn 4x16x64\","));
}

}  // namespace
}  // namespace cli_test::cli_invariant_test
