// Mistakes planted in how an epilogue reads its operands, in kernels of every family that stores C
// in a way of its own. Mistakes in the order of its arithmetic:
// tests/tuner/epilogue_judge_test.cpp.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_epilogue_test {
namespace {

const std::string kEpilogue =
    " --epilogue 'x = acc + bias[j]; aux[i,j] = x; sums[j] = sum(x); relu(x) + residual[i,j]'";

Subject of(const std::string& name, const std::string& candidate, const std::string& types) {
  return {name, TILEWISE_CHECK_PLAIN, candidate, types + kEpilogue};
}
const std::vector<Subject> kSubjects{
    of("Tiled", kTiled, ""), of("SplitK", R"(simt {"SPLIT_K":3})", ""),
    of("Mma", R"(mma {"EPILOGUE":1,"VECTOR_C":8})", "--types bf16 bf16 strict"),
    of("Wgmma", R"(wgmma {"EPILOGUE":2,"VECTOR_C":1})", "--types bf16 bf16 strict")};

class PlantedEpilogue : public testing::TestWithParam<Subject> {};

TEST_P(PlantedEpilogue, WithoutAMistakeNothingIsFound) { expect_nothing_found(GetParam()); }
TEST_P(PlantedEpilogue, ABiasOfTheWrongAxisIsAWrongResult) {
  expect_found(GetParam(), changed("pointwise-column"_marker, "place.column", "place.row"),
               {" instead of "});
}
TEST_P(PlantedEpilogue, ABiasOffByOneIsAWrongResult) {
  expect_found(GetParam(),
               changed("pointwise-column"_marker, "place.column",
                       "(place.column > 0 ? place.column - 1 : 0)"),
               {" instead of "});
}
INSTANTIATE_TEST_SUITE_P(Families, PlantedEpilogue, testing::ValuesIn(kSubjects), name_of);

// wgmma loads vectors before it needs them, and a matrix by TMA where beta is 0.
Subject ahead(const std::string& name, const std::string& swapped) {
  return {name, TILEWISE_CHECK_PLAIN,
          R"(wgmma {"TILE_M":64,"TILE_N":128,"CONSUMERS":1,"EPILOGUE":2,"VECTOR_C":1,"SWAP_AB":)" +
              swapped + "}",
          "--types bf16 bf16 strict --epilogue 'acc + bias[j] - 2 * rows[i] + residual[i,j]'"};
}
class PlantedAhead : public testing::TestWithParam<Subject> {};
const Subject kAhead = ahead("AsStored", "0");

TEST_P(PlantedAhead, AnElementOfTheWrongLaneIsAWrongResult) {
  expect_found(GetParam(), changed("wgmma-ahead-right"_marker, "from + lane * EACH", "from"),
               {" instead of "});
}
TEST(PlantedAheadOfC, AnElementLostAtTheEdgeIsAWrongResult) {
  expect_found(kAhead, changed("wgmma-ahead-inside"_marker, "<=", "<"), {" instead of "});
}
TEST_P(PlantedAhead, AnElementOfTheWrongRowIsAWrongResult) {
  expect_found(GetParam(), changed("wgmma-ahead-left"_marker, "left / 8", "0"), {" instead of "});
}
TEST(PlantedAheadOfC, AnElementOfAnotherPartIsAWrongResult) {
  expect_found(kAhead, changed("wgmma-ahead-turn"_marker, "Of::NTH % 2", "0"), {" instead of "});
}
TEST(PlantedAheadOfC, AMatrixThatIsReadBeforeItLiesThereIsADataRace) {
  Subject threads = kAhead;
  threads.checker = TILEWISE_CHECK_TSAN;
  expect_found(threads, removed("wgmma-operand-laid-down"_marker), {"data race"});
}
TEST(PlantedAheadOfC, OneMatrixForAllProductsIsNotTheNextOnes) {
  Subject batch = kAhead;
  batch.options += " --batch 3";
  expect_nothing_found(batch);
  expect_found(batch, changed("wgmma-staged-product"_marker, "? 0 :", "? to.work.product :"),
               {" instead of "});
}
INSTANTIATE_TEST_SUITE_P(Orders, PlantedAhead, testing::Values(kAhead, ahead("Swapped", "1")),
                         name_of);

TEST(PlantedAheadOfC, AMatrixThatIsLaidOverElementsOfCThatAreReadIsADataRace) {
  Subject threads = kAhead;
  threads.checker = TILEWISE_CHECK_TSAN;
  threads.options.replace(threads.options.find("bf16 bf16"), 9, "bf16 f32");
  expect_found(threads, removed("wgmma-old-read"_marker), {"data race"});
}

// Other kernels do not reach elements outside of C.
TEST(PlantedEpilogueEdge, WhatTmaDoesNotStoreMustNotBeWritten) {
  expect_found(kSubjects.back(), changed("pointwise-edge"_marker, "columns - 1", "columns"),
               {" instead of "});
}

}  // namespace
}  // namespace tilewise::test::planted_epilogue_test
