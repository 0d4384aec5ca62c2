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
  expect_found(GetParam(), changed("pointwise-column"_marker, "at.column", "at.row"),
               {" instead of "});
}
TEST_P(PlantedEpilogue, ABiasOffByOneAtTheEdgeIsAWrongResult) {
  expect_found(GetParam(),
               changed("pointwise-column"_marker, "at.column", "(at.column < 70 ? at.column : 70)"),
               {" instead of "});
}
INSTANTIATE_TEST_SUITE_P(Families, PlantedEpilogue, testing::ValuesIn(kSubjects), name_of);

// Other kernels do not reach elements outside of C.
TEST(PlantedEpilogueEdge, WhatTmaDoesNotStoreMustNotBeWritten) {
  expect_found(kSubjects.back(), changed("pointwise-edge"_marker, "columns - 1", "columns"),
               {" instead of "});
}

}  // namespace
}  // namespace tilewise::test::planted_epilogue_test
