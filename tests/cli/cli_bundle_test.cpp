// `autotune bundle`, from a search on the CPU to a program that has only the bundle.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_bundle_test {
namespace {

using testing::HasSubstr;

class CliBundle : public ProgramTest {
 protected:
  std::string bundle() const { return file("app.tilewise").string(); }
};

TEST_F(CliBundle, HoldsWhatASearchFound) {
  ASSERT_EQ(run({"tune", "--device", "host", "--sizes", "33", "--budget", "600",
                 "--max-evaluations", "3", "--templates", "naive"})
                .status,
            0);
  const Result written = run({"bundle", "--sizes", "33", "-o", bundle(), "--json"});
  ASSERT_EQ(written.status, 0) << written.err;
  const Json json = written.json();
  EXPECT_EQ(json.at("records"), 1);
  EXPECT_EQ(json.at("compiled"), 0) << "the search has stored the images";
  EXPECT_EQ(json.at("problems").at(0).at("match"), "exact");
  EXPECT_EQ(json.at("bytes"), fs::file_size(bundle()));
  const Json stored = run({"query", "--db", bundle(), "--json"}).json();
  EXPECT_FALSE(stored.empty());
}

TEST_F(CliBundle, HoldsWhatASearchWithAnEpilogueFound) {
  const std::string epilogue = "relu(acc + bias[j])";
  ASSERT_EQ(run({"tune", "--device", "host", "--sizes", "33", "--budget", "600",
                 "--max-evaluations", "3", "--templates", "naive", "--epilogue", epilogue})
                .status,
            0);
  const Json json =
      run({"bundle", "--sizes", "33", "--epilogue", epilogue, "-o", bundle(), "--json"}).json();
  EXPECT_EQ(json.at("problems").at(0).at("match"), "exact");
  EXPECT_EQ(json.at("compiled"), 0);
  const Json stored = run({"query", "--db", bundle(), "--json"}).json();
  EXPECT_THAT(stored.dump(), HasSubstr("\"epilogue\":\"relu((acc+p0[j]))\""));
  // The product without it has another kernel.
  const Json bare = run({"bundle", "--sizes", "33", "-o", bundle(), "--json"}).json();
  EXPECT_EQ(bare.at("problems").at(0).at("match"), "predicted");
  EXPECT_EQ(bare.at("compiled"), 1);
}

TEST_F(CliBundle, BadInputIsAnErrorAndWritesNothing) {
  EXPECT_EQ(run({"bundle", "--sizes", "33"}).status, 2) << "no file";
  EXPECT_NE(run({"bundle", "--sizes", "33", "-o", bundle()}).status, 0) << "no database";
  ASSERT_EQ(run({"tune", "--device", "host", "--sizes", "33", "--budget", "600",
                 "--max-evaluations", "1", "--templates", "naive"})
                .status,
            0);
  EXPECT_EQ(run({"bundle", "-o", bundle()}).status, 2) << "no problem";
  const Result other = run({"bundle", "--gpu", "H900", "--sizes", "33", "-o", bundle()});
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.err, HasSubstr("H900"));
  EXPECT_NE(run({"bundle", "--sizes", "33", "-o", "/nowhere/x"}).status, 0);
  const auto bytes = fs::file_size(database());
  const Result itself = run({"bundle", "--sizes", "33", "-o", database().string()});
  EXPECT_EQ(itself.status, 2);
  EXPECT_THAT(itself.err, HasSubstr("is the database that the bundle is made of"));
  EXPECT_EQ(fs::file_size(database()), bytes);
  EXPECT_EQ(run({"query", "--json"}).status, 0) << "nothing is lost";
  EXPECT_FALSE(fs::exists(bundle()));
}

}  // namespace
}  // namespace cli_test::cli_bundle_test
