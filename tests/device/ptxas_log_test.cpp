#include "device/cuda/ptxas_log.hpp"

#include <gtest/gtest.h>

namespace tilewise::ptxas_log_test {
namespace {

// Adds lines before and after, as in a whole log.
std::string in_a_log(const std::string& line) {
  return "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'wgmma' for "
         "'sm_90a'\n" +
         line + "\nptxas info    : Used 168 registers, used 9 barriers\n";
}

// Each message makes a kernel of wgmma slow without failing to compile.
TEST(PtxasLog, NamesWhatSerialisesWgmma) {
  for (const std::string line :
       {"ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to insufficient register resources for the wgmma pipeline in the function "
        "'wgmma'",
        "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to non wgmma instructions defining accumulator registers of a wgmma "
        "between "
        "start and end of the pipeline stage in the function 'wgmma'",
        "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain "
        "minimum register requirements.",
        "ptxas info    : setmaxnreg ignored; unable to determine register count at entry",
        "ptxas info    : (C7512) Potential Performance Loss: warpgroup.wait is injected in around "
        "line 812 by compiler to allow use of registers in function 'wgmma'"})
    EXPECT_EQ(cuda::serialisation_in_log(in_a_log(line)), line);
  EXPECT_EQ(cuda::serialisation_in_log(in_a_log("")), "");
  EXPECT_EQ(cuda::serialisation_in_log(
                in_a_log("ptxas info    : (C7511) Potential Performance Loss: of another kind")),
            "");
}

TEST(PtxasLog, HasEachKernelsResources) {
  const std::string log =
      in_a_log("    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads");
  const ResourceUsage usage = cuda::usage_in_log(log, "wgmma");
  EXPECT_EQ(usage.registers, 168);
  EXPECT_EQ(usage.stack_bytes, 16);
  EXPECT_EQ(usage.spill_bytes, 20);
  EXPECT_EQ(cuda::usage_in_log(log, "pack").registers, 0);
}

}  // namespace
}  // namespace tilewise::ptxas_log_test
