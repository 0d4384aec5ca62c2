// Products of warpgroups and clusters on the CPU executor.
#include <gmock/gmock.h>

#include "device/cpu/cpu.hpp"
#include "tests/device/wgmma_checks.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu_wgmma_test {
namespace {

using cpu::ThreadOrder;
using test::Machine;
using testing::HasSubstr;

class CpuWgmma : public testing::TestWithParam<ThreadOrder> {
 protected:
  std::unique_ptr<Device> device_ = cpu::open_device("host:sm_90a", {GetParam(), 5, 1, 0.2});
  std::unique_ptr<Compiler> compiler_ = cpu::load_compiler({"-O1", ""});
  Machine machine_{*device_, *compiler_};
};
INSTANTIATE_TEST_SUITE_P(Orders, CpuWgmma,
                         testing::Values(ThreadOrder::forward, ThreadOrder::reversed,
                                         ThreadOrder::shuffled));

TEST_P(CpuWgmma, TheBlocksOfAClusterShareTiles) { test::check_clusters(machine_); }

// Each case is compiled, so the thread orders share the cases.
TEST_P(CpuWgmma, EveryLayoutIsMultipliedAsDocumented) {
  const auto cases = test::products_cases();
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < cases.size(); i += 3)
    test::check_products(machine_, cases[i]);
}

TEST_P(CpuWgmma, SumsOfEightBitFloatsAreCoarse) { test::check_sums_of_fp8(machine_); }

/// The error of a cluster of two blocks with this body, whose first line is line 9 of bad.cu.
/// `there` is an mbarrier for one arrival; `args.map` has boxes of 512 bytes.
std::string complaint(const std::string& body, std::vector<float>* to_host = nullptr,
                      unsigned threads = 128) {
  const auto device = cpu::open_device("host:sm_90a", {ThreadOrder::forward, 5, 1, 0.2});
  static const auto compiler = cpu::load_compiler({"-O0", ""});
  const Machine machine{*device, *compiler};
  const auto kernel =
      machine.load("bad",
                   "#include \"words/cluster.cuh\"\n"
                   "#include \"words/wgmma.cuh\"\n"
                   "struct Args { TensorMap map; float* to; };\n"
                   "KERNEL(256, 1) bad(ARGUMENTS Args args) {\n"
                   "char* tile = reinterpret_cast<char*>(shared_floats());\n"
                   "auto there = reinterpret_cast<Mbarrier*>(tile + 4096);\n"
                   "if (threadIdx.x == 0) mbarrier_init(there, 1), mbarriers_ready();\n"
                   "barrier(); float sums[WGMMA_N / 2] = {};\n" +
                       body + "\n}\n",
                   {{"ELEMENT", 3}, {"WGMMA_N", 8}}, 8192);
  const DeviceBuffer out = machine.upload(std::vector<float>(256));
  struct {
    alignas(64) std::uint64_t map[16];
    void* to;
  } arguments{{}, out.data()};
  TensorMapRecipe recipe;
  recipe.dims = {16, 16}, recipe.box = {16, 8};
  device->encode_tensor_map(recipe, out.data(), 64, arguments.map);
  try {
    device->launch(*kernel, {{2, 1, 1}, {threads, 1, 1}, {2, 1, 1}, 8192, false}, &arguments,
                   nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  if (to_host) *to_host = machine.download<float>(out);
  return "";
}

const std::string kMultiply =
    "const auto d = matrix_descriptor(tile, {128, 1024});\n"
    "multiply_async<true, true>(sums, d, d);\nwgmma_commit();\n";

TEST(Wgmma, SumsAreNoNumbersUntilTheyAreWaitedFor) {
  std::vector<float> to;
  EXPECT_EQ(
      complaint(
          "for (int i = threadIdx.x; i < 1024; i += 128)\n"
          "reinterpret_cast<float*>(tile)[i] = 0;\nbarrier(); wgmma_fence();\n" +
              kMultiply +
              "args.to[threadIdx.x] = sums[0] != sums[0];\nwgmma_wait<0>();\n"
              "if (threadIdx.x == 0 && block_of_cluster() == 0) args.to[0] += 2 * (sums[0] == 0);",
          &to),
      "");
  EXPECT_EQ(to[0], 3) << "a NaN first, then the sum";
  EXPECT_EQ(to[127], 1);
}

TEST(Wgmma, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(complaint("wgmma_fence();\n" + kMultiply),
              HasSubstr("ends without waiting for the product at bad.cu:11"));
  EXPECT_THAT(complaint(kMultiply + "wgmma_wait<0>();"),
              HasSubstr("bad.cu:10: a product without wgmma_fence()"));
  EXPECT_THAT(complaint("if (threadIdx.x < 16) wgmma_commit();"),
              HasSubstr("waits for it with wgmma_commit at bad.cu:9"));
}

// 256 threads have 248 registers each.
TEST(Wgmma, RegistersAreThoseOfTheBlock) {
  const auto of_256 = [](const std::string& body) { return complaint(body, nullptr, 256); };
  const std::string lower = "if (threadIdx.x < 128) lower_registers<232>();\n";
  EXPECT_EQ(of_256(lower + "else raise_registers<256>();"), "");
  EXPECT_THAT(
      of_256("if (threadIdx.x < 128) lower_registers<248>();\nelse raise_registers<256>();"),
      HasSubstr("deadlock: threads only wait"));
  EXPECT_THAT(of_256("lower_registers<16>();"), HasSubstr("multiples of 8 from 24 to 256"));
  EXPECT_THAT(of_256("lower_registers<36>();"), HasSubstr("bad.cu:9: setmaxnreg takes multiples"));
  EXPECT_THAT(of_256("raise_registers<264>();"), HasSubstr("multiples of 8 from 24 to 256"));
  EXPECT_THAT(of_256("raise_registers<40>();"), HasSubstr("to fewer than there are"));
  EXPECT_THAT(of_256("lower_registers<256>();"), HasSubstr("to more than there are"));
  EXPECT_THAT(of_256("if (threadIdx.x < 32) lower_registers<40>();"),
              HasSubstr("not all warps of a warpgroup execute the setmaxnreg at bad.cu:9"));
  EXPECT_THAT(of_256("if (threadIdx.x < 32) lower_registers<40>();\nelse lower_registers<40>();"),
              HasSubstr("mismatched setmaxnreg"));
  EXPECT_THAT(of_256("if (threadIdx.x % 2) lower_registers<40>();"),
              HasSubstr("mismatched warp operation"));
}

TEST(Clusters, ATileForABlockThatHasLeft) {
  const std::string load = "if (threadIdx.x == 0) load_tile_to(3, tile, args.map, 0, 0, there);\n";
  const std::string expect = "if (threadIdx.x == 0) mbarrier_expect_tx(there, 512);\n";
  EXPECT_THAT(complaint("cluster_barrier();\nif (block_of_cluster() == 1) return;\n"
                        "__nanosleep(1);\n" +
                        load),
              HasSubstr("bad.cu:12: reaches into a block of the cluster that has ended"));
  // The other block ends while its tile is in flight.
  EXPECT_THAT(complaint("cluster_barrier();\nif (block_of_cluster() == 0) {\n" + expect + load +
                        "mbarrier_wait(there, 0);\n}"),
              HasSubstr("ends without waiting for the tile that load_tile copies at bad.cu:12"));
  EXPECT_EQ(complaint("cluster_barrier();\n" + expect + "if (block_of_cluster() == 0)\n" + load +
                      "mbarrier_wait(there, 0);"),
            "");
}

TEST(Clusters, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(
      complaint("if (threadIdx.x == 0) mbarrier_arrive_in(there, 1);\ncluster_barrier();"),
      HasSubstr("bad.cu:9: reaches into a block of the cluster before a cluster_barrier()"));
  EXPECT_THAT(complaint("cluster_barrier();\nmbarrier_arrive_in(there, 2);"),
              HasSubstr("bad.cu:10: the cluster has no such block"));
  EXPECT_THAT(complaint("cluster_barrier();\nif (block_of_cluster() == 1) return;\n"
                        "__nanosleep(1); if (threadIdx.x == 0) mbarrier_arrive_in(there, 1);"),
              HasSubstr("bad.cu:11: reaches into a block of the cluster that has ended"));
  EXPECT_THAT(complaint("cluster_barrier();\nif (threadIdx.x == 0) mbarrier_arrive_in(there, 1 - "
                        "block_of_cluster());\ncluster_barrier();"),
              HasSubstr("ends while the arrival at bad.cu:10 is on its way to it"));
  EXPECT_EQ(complaint("cluster_barrier();\nif (threadIdx.x == 0) mbarrier_arrive_in(there, 1 - "
                      "block_of_cluster());\nmbarrier_wait(there, 0);"),
            "");
  EXPECT_THAT(
      complaint("if (block_of_cluster() == 0) cluster_barrier();"),
      HasSubstr("thread (0,0,0) of block 0 of the cluster waits at the barrier at bad.cu:9"));
  EXPECT_THAT(complaint("if (block_of_cluster() == 0) cluster_barrier();\nelse cluster_barrier();"),
              HasSubstr("not all threads of the cluster reach"));
}

}  // namespace
}  // namespace tilewise::cpu_wgmma_test
