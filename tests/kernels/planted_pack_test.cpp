// Mistakes planted in the pack step, detected in products of packed operands.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_pack_test {
namespace {

const std::string kWrong = " instead of ";

// Both operands padded, three products.
Subject padded(const std::string& checker) {
  return {"Padded", checker,
          R"(mma {"TILE_M":32,"TILE_N":64,"TILE_K":64,"WARP_M":32,"WARP_N":32,)"
          R"("PACK_A":1,"PACK_B":1,"BYTES_A":16,"BYTES_B":16})",
          "--types f16 f32 strict --batch 3"};
}
// Rows of bytes, at any address.
Subject padded_bytes(const std::string& checker) {
  return {"PaddedBytes", checker,
          R"(mma {"TILE_M":32,"TILE_N":128,"TILE_K":128,"WARP_M":32,"WARP_N":64,)"
          R"("PACK_A":1,"PACK_B":1,"BYTES_A":16,"BYTES_B":16})",
          "--types i8 i32 strict"};
}
// A padded, B transposed.
Subject turned_bytes(const std::string& checker) {
  return {"TurnedBytes", checker,
          R"(mma {"TILE_M":32,"TILE_N":32,"TILE_K":128,"WARP_M":32,"WARP_N":32,)"
          R"("PACK_A":1,"PACK_B":2,"BYTES_A":16,"BYTES_B":16})",
          "--types i8 i32 strict"};
}
// Only B is transposed; tiles are `depth` deep, elements have `bytes` bytes.
std::string turned_b(int depth, int bytes) {
  return R"(mma {"TILE_M":32,"TILE_N":32,"TILE_K":)" + std::to_string(depth) +
         R"(,"WARP_M":32,"WARP_N":32,"PACK_B":2,"BYTES_A":)" + std::to_string(bytes) +
         R"(,"BYTES_B":16})";
}
Subject turned_halves(const std::string& checker) {
  return {"TurnedHalves", checker, turned_b(64, 2), "--types f16 f32 strict"};
}
Subject turned_words(const std::string& checker) {
  return {"TurnedWords", checker, turned_b(32, 4), "--types f32 f32 tf32"};
}
// Both operands in two parts, B transposed.
Subject split_words(const std::string& checker) {
  return {"SplitWords", checker,
          R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":32,"CONSUMERS":1,"STAGES":2,"EPILOGUE":0,)"
          R"("VECTOR_C":1,"PACK_A":1,"PACK_B":2})",
          "--types f32 f32 f32x3"};
}
Subject turned_doubles(const std::string& checker) {
  return {"TurnedDoubles", checker, turned_b(16, 8), "--types f64 f64 strict"};
}

class UnchangedPack : public testing::TestWithParam<Subject> {};

TEST_P(UnchangedPack, HasNothingThatIsFound) {
  if (GetParam().checker.empty()) GTEST_SKIP() << "no such sanitizer";
  expect_nothing_found(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Plain, UnchangedPack,
    testing::Values(padded(TILEWISE_CHECK_PLAIN), padded_bytes(TILEWISE_CHECK_PLAIN),
                    turned_bytes(TILEWISE_CHECK_PLAIN), turned_halves(TILEWISE_CHECK_PLAIN),
                    turned_words(TILEWISE_CHECK_PLAIN), turned_doubles(TILEWISE_CHECK_PLAIN),
                    split_words(TILEWISE_CHECK_PLAIN)),
    name_of);
INSTANTIATE_TEST_SUITE_P(Address, UnchangedPack,
                         testing::Values(padded(TILEWISE_CHECK_ASAN),
                                         turned_words(TILEWISE_CHECK_ASAN)),
                         name_of);

// Edges.

TEST(PlantedPack, TheRowPastTheLastIsReadPastTheOperandsEnd) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(padded(TILEWISE_CHECK_ASAN), changed("pack-row-edge"_marker, " < ", " <= "),
               {"heap-buffer-overflow", line_of("pack-read-edge"_marker)});
}

TEST(PlantedPack, ARunThatIsOnlyPartlyInsideIsReadPastItsRow) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(turned_words(TILEWISE_CHECK_ASAN), changed("pack-run-inside"_marker, "+ 16 <=", "<"),
               {"AddressSanitizer: ", line_of("pack-read-chunk"_marker)});
}

TEST(PlantedPack, ARowPastThePackedOperandIsWrittenPastItsEnd) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  expect_found(padded(TILEWISE_CHECK_ASAN), changed("pack-output-edge"_marker, "r <", "r <="),
               {"heap-buffer-overflow", line_of("pack-store"_marker)});
}

TEST(PlantedPack, APieceBehindARowIsWrittenOverTheNextRow) {
  expect_found(padded(TILEWISE_CHECK_PLAIN), changed("pack-output-edge"_marker, "c <", "c <="),
               {kWrong});
}

// Transposing.

TEST(PlantedPack, BytesThatChangePlacesAreAWrongResult) {
  expect_found(
      turned_bytes(TILEWISE_CHECK_PLAIN),
      changed("pack-transpose-bytes"_marker, "1][word], runs[row + 2", "2][word], runs[row + 1"),
      {kWrong});
  expect_found(turned_bytes(TILEWISE_CHECK_PLAIN),
               changed("transpose-bytes-low"_marker, "0x7632", "0x7623"), {kWrong});
}

TEST(PlantedPack, ElementsOfOtherSizesThatChangePlacesAreAWrongResult) {
  expect_found(turned_halves(TILEWISE_CHECK_PLAIN),
               changed("pack-transpose-halves"_marker, "a, b", "b, a"), {kWrong});
  expect_found(turned_words(TILEWISE_CHECK_PLAIN),
               changed("pack-transpose-words"_marker, "[i % 4][i / 4] =", "[i / 4][i % 4] ="),
               {kWrong});
  expect_found(turned_doubles(TILEWISE_CHECK_PLAIN),
               changed("pack-transpose-doubles"_marker, "* 2 + i % 2", "+ i % 2 * 2"), {kWrong});
}

// Realigning.

TEST(PlantedPack, ARunShiftedByOneByteTooFewIsAWrongResult) {
  expect_found(padded_bytes(TILEWISE_CHECK_PLAIN), changed("pack-realign"_marker, ");", " - 1);"),
               {kWrong});
  expect_found(padded_bytes(TILEWISE_CHECK_PLAIN), changed("realign-bits"_marker, "& 3", "& 2"),
               {kWrong});
}

// Operands, products and rows mixed up.

TEST(PlantedPack, TheSecondOperandsBlocksCountedFromTheFirstsAreAWrongResult) {
  expect_found(turned_bytes(TILEWISE_CHECK_PLAIN), removed("pack-second-operand-blocks"_marker),
               {kWrong});
}

TEST(PlantedPack, TheSecondOperandPackedAsTheFirstIsAWrongResult) {
  expect_found(turned_bytes(TILEWISE_CHECK_PLAIN),
               changed("pack-same-kind"_marker, "== FIRST", "> 0"), {kWrong});
}

TEST(PlantedPack, AStrideOfElementsTakenForBytesIsAWrongResult) {
  expect_found(padded(TILEWISE_CHECK_PLAIN),
               changed("pack-batch-offset"_marker, "* ELEMENT_BYTES", ""), {kWrong});
}

// The case is also run by pointers.
TEST(PlantedPack, OnePointerForAllProductsIsAWrongResult) {
  expect_found(padded(TILEWISE_CHECK_PLAIN), changed("matrix-pointer"_marker, "[product]", "[0]"),
               {kWrong});
}

TEST(PlantedPack, SmallPartsThatAreWrongOrMisplacedAreAWrongResult) {
  expect_found(split_words(TILEWISE_CHECK_PLAIN),
               changed("pack-small-part"_marker, "value - float_of(word)", "value"), {kWrong});
  expect_found(split_words(TILEWISE_CHECK_PLAIN),
               changed("pack-small-place"_marker, "x.to_rows *", "(x.to_rows - 1) *"), {kWrong});
}

TEST(PlantedPack, RowsWrittenSideBySideThatAreReadApartAreAWrongResult) {
  expect_found(padded(TILEWISE_CHECK_PLAIN), changed("pack-write-row"_marker, "* T::APART", ""),
               {kWrong});
}

}  // namespace
}  // namespace tilewise::test::planted_pack_test
