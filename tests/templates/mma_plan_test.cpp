// What mma's parameters allow and what they make of a plan, where rows are not aligned to 16 bytes.
// The kernel itself is held against the reference elsewhere (tests/kernels, tests/matmul).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "templates/kernel_template.hpp"
#include "tests/support/problems.hpp"

namespace tilewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const DeviceInfo& h200() {
  static const DeviceInfo info = nominal_device(parse_target("sm_90a"));
  return info;
}

Problem problem_of(DType type, MathMode math, int alignment, Layout layout = Layout::nn) {
  Problem problem = test::make_problem(layout, 1023, 1023, 1023, alignment);
  return test::with_kind(problem, *find_product_kind(type, type, math));
}

Configuration with(const Problem& problem, const std::map<std::string, int>& changed) {
  Configuration configuration = find_template("mma").default_configuration(problem, h200());
  for (const auto& [name, value] : changed) configuration.set(name, value);
  return configuration;
}

std::string why_not(const Problem& problem, const std::map<std::string, int>& changed) {
  return rejection(find_template("mma"), problem, with(problem, changed), h200());
}

bool search_tries(const Problem& problem, const std::map<std::string, int>& changed) {
  const Configuration configuration = with(problem, changed);
  for (const Constraint& constraint : find_template("mma").constraints)
    if (!constraint.holds({problem, configuration, h200()})) return false;
  return true;
}

/// The values that BYTES_B may have, with BYTES_A as small as an element.
std::vector<int> allowed(const Problem& problem) {
  std::vector<int> bytes;
  for (const int value : {1, 2, 4, 8, 16})
    if (why_not(problem, {{"BYTES_B", value}}).empty()) bytes.push_back(value);
  return bytes;
}

TEST(MmaBytes, AnElementOrMoreOrShiftedPieces) {
  EXPECT_THAT(allowed(problem_of(DType::f32, MathMode::tf32, 4)), ElementsAre(1, 4));
  EXPECT_THAT(allowed(problem_of(DType::f32, MathMode::f32x3, 16)), ElementsAre(1, 4, 8, 16));
  EXPECT_THAT(allowed(problem_of(DType::f64, MathMode::strict, 8)), ElementsAre(1, 8));
  EXPECT_THAT(allowed(problem_of(DType::bf16, MathMode::strict, 2)), ElementsAre(2));
  EXPECT_THAT(allowed(problem_of(DType::bf16, MathMode::strict, 8)), ElementsAre(2, 4, 8));
  EXPECT_THAT(allowed(problem_of(DType::e4m3, MathMode::strict, 1)), ElementsAre(1));
  EXPECT_THAT(why_not(problem_of(DType::f64, MathMode::strict, 8), {{"BYTES_B", 4}}),
              HasSubstr("bytes_of_b"));
}

TEST(MmaBytes, SearchTriesShiftedPiecesWhereNothingWiderThanEightBytesIsAligned) {
  const auto tried = [](const Problem& problem) {
    std::vector<int> bytes;
    for (const int value : {1, 2, 4, 8, 16})
      if (search_tries(problem, {{"BYTES_A", value}, {"BYTES_B", value}})) bytes.push_back(value);
    return bytes;
  };
  EXPECT_THAT(tried(problem_of(DType::f32, MathMode::tf32, 4)), ElementsAre(1, 4));
  EXPECT_THAT(tried(problem_of(DType::f32, MathMode::tf32, 8)), ElementsAre(1, 8));
  EXPECT_THAT(tried(problem_of(DType::f32, MathMode::tf32, 16)), ElementsAre(16));
  EXPECT_THAT(tried(problem_of(DType::f64, MathMode::strict, 8)), ElementsAre(1, 8));
  EXPECT_THAT(tried(problem_of(DType::f16, MathMode::strict, 4)), ElementsAre(2, 4));
}

TEST(MmaBytes, AWarpShiftsWholeRowsOrItsOwnPartOfThem) {
  const Problem f64 = problem_of(DType::f64, MathMode::strict, 8);
  // 128 elements are 64 pieces, two warps'; 96 are 48 pieces, which end inside a warp.
  EXPECT_EQ(why_not(f64, {{"BYTES_B", 1}, {"TILE_N", 128}, {"WARP_N", 32}}), "");
  const std::map<std::string, int> three_warps{
      {"TILE_M", 32}, {"TILE_N", 96}, {"WARP_M", 32}, {"WARP_N", 32}, {"BYTES_B", 8}};
  EXPECT_EQ(why_not(f64, three_warps), "");
  auto shifted = three_warps;
  shifted["BYTES_B"] = 1;
  EXPECT_THAT(why_not(f64, shifted), HasSubstr("threads_take_rows_of_b"));
}

TEST(MmaBytes, EachPartOfARowHasAPieceMoreInSharedMemory) {
  const auto shared = [](const Problem& problem, std::map<std::string, int> changed) {
    changed["STAGES"] = 3;
    const Configuration configuration = with(problem, changed);
    EXPECT_EQ(rejection(find_template("mma"), problem, configuration, h200()), "");
    return find_template("mma").plan(problem, configuration, h200()).steps.back().shared_bytes;
  };
  const Problem tf32 = problem_of(DType::f32, MathMode::tf32, 4);  // 64 x 64 x 32
  const auto narrow = shared(tf32, {});
  EXPECT_EQ(shared(tf32, {{"BYTES_A", 1}}), narrow + 3 * 64 * 16) << "A's 64 rows";
  EXPECT_EQ(shared(tf32, {{"BYTES_B", 1}}), narrow + 3 * 32 * 16) << "B's 32 rows";
  const Problem f64 = problem_of(DType::f64, MathMode::strict, 8);  // 64 x 64 x 16
  const auto wide = shared(f64, {{"TILE_N", 128}});
  EXPECT_EQ(shared(f64, {{"TILE_N", 128}, {"BYTES_B", 1}}), wide + 3 * 16 * 2 * 16)
      << "two warps bring each of B's 16 rows";
}

TEST(MmaBytes, APackedOperandIsAligned) {
  const Problem tf32 = problem_of(DType::f32, MathMode::tf32, 4);
  EXPECT_TRUE(search_tries(tf32, {{"PACK_B", 1}, {"BYTES_B", 16}, {"BYTES_A", 1}}));
  EXPECT_FALSE(search_tries(tf32, {{"PACK_B", 1}, {"BYTES_B", 1}, {"BYTES_A", 1}}));
}

}  // namespace
}  // namespace tilewise
