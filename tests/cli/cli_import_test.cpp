// Inputs that `autotune import` refuses.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_import_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliImport : public ProgramTest {};

TEST_F(CliImport, WhatIsNoFileIsBadInput) {
  const std::pair<std::string, const char*> files[] = {{file("").string(), "a folder"},
                                                       {"/dev/zero", "a device"},
                                                       {file("none").string(), "No such file"}};
  for (const auto& [name, words] : files) {
    const Result result = run({"import", name});
    EXPECT_EQ(result.status, 2) << name;
    EXPECT_THAT(result.err, AllOf(HasSubstr("cannot read '" + name), HasSubstr(words)));
  }
  const Result standard_input = run({"import", "-"}, "/dev/zero");
  EXPECT_EQ(standard_input.status, 2);
  EXPECT_THAT(standard_input.err, HasSubstr("a device"));
  EXPECT_FALSE(fs::exists(database()));
}

TEST_F(CliImport, WhatIsLargerThanAnyExportIsRefused) {
  write(file("large"), "{");
  fs::resize_file(file("large"), std::uintmax_t{3} << 30);  // a sparse file
  for (const Result& result :
       {run({"import", file("large").string()}), run({"import", "-"}, file("large"))}) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr("larger than 1 GiB"));
  }
}

TEST_F(CliImport, APipeIsRead) {
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  const pid_t pid = start({"import", file("pipe").string()}, "/dev/null");
  write(file("pipe"), R"({"format":"tilewise","version":1})");
  EXPECT_EQ(finish(pid).status, 0);
}

TEST_F(CliImport, AClaimThatNoMachineMadeIsBadInput) {
  write(
      file("x.json"),
      R"({"format":"tilewise","version":1,"records":[{"id":1,"problem":{"layout":"nn","m":8,"n":8,)"
      R"("k":8},"candidate":{"kernel_template":"naive","configuration":{}},"gpu":"g|9.0|1",)"
      R"("outcome":"ok","measurement":{"median_us":-1}}]})");
  const Result result = run({"import", file("x.json").string()});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("nothing was imported"), HasSubstr("records[0]"),
                                HasSubstr("median_us must be above 0"), HasSubstr("not -1")));
}

/// --template is only the user's claim: it does not make configurations of another kernel valid.
TEST_F(CliImport, AnotherKernelsCacheIsRefusedAsAWhole) {
  const auto naive = [](int tile_m) {
    return R"({"TILE_M": )" + std::to_string(tile_m) +
           R"(, "TILE_N": 32, "ACROSS": 1, "UNROLL": 4, "time": 0.5})";
  };
  const auto cache = [](const std::string& keys, const std::string& first,
                        const std::string& second) {
    return R"({"kernel_name": "Xgemm", "tune_params_keys": [)" + keys + R"(], "cache": {"x": )" +
           first + R"(, "y": )" + second + "}}";
  };
  const auto import = [&](const std::string& text) {
    write(file("cache.json"), text);
    return run({"import", file("cache.json").string(), "--as", "kernel-tuner", "--template",
                "naive", "--sizes", "64", "--gpu", "NVIDIA H200|9.0|132", "--json"});
  };
  const std::string ours = R"("TILE_M", "TILE_N", "ACROSS", "UNROLL")";
  const std::pair<std::string, const char*> files[] = {
      {cache("\"MWG\"", R"({"MWG": 16, "time": 1.5})", R"({"MWG": 32, "time": 1.5})"),
       "configuration 1 of 2 is none of naive: unknown parameter MWG"},
      {cache(ours, naive(8), naive(3)), "configuration 2 of 2 is none of naive: TILE_M=3"},
  };
  for (const auto& [text, reason] : files) {
    const Result result = import(text);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr("nothing was imported"), HasSubstr(reason)));
    EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("records"), 0);
  }
  EXPECT_EQ(import(cache(ours, naive(8), naive(16))).json().at("imported"), 2);
}

}  // namespace
}  // namespace cli_test::cli_import_test
