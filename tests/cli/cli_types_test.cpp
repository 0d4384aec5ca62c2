// Types, math modes, accuracy and batches, from the command line to the database and back, on the
// CPU.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/cli/program.hpp"

namespace cli_test::cli_types_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

class CliTypes : public ProgramTest {
 protected:
  CliTypes() { hide_gpus(); }
  /// Tunes one quick candidate of each problem, whether right or wrong.
  Json tuned(const Words& options, const std::string& kernel = "naive") {
    Words words = {"--device", "host:sm_90",        "--sizes", "24x17x33", "--templates",
                   kernel,     "--max-evaluations", "1",       "--json"};
    words.insert(words.end(), options.begin(), options.end());
    const Result result = run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? result.json().at("results").at(0) : Json();
  }
  Result query(const Words& options, const std::string& device = "host:sm_90") {
    Words words = {"query", "--device", device, "--json"};
    words.insert(words.end(), options.begin(), options.end());
    return run(words);
  }
  Json answer(const Words& options, const std::string& device = "host:sm_90") {
    const Result result = query(options, device);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? result.json().at("answers").at(0) : Json();
  }
};

TEST_F(CliTypes, EveryTypeIsTunedStoredAndFoundAgain) {
  const std::pair<Words, std::string> kinds[] = {
      {{"--dtype", "f64"}, "f64"},
      {{"--dtype", "bf16"}, "bf16,bf16,bf16,f32"},
      {{"--dtype", "f16", "--out", "f32"}, "f16,f16,f32,f32"},
      {{"--dtype", "i8"}, "i8,i8,i32,i32"},
      {{"--dtype", "e4m3"}, "e4m3,e4m3,f32,f32"},
      {{"--dtype", "e5m2", "--out", "e5m2"}, "e5m2,e5m2,e5m2,f32"},
  };
  for (const auto& [options, types] : kinds) {
    const Json result = tuned(options);
    ASSERT_FALSE(result.is_null());
    EXPECT_EQ(result.at("problem").at("dtype"), types);
    EXPECT_EQ(result.at("winner").at("outcome"), "ok") << options[1];
    EXPECT_TRUE(result.at("error_bound").is_number());
    Words again = {"--sizes", "24x17x33"};
    again.insert(again.end(), options.begin(), options.end());
    EXPECT_EQ(answer(again).at("match"), "exact") << options[1];
  }
  const std::string listing = run({"query"}).out;
  EXPECT_THAT(listing, AllOf(HasSubstr("nn 24x17x33 f64"), HasSubstr("nn 24x17x33 f16 to f32"),
                             HasSubstr("GOP/s")));
}

TEST_F(CliTypes, IntegersHaveOperationsNotFloatingPointOnes) {
  ASSERT_FALSE(tuned({"--dtype", "i8"}).is_null());
  EXPECT_THAT(run({"query"}).out, AllOf(HasSubstr("GOP/s"), Not(HasSubstr("FLOP/s"))));
}

TEST_F(CliTypes, ABatchIsAProblemOfItsOwn) {
  const Json result = tuned({"--batch", "5"});
  ASSERT_FALSE(result.is_null());
  EXPECT_EQ(result.at("problem").at("batch"), 5);
  EXPECT_EQ(answer({"--sizes", "24x17x33", "--batch", "5"}).at("match"), "exact");
  EXPECT_NE(answer({"--sizes", "24x17x33"}).at("match"), "exact");
  EXPECT_THAT(run({"query"}).out, HasSubstr("batch 5"));
}

TEST_F(CliTypes, ModesAreNeverMixed) {
  ASSERT_FALSE(tuned({}).is_null());
  const Json strict = answer({"--sizes", "64"});
  EXPECT_EQ(strict.at("problem").at("math"), "strict");
  const Json tf32 = answer({"--sizes", "64", "--math", "tf32"});
  EXPECT_EQ(tf32.at("problem").at("math"), "tf32");
  EXPECT_GT(tf32.at("error_bound"), strict.at("error_bound"));
}

// The bounds for k = 1024: tf32 1.1e-3, f32x3 1.2e-4, strict 6.1e-5.
TEST_F(CliTypes, AccuracyChoosesTheFastestModeWhoseBoundIsAtMostThat) {
  ASSERT_FALSE(tuned({}).is_null());
  const auto mode = [&](const char* accuracy, const char* device) {
    return answer({"--sizes", "1024", "--accuracy", accuracy}, device)
        .at("problem")
        .at("math")
        .get<std::string>();
  };
  EXPECT_EQ(mode("1e-2", "host:sm_90"), "tf32");
  EXPECT_EQ(mode("1e-3", "host:sm_90"), "f32x3");
  EXPECT_EQ(mode("1e-4", "host:sm_90"), "strict");
  EXPECT_EQ(mode("1e-2", "host:sm_75"), "strict") << "no tensor cores for the others";
  const Result none = query({"--sizes", "1024", "--accuracy", "1e-9"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("tf32 0.0011"), HasSubstr("f32x3 0.000123"),
                              HasSubstr("strict 6.12e-05")));
  EXPECT_EQ(answer({"--sizes", "64", "--dtype", "i8", "--accuracy", "1e-30"}).at("match"),
            "default")
      << "integers are exact";
}

TEST_F(CliTypes, AccuracyGoesByThisGpusRecordsWhereEveryModeHasOne) {
  const auto seconds = [&](const Words& options, const char* kernel) {
    const Json result = tuned(options, kernel);
    EXPECT_FALSE(result.is_null());
    return result.at("winner").at("measurement").at("median_us").get<double>();
  };
  const double strict = seconds({}, "naive");
  const double tf32 = seconds({"--math", "tf32"}, "mma");
  const auto chosen = [&] {
    return answer({"--sizes", "24x17x33", "--accuracy", "0.01"}).at("problem").at("math");
  };
  EXPECT_EQ(chosen(), "tf32") << "nothing is known of f32x3";
  const double f32x3 = seconds({"--math", "f32x3"}, "mma");
  EXPECT_EQ(chosen(), tf32 <= std::min(strict, f32x3) ? "tf32"
                      : f32x3 <= strict               ? "f32x3"
                                                      : "strict");
}

TEST_F(CliTypes, WhatADeviceCannotDoIsRefusedWithWhatItCan) {
  const Result old = run({"space", "--arch", "sm_75", "--sizes", "64", "--math", "tf32"});
  EXPECT_EQ(old.status, 2);
  EXPECT_THAT(old.err,
              AllOf(HasSubstr("f32 by tf32"), HasSubstr("sm_75"),
                    HasSubstr("which can do: f32, f32 by emulated, f64, f64 by emulated, f16")));
}

TEST_F(CliTypes, DevicesListsWhatEachCanMultiply) {
  const Json devices = run({"devices", "--device", "host:sm_90", "--json"}).json().at("devices");
  const auto kinds = devices.at(0).at("kinds").get<std::vector<std::string>>();
  EXPECT_THAT(kinds, testing::IsSupersetOf({"f32", "f32 by tf32", "f16 to f32", "i8"}));
  EXPECT_THAT(run({"devices", "--device", "host:sm_90"}).out, HasSubstr("f32 f64 f16 bf16 i8"));
}

// A candidate's plan and images are sent to another process. The images must be the plan's,
// including those of packs that round, which only this mode has.
TEST_F(CliTypes, APackThatRoundsIsTriedByTheWorker) {
  const Result result =
      run({"tune", "--device", "host:sm_90a", "--sizes", "97x65x130", "--math", "tf32", "--json",
           "--only",
           R"(mma {"TILE_M":64,"TILE_N":64,"TILE_K":32,"WARP_M":32,"WARP_N":32,"SLICE_K":1,)"
           R"("STAGES":2,"TMA":1,"FRAGMENTS":1,"PROMOTE":0,"BYTES_A":16,"BYTES_B":16,)"
           R"("PACK_A":1,"PACK_B":2,"EPILOGUE":0,"VECTOR_C":1,"BLOCKS_PER_SM":1,)"
           R"("SPLIT_K":1,"GROUP_M":1,"SPECIALIZE_SIZE":0,"SKIP_EDGE_WARPS":0})"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json trial = result.json().at("results").at(0);
  EXPECT_EQ(trial.at("outcome"), "ok") << trial.at("detail");
}

TEST_F(CliTypes, StrictF32IsSeenBesideF32x3) {
  const Result result = run(
      {"tune", "--device", "host", "--sizes", "40", "--math", "f32x3", "--only", "mma", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json trial = result.json().at("results").at(0);
  EXPECT_EQ(trial.at("outcome"), "ok");
  EXPECT_THAT(trial.at("detail").get<std::string>(), HasSubstr("strict f32 has"));
}

}  // namespace
}  // namespace cli_test::cli_types_test
