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
const Subject kNaive = {"Naive", TILEWISE_CHECK_PLAIN,
                        R"(naive {"TILE_M":8,"TILE_N":32,"ACROSS":1,"UNROLL":1})",
                        "--types bf16xi4 bf16 strict"};

const std::string kByWgmma =
    R"(narrow {"WGMMA":1,"TILE_M":16,"BLOCKS":2,"WARPS_N":4,"WARPS_K":1,"TILE_K":128,"STAGES":2,)"
    R"("BYTES_A":4,"BYTES_B":4,"VECTOR_C":1,"BLOCKS_PER_SM":1,"SPLIT_K":1})";
const Subject kWgmma = {"Wgmma", TILEWISE_CHECK_PLAIN, kByWgmma,
                        "--types bf16xi4 bf16 strict --layout nt"};
const Subject kWgmmaOfBytes = {"WgmmaOfBytes", TILEWISE_CHECK_PLAIN, kByWgmma,
                               "--types f16xe4m3 f16 strict --layout nt"};
const Subject kWgmmaThreads = {"WgmmaThreads", TILEWISE_CHECK_TSAN, kByWgmma,
                               "--types f16xi8 f16 strict --layout nt"};

class UnchangedNarrow : public testing::TestWithParam<Subject> {};
TEST_P(UnchangedNarrow, HasNothingThatIsFound) {
  if (GetParam().checker.empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_nothing_found(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Plain, UnchangedNarrow,
                         testing::Values(kInt4, kInt8, kE4m3, kBatch, kScales, kNaive, kWgmma,
                                         kWgmmaOfBytes),
                         name_of);
const Subject kThreads = {"Threads", TILEWISE_CHECK_TSAN, kTwoWarps,
                          "--types bf16xi8 bf16 strict --layout nt"};
INSTANTIATE_TEST_SUITE_P(Threads, UnchangedNarrow, testing::Values(kThreads, kWgmmaThreads),
                         name_of);

TEST(PlantedNarrow, NumbersOfFourBitsInAnotherOrder) {
  expect_found(kInt4, changed("narrow-nibbles"_marker, "0x0400u", "0x0500u"), kWrong);
  expect_found(kNaive, changed("types-nibble"_marker, "4 * nth", "4 - 4 * nth"), kWrong);
}

TEST(PlantedNarrow, NumbersThatAreOffByOne) {
  expect_found(kInt4, changed("narrow-four-bits"_marker, "BASE);", "BASE - 0x00010001);"), kWrong);
}

TEST(PlantedNarrow, AFragmentsRowsExchanged) {
  expect_found(kInt8, changed("narrow-fragment"_marker, "word % 2", "1 - word % 2"), kWrong);
}

TEST(PlantedNarrow, ACopyThatIsNotAligned) {
  expect_found(kInt8, changed("narrow-copy"_marker, "stage + place", "stage + 2 + place"),
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

TEST(PlantedNarrow, PlacesThatWgmmaReadsElsewhere) {
  expect_found(kWgmma, changed("narrow-swizzle"_marker, "^ row % 8", ""), kWrong);
  expect_found(kWgmma, changed("narrow-panel"_marker, "k / 64 *", "0 *"), kWrong);
  expect_found(kWgmma, changed("narrow-left-words"_marker, "word % 2", "1 - word % 2"), kWrong);
  expect_found(kWgmmaOfBytes, changed("narrow-two-bytes"_marker, "0x22u", "0x11u"), kWrong);
}

TEST(PlantedNarrow, WgmmaWithoutItsFences) {
  expect_found(kWgmma, removed("narrow-fence"_marker), {"without wgmma_fence()"});
  expect_found(kWgmma, removed("narrow-wait"_marker), {"without waiting for the product"});
  if (kWgmmaThreads.checker.empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(kWgmmaThreads, removed("narrow-proxy-fence"_marker), {"data race"});
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
}

}  // namespace
}  // namespace tilewise::test::planted_narrow_test
