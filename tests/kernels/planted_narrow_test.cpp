// Mistakes planted in the family narrow: the order of small numbers, fragments, tiles, scales.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_narrow_test {
namespace {

const std::vector<std::string> kWrong = {" instead of "};

std::string candidate(const std::string& values) {
  return R"(narrow {"TILE_M":16,"BLOCKS":1,"WARPS_N":2,"STAGES":2,"BYTES_A":4,"BYTES_B":4,)"
         R"("VECTOR_C":1,"BLOCKS_PER_SM":1,"SPLIT_K":1,)" +
         values + "}";
}
const std::string kTwoWarps = candidate(R"("WARPS_K":2,"TILE_K":64)");
const Subject kInt4 = {"Int4", TILEWISE_CHECK_PLAIN, kTwoWarps,
                       "--types bf16xi4 bf16 strict --layout nt"};
const Subject kInt8 = {"Int8", TILEWISE_CHECK_PLAIN, kTwoWarps,
                       "--types bf16xi8 bf16 strict --layout nt"};
const Subject kE4m3 = {"E4m3", TILEWISE_CHECK_PLAIN, kTwoWarps,
                       "--types f16xe4m3 f16 strict --layout nt"};
const Subject kBatch = {"Batch", TILEWISE_CHECK_PLAIN, kTwoWarps,
                        "--types f16xi4 f16 strict --layout nt --batch 3"};
const Subject kScales = {"Scales", TILEWISE_CHECK_PLAIN, candidate(R"("WARPS_K":2,"TILE_K":512)"),
                         "--types f16xi4 f16 strict --layout nt --epilogue 'acc(s[j,k/128])'"};
const Subject kZeros = {
    "Zeros", TILEWISE_CHECK_PLAIN, candidate(R"("WARPS_K":2,"TILE_K":512)"),
    "--types bf16xi4 bf16 strict --layout nt --epilogue 'acc(s[j,k/128],z[j,k/128])'"};
const Subject kNaiveZeros = {"NaiveZeros", TILEWISE_CHECK_PLAIN,
                             R"(naive {"TILE_M":8,"TILE_N":32,"ACROSS":1,"UNROLL":1})",
                             "--types bf16xi8 bf16 strict --epilogue 'acc(s[j,k/128],z[j,k/128])'"};
const Subject kNaive = {"Naive", TILEWISE_CHECK_PLAIN,
                        R"(naive {"TILE_M":8,"TILE_N":32,"ACROSS":1,"UNROLL":1})",
                        "--types bf16xi4 bf16 strict"};

std::string by_wgmma(const std::string& values) {
  return R"(wgmma {"TILE_M":16,"TILE_N":64,"CONSUMERS":1,"PING_PONG":0,"CLUSTER_M":1,"CLUSTER_N":1,)"
         R"("STAGES":3,"SWAP_AB":1,"PACK_A":0,"PACK_B":0,"EPILOGUE":0,"VECTOR_C":1,)"
         R"("BLOCKS_PER_SM":1,"STREAM_K":0,"GROUP_M":1,)" +
         values + "}";
}
const Subject kWgmma = {"Wgmma", TILEWISE_CHECK_PLAIN,
                        by_wgmma(R"("TILE_K":128,"SPLIT_K":1,"PROMOTE":0)"),
                        "--types bf16xi4 bf16 strict --layout nt"};
const Subject kWgmmaOfBytes = {"WgmmaOfBytes", TILEWISE_CHECK_PLAIN,
                               by_wgmma(R"("TILE_K":64,"SPLIT_K":1,"PROMOTE":0)"),
                               "--types f16xe4m3 f16 strict --layout nt"};
const Subject kWgmmaThreads = {"WgmmaThreads", TILEWISE_CHECK_TSAN,
                               by_wgmma(R"("TILE_K":64,"SPLIT_K":1,"PROMOTE":0)"),
                               "--types bf16xi8 bf16 strict --layout nt"};
// Two tiles of k have one scale.
const Subject kWgmmaScales = {"WgmmaScales", TILEWISE_CHECK_PLAIN,
                              by_wgmma(R"("TILE_K":64,"SPLIT_K":3,"PROMOTE":1)"),
                              "--types f16xi4 f16 strict --layout nt --epilogue 'acc(s[j,k/128])'"};

const Subject kWgmmaZeros = {
    "WgmmaZeros", TILEWISE_CHECK_PLAIN, by_wgmma(R"("TILE_K":64,"SPLIT_K":1,"PROMOTE":1)"),
    "--types f16xi4 f16 strict --layout nt --epilogue 'acc(s[j,k/128],z[k/128,j])'"};

const Subject kWgmmaBf16Zeros = {
    "WgmmaBf16Zeros", TILEWISE_CHECK_PLAIN, by_wgmma(R"("TILE_K":128,"SPLIT_K":2,"PROMOTE":1)"),
    "--types bf16xi4 bf16 strict --layout nt --epilogue 'acc(s[j,k/128],z[j,k/128])'"};
const Subject kWgmmaByteZeros = {
    "WgmmaByteZeros", TILEWISE_CHECK_PLAIN, by_wgmma(R"("TILE_K":64,"SPLIT_K":1,"PROMOTE":1)"),
    "--types bf16xi8 bf16 strict --layout nt --epilogue 'acc(s[j,k/128],z[k/128,j])'"};

class UnchangedNarrow : public testing::TestWithParam<Subject> {};
TEST_P(UnchangedNarrow, HasNothingThatIsFound) {
  if (GetParam().checker.empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_nothing_found(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Plain, UnchangedNarrow,
                         testing::Values(kInt4, kInt8, kE4m3, kBatch, kScales, kNaive, kWgmma,
                                         kWgmmaOfBytes, kWgmmaScales, kZeros, kNaiveZeros,
                                         kWgmmaZeros, kWgmmaBf16Zeros, kWgmmaByteZeros),
                         name_of);
const Subject kThreads = {"Threads", TILEWISE_CHECK_TSAN, kTwoWarps,
                          "--types bf16xi8 bf16 strict --layout nt"};
INSTANTIATE_TEST_SUITE_P(Threads, UnchangedNarrow, testing::Values(kThreads, kWgmmaThreads),
                         name_of);

TEST(PlantedNarrow, NumbersOfFourBitsInAnotherOrder) {
  expect_found(kInt4, changed("narrow-steps-of-a"_marker, "0x5410", "0x7610"), kWrong);
  expect_found(kWgmma, changed("narrow-nibbles"_marker, "0x4440u", "0x4441u"), kWrong);
  expect_found(kNaive, changed("types-nibble"_marker, "4 * nth", "4 - 4 * nth"), kWrong);
}

TEST(PlantedNarrow, NumbersThatAreOffByOne) {
  expect_found(kInt4, changed("narrow-four-bits"_marker, "taken);", "taken - 0x00010001);"),
               kWrong);
}

TEST(PlantedNarrow, AFragmentsRowsExchanged) {
  expect_found(kInt8, changed("narrow-fragment"_marker, "word % 2", "1 - word % 2"), kWrong);
}

TEST(PlantedNarrow, ACopyThatIsNotAligned) {
  expect_found(kInt8, changed("narrow-copy"_marker, "stage + (to_row", "stage + 2 + (to_row"),
               {"tiles.cuh", "not aligned to its bytes"});
}

TEST(PlantedNarrow, RowsThatAreCopiedToOnePlace) {
  expect_found(kInt8, changed("narrow-copy"_marker, "to_row + row", "to_row"), kWrong);
}

// The last number of a row whose length is odd.
TEST(PlantedNarrow, HalfAByteThatIsLeftOut) {
  expect_found(kInt4, changed("narrow-left"_marker, "* kBitsB + 7) / 8", "* kBitsB) / 8"), kWrong);
}

TEST(PlantedNarrow, AWarpWhoseSumsAreLeftOut) {
  expect_found(kInt4, changed("narrow-warps"_marker, "add(values[e], more[e])", "values[e]"),
               kWrong);
}

TEST(PlantedNarrow, AStageThatIsReadBeforeItIsThere) {
  if (kThreads.checker.empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(kThreads, removed("narrow-full"_marker), {"data race"});
}

TEST(PlantedNarrow, AWrongSign) {
  expect_found(kInt8, changed("narrow-sign"_marker, "0xff80ff80", "0xff00ff00"), kWrong);
}

TEST(PlantedNarrow, ElementsThatWgmmaTakesFromElsewhere) {
  expect_found(kWgmma, changed("wgmma-narrow-row"_marker, "swizzled<Left::kTile.width()>", ""),
               kWrong);
  expect_found(kWgmma, changed("wgmma-narrow-byte"_marker, "row ^ byte", "row + byte"), kWrong);
  expect_found(kWgmma, changed("wgmma-narrow-word"_marker, "* 2 + half", "+ 2 * half"), kWrong);
  expect_found(kWgmmaOfBytes, changed("wgmma-two-bytes"_marker, "0x22u", "0x11u"), kWrong);
  expect_found(kWgmma, changed("wgmma-narrow-step"_marker, "unit * STEPS + step", "step"), kWrong);
  expect_found(kWgmmaOfBytes, changed("wgmma-nan-lanes"_marker, "shuffle_xor(any, 2)", "0u"),
               kWrong);
}

TEST(PlantedNarrow, WgmmaWithoutItsFences) {
  expect_found(kWgmma, removed("wgmma-narrow-fence"_marker), {"without wgmma_fence()"});
  expect_found(kWgmma, removed("wgmma-narrow-last-wait"_marker),
               {"without waiting for the product"});
  expect_found(kWgmmaScales, removed("wgmma-narrow-promote-wait"_marker),
               {"without waiting for the product"});
}

// The instructions of the tile before still read it.
TEST(PlantedNarrow, AStageThatIsFreedTooEarly) {
  if (kWgmmaThreads.checker.empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(kWgmmaThreads, removed("wgmma-narrow-wait"_marker), {"data race"});
  expect_found(kWgmmaThreads,
               changed("wgmma-narrow-release"_marker, "release(before)", "release(from)"),
               {"data race"});
  expect_found(kWgmmaThreads, removed("cluster-release-fence"_marker), {"data race"});
}

TEST(PlantedNarrow, ABatchWhoseOperandsLieTwiceAsFarApart) {
  expect_found(kBatch, changed("schedule-b"_marker, " / kPerElementB", ""), kWrong);
}

TEST(PlantedNarrow, ANaNThatIsTakenForANumber) {
  expect_found(kE4m3, changed("narrow-nan"_marker, "0x01010101", "0"), kWrong);
  expect_found(kE4m3, changed("narrow-nan-lanes"_marker, "shuffle_xor(any, 2)", "0u"), kWrong);
}

TEST(PlantedNarrow, ScalesOfOtherBlocksAndColumns) {
  expect_found(kScales, changed("narrow-scale"_marker, "column * per_column", "column"), kWrong);
  expect_found(kScales, changed("narrow-scaled"_marker, ", scale,", ", Sum(1),"), kWrong);
  expect_found(kScales, changed("narrow-block"_marker, " + block * kBlock)", ")"), kWrong);
  Subject by_runs = kScales;
  by_runs.options = "--types bf16xi8 bf16 strict --layout nt --epilogue 'acc(s[k/128,j])'";
  expect_found(by_runs, changed("narrow-scales"_marker, "block * per_block", "per_block"), kWrong);
  expect_found(kWgmmaScales, changed("wgmma-last-of-scale"_marker, "== kTilesOfScale;", "> 0;"),
               kWrong);
}

TEST(PlantedNarrow, ZeroPointsOfOtherColumnsBlocksAndSigns) {
  expect_found(kZeros, changed("narrow-zero-column"_marker, "[i * 8]", "[0]"), kWrong);
  expect_found(kZeros, changed("narrow-taken"_marker, "+ zero", "- zero"), kWrong);
  expect_found(kNaiveZeros, changed("naive-zero"_marker, "column, block", "column, 0"), kWrong);
  expect_found(kWgmmaZeros, changed("wgmma-zero-pair"_marker, "[half])", "[0])"), kWrong);
  for (const Subject& subject : {kWgmmaZeros, kWgmmaBf16Zeros})
    expect_found(subject, changed("narrow-taken"_marker, "+ zero", "- zero"), kWrong);
  expect_found(kWgmmaBf16Zeros,
               changed("narrow-taken"_marker, "+ zero", "+ (zero > 120 ? 120 : zero)"), kWrong);
  expect_found(kWgmmaByteZeros, changed("wgmma-zero"_marker, "zeros[half]", "zeros[0]"), kWrong);
  expect_found(kWgmmaZeros, removed("wgmma-next-zeros"_marker), kWrong);
}

}  // namespace
}  // namespace tilewise::test::planted_narrow_test
