// Mistakes planted in grouped products: rows of the next product, the matrix of another product,
// numbers out of range.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_groups_test {
namespace {

const std::string kGroups = " --batch 40 --grouped 'rows even'", kWrong = " instead of ";

Subject plain(const std::string& checker) {
  return {"Plain", checker, R"(tiled {"READ_B":2,"TILE":8,"UNROLL":4})", kGroups};
}
Subject wgmma(const std::string& checker, const std::string& values) {
  return {"Wgmma", checker,
          R"(wgmma {"TILE_K":64,"CONSUMERS":1,"STAGES":2,"PACK_A":0,"PACK_B":0,"VECTOR_C":1,)" +
              values + "}",
          "--types bf16 bf16 strict" + kGroups};
}
const std::string kRows = R"("TILE_M":64,"TILE_N":64,"EPILOGUE":0)";
const std::string kByTma = R"("TILE_M":64,"TILE_N":64,"EPILOGUE":2)";
// Two stores of each work item share a buffer with those of the next one.
const std::string kSwapped = R"("TILE_M":96,"TILE_N":64,"SWAP_AB":1,"EPILOGUE":2)";

Subject with_epilogue() {
  Subject subject = wgmma(TILEWISE_CHECK_PLAIN, kByTma);
  subject.options += " --epilogue 'x = acc + 1; aux[i,j] = x; acc'";
  return subject;
}

TEST(PlantedGroups, UnchangedHasNothingThatIsFound) {
  expect_nothing_found(plain(TILEWISE_CHECK_PLAIN));
  expect_nothing_found(plain(TILEWISE_CHECK_ASAN));
  expect_nothing_found(with_epilogue());
  for (const std::string& values : {kRows, kByTma, kSwapped})
    expect_nothing_found(wgmma(TILEWISE_CHECK_PLAIN, values));
  expect_nothing_found(wgmma(TILEWISE_CHECK_TSAN, kSwapped));
}

TEST(PlantedGroups, ALastTileThatWritesIntoTheNextProduct) {
  expect_found(plain(TILEWISE_CHECK_PLAIN),
               changed("schedule-row-end"_marker, "tile.row_end", "args.rows()"), {kWrong});
  expect_found(wgmma(TILEWISE_CHECK_PLAIN, kRows),
               changed("wgmma-row-end"_marker, "row_end", "args.rows()"), {kWrong});
  expect_found(wgmma(TILEWISE_CHECK_PLAIN, kByTma),
               changed("wgmma-rows-of-product"_marker, "to.work.row_end", "to.args.rows()"),
               {kWrong});
  expect_found(with_epilogue(),
               changed("pointwise-group-edge"_marker, "at.row_end - 1", "rows - 1"), {kWrong});
}

// Of the tiles of a product of few rows most blocks of 64 have none, and are not multiplied.
TEST(PlantedGroups, BlocksThatHaveRows) {
  const Subject shared = wgmma(TILEWISE_CHECK_PLAIN, R"("TILE_M":128,"TILE_N":64,"EPILOGUE":0)");
  expect_nothing_found(shared);
  expect_found(shared, changed("wgmma-rows-of-warpgroup"_marker, "first * 64", "first * 64 - 64"),
               {kWrong});
}
TEST(PlantedGroups, TurnsOfWarpgroupsWithoutRows) {
  Subject cluster = wgmma(TILEWISE_CHECK_PLAIN,
                          R"("TILE_M":64,"TILE_N":64,"PING_PONG":1,"CLUSTER_M":2,"EPILOGUE":0)");
  const std::string one = R"("CONSUMERS":1)";
  cluster.candidate.replace(cluster.candidate.find(one), one.size(), R"("CONSUMERS":2)");
  expect_nothing_found(cluster);
  expect_found(cluster, removed("wgmma-pass-turn"_marker), {"deadlock"});
  const std::string too_early = "one arrival too many";
  expect_found(cluster, removed("wgmma-turn-passed"_marker), {too_early});
  expect_found(cluster,
               changed("wgmma-pass"_marker, "pass_tiles(",
                       "mbarrier_arrive_warp(turns + (nth + 1) % CONSUMERS); pass_tiles(") +
                   removed("wgmma-pass-turn"_marker),
               {too_early});
}

// Tiles are taken from both halves of the list in turn.
TEST(PlantedGroups, ATileThatIsTakenTwice) {
  const Subject subject = wgmma(TILEWISE_CHECK_PLAIN, kRows);
  expect_found(subject, changed("schedule-interleaved"_marker, ": items / 2", ": items / 2 - 1"),
               {kWrong});
}

// Warps that read the table before it is made.
TEST(PlantedGroups, ATableThatIsNotWaitedFor) {
  const Subject cluster =
      wgmma(TILEWISE_CHECK_TSAN, R"("TILE_M":64,"TILE_N":64,"CLUSTER_M":2,"EPILOGUE":0)");
  expect_nothing_found(cluster);
  expect_found(cluster, removed("wgmma-table"_marker), {"data race"});
}

TEST(PlantedGroups, TheMatrixOfAnotherProduct) {
  expect_found(wgmma(TILEWISE_CHECK_PLAIN, kRows),
               changed("wgmma-product"_marker, "work.product", "0"), {kWrong});
  expect_found(wgmma(TILEWISE_CHECK_PLAIN, kRows), changed("groups-half"_marker, "<=", "<"),
               {"Floating point exception"});
  expect_found(plain(TILEWISE_CHECK_PLAIN),
               changed("groups-lane"_marker, "lowest_lane(which_lanes(behind))", "0"), {kWrong});
}

TEST(PlantedGroups, AnOffsetOfAnotherProduct) {
  expect_found(
      wgmma(TILEWISE_CHECK_PLAIN, kRows),
      changed("groups-of-product"_marker, ", ends[at],", ", ends[at + 1 < groups ? at + 1 : at],"),
      {kWrong});
}

// The rows that the block's tile before had.
TEST(PlantedGroups, AnOffsetOfTheTileBefore) {
  expect_found(wgmma(TILEWISE_CHECK_PLAIN, kRows),
               changed("schedule-group"_marker, "quotient(index)",
                       "quotient(index >= step ? index - step : index)"),
               {kWrong});
}

TEST(PlantedGroups, NumbersThatAreTakenAsTheyAre) {
  expect_found(plain(TILEWISE_CHECK_ASAN),
               changed("groups-clamp"_marker, "(number < rows ? number : rows)", "number"),
               {"AddressSanitizer"});
  expect_found(plain(TILEWISE_CHECK_PLAIN), removed("groups-largest"_marker), {kWrong});
  expect_found(plain(TILEWISE_CHECK_PLAIN), removed("groups-largest-of-lane"_marker), {kWrong});
}

Subject by_depth(const std::string& checker) {
  return {
      "Depth", checker,
      R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":64,"CONSUMERS":1,"STAGES":2,"PACK_A":0,"PACK_B":0,)"
      R"("EPILOGUE":0,"VECTOR_C":1})",
      "--layout tn --types bf16 bf16 strict --batch 5 --grouped 'depth even'"};
}
TEST(PlantedGroups, StepsOfTheNextProduct) {
  expect_nothing_found(by_depth(TILEWISE_CHECK_PLAIN));
  expect_nothing_found(by_depth(TILEWISE_CHECK_TSAN));
  expect_found(by_depth(TILEWISE_CHECK_PLAIN), replaced("wgmma-clear-rows"_marker, ";"), {kWrong});
  expect_found(by_depth(TILEWISE_CHECK_TSAN), removed("wgmma-cut-wait"_marker), {"data race"});
  expect_found(by_depth(TILEWISE_CHECK_TSAN), removed("wgmma-cut-fence"_marker), {"data race"});
  Subject naive = by_depth(TILEWISE_CHECK_ASAN);
  naive.candidate = "naive";
  expect_found(
      naive, changed("groups-depth-clamp"_marker, "(number < args.k ? number : args.k)", "number"),
      {"AddressSanitizer"});
}

TEST(PlantedGroups, RowsThatAreStoredWithoutTma) {
  expect_found(wgmma(TILEWISE_CHECK_PLAIN, kByTma), removed("wgmma-store-chunk"_marker), {kWrong});
  expect_found(wgmma(TILEWISE_CHECK_PLAIN, kSwapped), removed("wgmma-store-chunk"_marker),
               {kWrong});
  expect_found(wgmma(TILEWISE_CHECK_TSAN, kSwapped), removed("wgmma-chunks-read"_marker),
               {"data race"});
}

}  // namespace
}  // namespace tilewise::test::planted_groups_test
