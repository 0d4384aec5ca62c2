// Mistakes planted in the family wgmma: phases, stages, descriptors, clusters.
#include "tests/kernels/planted.hpp"

namespace tilewise::test::planted_wgmma_test {
namespace {

const std::string kTypes = "--types bf16 bf16 strict";

std::string candidate(const std::string& values) {
  return R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":64,"CONSUMERS":1,"STAGES":2,"PACK_A":0,"PACK_B":0,)" +
         values + "}";
}
Subject subject(const std::string& name, const std::string& checker, const std::string& values) {
  return {name, checker, candidate(values), kTypes};
}
const Subject kPlain = subject("Plain", TILEWISE_CHECK_PLAIN, R"("EPILOGUE":1,"VECTOR_C":8)");
const Subject kCluster =
    subject("Cluster", TILEWISE_CHECK_PLAIN, R"("CLUSTER_M":2,"EPILOGUE":0,"VECTOR_C":1)");
const Subject kPingPong = subject("PingPong", TILEWISE_CHECK_PLAIN,
                                  R"("CONSUMERS":2,"PING_PONG":1,"EPILOGUE":0,"VECTOR_C":1)");
const Subject kSplit =
    subject("Split", TILEWISE_CHECK_PLAIN, R"("SPLIT_K":3,"EPILOGUE":0,"VECTOR_C":1)");

const Subject kBatch = {"Batch", TILEWISE_CHECK_PLAIN, candidate(R"("EPILOGUE":2,"VECTOR_C":1)"),
                        kTypes + " --batch 3"};

// Packed operands, so that C is not aligned.
const Subject kRows = {
    "Rows", TILEWISE_CHECK_PLAIN,
    R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":64,"CONSUMERS":1,"STAGES":2,"PACK_A":1,"PACK_B":1,)"
    R"("EPILOGUE":3,"VECTOR_C":1})",
    kTypes};
// Stores of 64 columns and of 16.
const Subject kRest = {
    "Rest", TILEWISE_CHECK_PLAIN,
    R"(wgmma {"TILE_M":64,"TILE_N":80,"TILE_K":64,"CONSUMERS":1,"STAGES":2,"EPILOGUE":2,"VECTOR_C":1})",
    kTypes};
// Three stores of each work item.
const Subject kParts = {
    "Parts", TILEWISE_CHECK_PLAIN,
    R"(wgmma {"TILE_M":64,"TILE_N":96,"TILE_K":64,"CONSUMERS":1,"STAGES":2,"EPILOGUE":2,"VECTOR_C":1})",
    "--types bf16 f32 strict"};
const Subject kStores = subject("Stores", TILEWISE_CHECK_PLAIN, R"("EPILOGUE":2,"VECTOR_C":1)");

const Subject kSwapped =
    subject("Swapped", TILEWISE_CHECK_PLAIN, R"("SWAP_AB":1,"EPILOGUE":2,"VECTOR_C":1)");
// Six clusters at a time.
const Subject kStreamK = subject("StreamK", TILEWISE_CHECK_PLAIN,
                                 R"("STREAM_K":1,"BLOCKS_PER_SM":3,"EPILOGUE":0,"VECTOR_C":1)");
const Subject kSplitParts = {
    "SplitParts", TILEWISE_CHECK_PLAIN,
    R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":32,"CONSUMERS":1,"STAGES":2,"EPILOGUE":0,"VECTOR_C":1})",
    "--types f32 f32 f32x3"};
const Subject kPromoted = {
    "Promoted", TILEWISE_CHECK_PLAIN,
    R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":64,"CONSUMERS":1,"STAGES":2,"EPILOGUE":0,"VECTOR_C":1})",
    "--types e4m3 f32 strict"};
const Subject kOverlapped = {
    "Overlapped", TILEWISE_CHECK_PLAIN,
    R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":64,"CONSUMERS":1,"STAGES":3,"EPILOGUE":0,)"
    R"("VECTOR_C":1,"PROMOTE":2})",
    "--types e5m2 f32 strict"};
// Scales of blocks of k, of two blocks of columns.
const Subject kScaled = {
    "Scaled", TILEWISE_CHECK_PLAIN,
    R"(wgmma {"TILE_M":64,"TILE_N":192,"TILE_K":128,"CONSUMERS":1,"STAGES":2,"EPILOGUE":0,)"
    R"("VECTOR_C":1,"PROMOTE":1})",
    "--types e4m3 f32 strict --layout nt --epilogue 'acc(a[i,k/128]*b[k/128,j/128])'"};
const Subject kNaiveScaled = {"NaiveScaled", TILEWISE_CHECK_PLAIN,
                              R"(naive {"TILE_M":8,"TILE_N":32,"ACROSS":1,"UNROLL":1})",
                              "--types e5m2 f32 strict --epilogue 'acc(a[k/128,i]*b[j,k/128])'"};
// Parts of two tiles of k, which a block adds itself.
const Subject kOwnParts = {
    "OwnParts", TILEWISE_CHECK_PLAIN,
    candidate(R"("TILE_N":96,"EPILOGUE":0,"VECTOR_C":1,"PROMOTE":3,"SPLIT_K":1)"),
    kTypes + " --order tensor16+parts128"};
// Tiles of two panels.
std::string of_type(int depth, int pack_b) {
  return R"(wgmma {"TILE_M":64,"TILE_N":64,"TILE_K":)" + std::to_string(depth) +
         R"(,"CONSUMERS":1,"STAGES":2,"EPILOGUE":0,"VECTOR_C":1,"PACK_A":0,"PACK_B":)" +
         std::to_string(pack_b) + "}";
}
const Subject kBytes = {"Bytes", TILEWISE_CHECK_PLAIN, of_type(256, 2), "--types i8 i32 strict"};
const Subject kTf32 = {"Tf32", TILEWISE_CHECK_PLAIN, of_type(64, 2), "--types f32 f32 tf32"};
const Subject kTf32Padded = {"Tf32Padded", TILEWISE_CHECK_PLAIN, of_type(64, 1),
                             "--types f32 f32 tf32 --layout nt"};
// Two instructions of 144 columns next to each other.
const Subject kWide = {"Wide", TILEWISE_CHECK_PLAIN,
                       R"(wgmma {"TILE_M":64,"TILE_N":288,"TILE_K":64,"CONSUMERS":1,"CLUSTER_M":2,)"
                       R"("STAGES":2,"PACK_A":0,"PACK_B":0,"EPILOGUE":2,"VECTOR_C":1})",
                       kTypes + " --layout nt"};
Subject with_threads(Subject subject) {
  subject.checker = TILEWISE_CHECK_TSAN;
  return subject;
}

class UnchangedWgmma : public testing::TestWithParam<Subject> {};
TEST_P(UnchangedWgmma, HasNothingThatIsFound) {
  if (GetParam().checker.empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_nothing_found(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Plain, UnchangedWgmma,
                         testing::Values(kPlain, kCluster, kPingPong, kSplit, kStores, kRest,
                                         kParts, kRows, kBatch, kSwapped, kStreamK, kSplitParts,
                                         kPromoted, kOverlapped, kOwnParts, kBytes, kTf32,
                                         kTf32Padded, kWide, kScaled, kNaiveScaled),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Threads, UnchangedWgmma,
                         testing::Values(with_threads(kPlain), with_threads(kPingPong),
                                         with_threads(kPromoted), with_threads(kOverlapped),
                                         with_threads(kOwnParts), with_threads(kRows),
                                         with_threads(kBatch), with_threads(kStores),
                                         with_threads(kRest), with_threads(kParts),
                                         with_threads(kSwapped), with_threads(kStreamK),
                                         subject("Cluster", TILEWISE_CHECK_TSAN,
                                                 R"("CLUSTER_M":2,"EPILOGUE":1,"VECTOR_C":8)")),
                         name_of);

TEST(PlantedWgmma, AProducerThatWaitsForTheWrongPhase) {
  expect_found(kPlain, changed("wgmma-producer-phase"_marker, "1", "0"), {"deadlock"});
}

// A last part that is shorter, and a part that is left out.
TEST(PlantedWgmma, PartsThatABlockAdds) {
  expect_found(kOwnParts, changed("wgmma-part"_marker, "rest < part ? rest : part", "part"),
               {"deadlock"});
  expect_found(kOwnParts, removed("wgmma-promote-part"_marker), {" instead of "});
}

TEST(PlantedWgmma, ScalesOfOtherBlocks) {
  const std::string wrong = " instead of ";
  expect_found(kScaled, changed("wgmma-scale-down"_marker, "address(8)", "address(4)"), {wrong});
  expect_found(kScaled, changed("wgmma-scale-across"_marker, "column /", "0 * column /"), {wrong});
  expect_found(kScaled, changed("wgmma-scale"_marker, "scale,", "1.0f,"), {wrong});
  expect_found(kScaled,
               changed("pointwise-scale"_marker, "nth * of.ld + block", "block * of.ld + nth"),
               {wrong});
  expect_found(kNaiveScaled, changed("naive-scales"_marker, "part, scale", "part, Sum(1)"),
               {wrong});
}

TEST(PlantedWgmma, AStageThatIsFilledBeforeItIsEmpty) {
  expect_found(kPlain,
               replaced("cluster-wait-empty"_marker,
                        "DEVICE_MEMBER void wait_empty(const StagePhase<Stages>&) const {}"),
               {"the phase lacks bytes only"});
}

TEST(PlantedWgmma, AStageThatIsMultipliedBeforeItIsFull) {
  expect_found(kPlain,
               replaced("cluster-wait-full"_marker,
                        "DEVICE_MEMBER void wait_full(const StagePhase<Stages>&) const {}"),
               {"ends without waiting for the tile"});
}

TEST(PlantedWgmma, AStageThatIsFreedWhileItIsMultiplied) {
  expect_found(kPlain, changed("wgmma-wait"_marker, "1", "2"), {"instead of"});
}

TEST(PlantedWgmma, AStageThatIsFreedWhileItIsMultipliedIsARace) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  const std::string multiply = line_of("wgmma-multiply"_marker);
  for (const Subject& subject : {kPlain, kPingPong})
    expect_found(with_threads(subject), changed("wgmma-wait"_marker, "1", "2"),
                 {"data race", "async proxy of warp 0", "async proxy of warp 4",
                  line_of("wgmma-tma-load"_marker), multiply});
  expect_found(with_threads(kCluster), changed("wgmma-wait"_marker, "1", "2"),
               {"data race", line_of("wgmma-tma-load-to"_marker), multiply});
  expect_found(with_threads(kOverlapped), changed("wgmma-overlap-wait"_marker, "1", "2"),
               {"data race", line_of("wgmma-tma-load"_marker), multiply});
}

TEST(PlantedWgmma, SumsThatAreStoredBeforeTheyAreReady) {
  expect_found(kPlain, removed("wgmma-last-wait"_marker), {"ends without waiting for the product"});
}

TEST(PlantedWgmma, ProductsWithoutAFence) {
  expect_found(kPlain, removed("wgmma-fence"_marker), {"without wgmma_fence()", "main_loop.cuh"});
}

TEST(PlantedWgmma, ADescriptorWithAWrongOffset) {
  expect_found(kPlain, changed("wgmma-right-offset"_marker, "kAcross, step)", "kAcross, step ^ 1)"),
               {"instead of"});
}

TEST(PlantedWgmma, BytesThatAreMiscounted) {
  expect_found(kPlain, changed("wgmma-expect-tx"_marker, "bytes", "bytes + 16"), {"deadlock"});
  expect_found(kPlain, changed("wgmma-expect-tx"_marker, "bytes", "bytes - 16"), {"deadlock"});
}

TEST(PlantedWgmma, BoxesThatAreSkippedThoughTheyAreInside) {
  expect_found(kPlain, changed("wgmma-skip"_marker, "inside;", "inside - 32;"), {"deadlock"});
  expect_found(kPlain, changed("wgmma-rows-inside"_marker, "work.row", "work.row - TILE_M"),
               {"instead of"});
}

TEST(PlantedWgmma, EdgeBoxesOfTheOtherOperand) {
  expect_found(kPlain, changed("wgmma-edge-rows"_marker, "edge_rows_a", "edge_rows_b"),
               {"deadlock"});
  expect_found(kPlain, changed("wgmma-edge-rows"_marker, "edge_a_map", "edge_b_map"), {"deadlock"});
}

TEST(PlantedWgmma, MbarriersThatTmaDoesNotKnow) {
  expect_found(kPlain, removed("cluster-ready"_marker), {"without mbarriers_ready()"});
  expect_found(kStores, removed("wgmma-ready"_marker), {"without mbarriers_ready()"});
}

TEST(PlantedWgmma, AMulticastThatLeavesABlockOut) {
  expect_found(kCluster, changed("wgmma-blocks-of-column"_marker, "(1u << CLUSTER_M) - 1", "1u"),
               {"deadlock"});
}

TEST(PlantedWgmma, ABlockThatIsToldOfNoReaderOfItsTiles) {
  expect_found(kCluster, changed("cluster-empty-arrive"_marker, "lane < Cluster", "lane == 0"),
               {"deadlock"});
}

TEST(PlantedWgmma, ABlockThatLeavesItsCluster) {
  expect_found(kCluster, removed("wgmma-end"_marker), {"is on its way to it", "pipeline.cuh"});
}

TEST(PlantedWgmma, ABlockThatReachesMbarriersBeforeTheyAreThere) {
  expect_found(kCluster, replaced("wgmma-begin"_marker, "barrier();"),
               {"before a cluster_barrier()"});
}

TEST(PlantedWgmma, AnEpilogueOverAStageInUse) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  Subject threads = kPlain;
  threads.checker = TILEWISE_CHECK_TSAN;
  expect_found(threads, changed("wgmma-scratch"_marker, "kLayout.scratch_at()", "0"),
               {"data race", "wgmma.cu"});
}

TEST(PlantedWgmma, StagedSumsThatAreOverwritten) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  Subject threads = kPlain;
  threads.checker = TILEWISE_CHECK_TSAN;
  expect_found(threads, removed("wgmma-barrier-before-staging"_marker), {"data race"});
}

TEST(PlantedWgmma, ConsumersOutOfTurn) {
  expect_found(kPingPong, changed("wgmma-turn"_marker, "nth", "1 - nth"), {"deadlock"});
}

TEST(PlantedWgmma, RegistersThatNobodyHasReleased) {
  expect_found(kPingPong, removed("wgmma-lower-registers"_marker),
               {"deadlock: threads only wait", line_of("wgmma-raise-registers"_marker)});
  expect_found(kPingPong, changed("wgmma-raise-registers"_marker, "()>", "() + 8>"),
               {"deadlock: threads only wait"});
}

TEST(PlantedWgmma, RegistersOfAPartOfAWarpgroup) {
  expect_found(kPingPong, replaced("wgmma-lower-registers"_marker, "if (warp == 0) {line}"),
               {"deadlock: threads only wait"});
  expect_found(kPingPong, replaced("wgmma-raise-registers"_marker, "if (warp % 4 == 0) {line}"),
               {"not all warps of a warpgroup execute"});
  expect_found(
      kPingPong,
      replaced("wgmma-raise-registers"_marker, "if (threadIdx.x % 32 < 16) {line} else {line}"),
      {"waits for it with setmaxnreg"});
}

TEST(PlantedWgmma, ANumberOfRegistersThatThereIsNot) {
  expect_found(kPingPong, changed("wgmma-lower-registers"_marker, "()>", "() + 4>"),
               {"multiples of 8 from 24 to 256", line_of("wgmma-lower-registers"_marker)});
}

TEST(PlantedWgmma, AStoreThatReachesIntoTheNextWarpsColumns) {
  expect_found(subject("Shifted", TILEWISE_CHECK_PLAIN,
                       R"("EPILOGUE":1,"VECTOR_C":8,"SWAP_AB":1,"PACK_A":1,"PACK_B":1)"),
               changed("wgmma-columns"_marker, "SWAP_AB ? 16 : width", "256"), {"instead of"});
}

TEST(PlantedWgmma, APartOfKThatBeginsTooEarly) {
  expect_found(kSplit, changed("wgmma-split-begin"_marker, "share * unsigned(place.split)", "0"),
               {"instead of"});
}

TEST(PlantedWgmma, ABatchWithTheOperandOfItsFirstProduct) {
  expect_found(kBatch,
               changed("wgmma-product"_marker, "args.stride_b == 0 ? 0 : work.product", "0"),
               {"instead of"});
}

TEST(PlantedWgmma, AnOperandOfAllProductsThatIsTakenForABatch) {
  expect_found(kBatch, changed("wgmma-product"_marker, "args.stride_b == 0 ? 0 : work", "work"),
               {"instead of"});
}

TEST(PlantedWgmma, AStoreOfABufferThatIsOverwritten) {
  Subject wide = kStores;
  wide.options = "--types bf16 f32 strict";  // two stores of each work item
  expect_nothing_found(wide);
  expect_found(wide, removed("wgmma-wait-buffer"_marker), {"instead of"});
}

TEST(PlantedWgmma, BuffersThatBeginAnewWithEachWorkItem) {
  expect_found(kStores, changed("wgmma-buffer"_marker, "(stored + more)", "0"), {"instead of"});
}

TEST(PlantedWgmma, AResultInAWrongPlaceOfTheBuffer) {
  expect_found(kStores, changed("wgmma-place-result"_marker, "kStored.swizzle(Of::SPAN)", "0"),
               {"instead of"});
}

TEST(PlantedWgmma, TheLastColumnsInAWrongPlaceOrNotStored) {
  expect_found(kRest,
               changed("wgmma-part-first"_marker, "NTH % kPartsOfInstruction * kPartSpan",
                       "NTH % kPartsOfInstruction * kPartSpan / 2"),
               {"instead of"});
  expect_found(kRest,
               changed("wgmma-parts"_marker, "tilewise::layout::ceil_div(WGMMA_N, kPartSpan)",
                       "WGMMA_N / kPartSpan"),
               {"instead of"});
}

TEST(PlantedWgmma, RowsWhoseLastElementIsLeftOut) {
  expect_found(kRows, removed("wgmma-row-last"_marker), {"instead of"});
}

TEST(PlantedWgmma, RowsThatAreTakenForAligned) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  Subject rows = kRows;
  rows.checker = TILEWISE_CHECK_ASAN;
  expect_found(rows, changed("wgmma-row-shift"_marker, "% WORD", "* 0"), {"misaligned address"});
}

TEST(PlantedWgmma, OldRowsThatAreReadPastTheMatrix) {
  if (std::string(TILEWISE_CHECK_ASAN).empty()) GTEST_SKIP() << "no AddressSanitizer";
  Subject rows = kRows;
  rows.checker = TILEWISE_CHECK_ASAN;
  const Marker old = "wgmma-row-old"_marker;
  expect_found(
      rows,
      changed(old, "row + r < out.rows ? out.columns - first : -first", "out.columns - first"),
      {"heap-buffer-overflow"});
  expect_found(rows, changed(old, ", -first, row", ", 0, row"), {"heap-buffer-overflow"});
}

TEST(PlantedWgmma, OldRowsThatAreBlendedBeforeTheyAreThere) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(with_threads(kRows), removed("wgmma-rows-loaded"_marker), {"data race"});
}

TEST(PlantedWgmma, RowsThatAreStoredBeforeTheyAreLaidDown) {
  expect_found(kRows, removed("wgmma-rows-barrier"_marker), {"instead of"});
}

TEST(PlantedWgmma, ABlockThatLeavesItsStores) {
  expect_found(kStores, removed("wgmma-last-stores"_marker),
               {"ends without waiting for the tile that store_tile"});
}

TEST(PlantedWgmma, ResultsThatAreStoredWithoutAFence) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  Subject threads = kStores;
  threads.checker = TILEWISE_CHECK_TSAN;
  expect_found(threads, removed("wgmma-fence-stores"_marker), {"data race", "async proxy of warp"});
}

TEST(PlantedWgmma, OldElementsThatAreNotWaitedFor) {
  for (const Subject& subject : {kStores, kSwapped})
    expect_found(
        subject, removed("wgmma-wait-old"_marker),
        {"ends without waiting for the tile that load_tile", line_of("wgmma-load-old"_marker)});
  expect_found(kParts, changed("wgmma-wait-old"_marker, "buffers.loaded_parity()", "0"),
               {"deadlock"});
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  for (const Subject& subject : {kStores, kSwapped})
    expect_found(with_threads(subject), removed("wgmma-wait-old"_marker),
                 {"data race", "async proxy of warp"});
}

TEST(PlantedWgmma, OldElementsThatAreLoadedIntoABufferThatIsBeingStored) {
  for (const Subject& subject : {kStores, kSwapped})
    expect_found(subject, removed("wgmma-wait-buffer-first"_marker), {"instead of"});
  expect_found(kParts, removed("wgmma-wait-buffer-old"_marker), {"instead of"});
}

TEST(PlantedWgmma, OldElementsThatAreNotBlended) {
  for (const Subject& subject : {kStores, kSwapped})
    expect_found(subject, removed("wgmma-read-old"_marker), {"instead of"});
}

TEST(PlantedWgmma, OldElementsThatAreOverwrittenBeforeAllLanesHaveReadThem) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  for (const Subject& subject : {kStores, kSwapped, kRows})
    expect_found(with_threads(subject), removed("wgmma-barrier-before-overwriting"_marker),
                 {"data race", "load_matrices", "store_matrices"});
}

TEST(PlantedWgmma, AResultOfSwappedOperandsInAWrongPlace) {
  expect_found(kSwapped,
               changed("wgmma-place-swapped"_marker, "swizzled<kStored.width()>", "swizzled<0>"),
               {"instead of"});
}

TEST(PlantedWgmma, AStoreOfAWarpgroupsBufferThatIsOverwritten) {
  expect_found(kSwapped, removed("wgmma-wait-buffer"_marker), {"instead of"});
}

TEST(PlantedWgmma, AWarpgroupsBuffersThatDoNotTakeTurns) {
  expect_found(kSwapped, changed("wgmma-buffer"_marker, "(stored + more)", "0"), {"instead of"});
}

TEST(PlantedWgmma, AWarpgroupsResultsThatAreStoredWithoutAFence) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(with_threads(kSwapped), removed("wgmma-fence-stores"_marker),
               {"data race", "async proxy of warp"});
}

TEST(PlantedWgmma, AWarpgroupThatStoresBeforeItsWarpsMeet) {
  if (std::string(TILEWISE_CHECK_TSAN).empty()) GTEST_SKIP() << "no ThreadSanitizer";
  expect_found(with_threads(kSwapped), removed("wgmma-meeting"_marker), {"data race"});
}

TEST(PlantedWgmma, SmallPartsThatAreTakenFromTheLargeOnes) {
  expect_found(kSplitParts, changed("wgmma-small-part"_marker, "args.columns()", "0"),
               {"instead of"});
}

// The operand that TMA copies without a pack is still rounded.
TEST(PlantedWgmma, APackThatDoesNotRound) {
  for (const Subject& subject : {kTf32, kTf32Padded})
    expect_found(subject,
                 changed("pack-round"_marker, "tf32_of_float(float_of(word))", "word & ~0x1fffu"),
                 {"instead of"});
}

TEST(PlantedWgmma, PanelsOfTf32ThatAreTakenForSixteenBits) {
  expect_found(kTf32, changed("wgmma-panel-column"_marker, "COPIED", "2"), {"instead of"});
}

TEST(PlantedWgmma, StepsOfBytesThatAreTakenForSixteenBits) {
  const Mistake mistake = changed("wgmma-step-offset"_marker, "tilewise::wgmma::kStepBytes",
                                  "16 * int(sizeof(Element))");
  EXPECT_EQ(check(kPlain.checker, kPlain.candidate, mistake, kPlain.options).status, 0);
  expect_found(kBytes, mistake, {"instead of"});
  expect_found(kTf32, mistake, {"instead of"});
}

TEST(PlantedWgmma, SumsThatAreNotPromoted) {
  expect_found(
      kPromoted,
      changed("wgmma-promote-multiply"_marker, "<false, BLOCKS>(of_tile)", "<true, BLOCKS>(sums)") +
          removed("wgmma-promote"_marker),
      {"instead of"});
}

TEST(PlantedWgmma, SumsThatArePromotedBeforeTheyAreReady) {
  expect_found(kPromoted, changed("wgmma-promote-wait"_marker, "0", "1"),
               {"ends without waiting for the product"});
}

TEST(PlantedWgmma, SumsThatArePromotedWhileTheyAreComputed) {
  expect_found(kOverlapped, changed("wgmma-overlap-wait"_marker, "1", "2"), {"instead of"});
}

TEST(PlantedWgmma, AnInstructionBesideAnotherInItsPlace) {
  expect_found(kWide, changed("wgmma-right-of"_marker, "i % kAcross", "0"), {"instead of"});
}

TEST(PlantedWgmma, APartialSumInAWrongRow) {
  expect_found(kStreamK, changed("wgmma-partial-row"_marker, "half * 8", "half * 0"),
               {"instead of"});
}

TEST(PlantedWgmma, TwoTilesOfARangeInTheSamePlace) {
  expect_found(kStreamK, changed("wgmma-partial"_marker, "+ nth", ""), {"instead of"});
}

TEST(PlantedWgmma, ARangeThatReachesIntoTheNextOne) {
  expect_found(kStreamK,
               changed("wgmma-range-end"_marker, "in_range < depth ? in_range : depth", "depth"),
               {"instead of"});
}

}  // namespace
}  // namespace tilewise::test::planted_wgmma_test
