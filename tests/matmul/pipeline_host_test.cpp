// The pipelines on the CPU executor, once, with small sizes. Its loads complete at once, so this
// checks the configurations but not a GPU's order of loads (pipeline_gpu_test.cpp).
#include "tests/matmul/pipeline_checks.hpp"

namespace tilewise::pipeline_host_test {
namespace {

struct PipelineOnTheCpu : test::EveryPipeline {
  PipelineOnTheCpu() : EveryPipeline("host:sm_90a") {}
};

TEST_F(PipelineOnTheCpu, MmaIsRight) { check_mma(64, 128, 64, 1); }
TEST_F(PipelineOnTheCpu, WhatIsExchangedLeavesBarriersAlone) { check_epilogue(132, 136, 64, 1); }
TEST_F(PipelineOnTheCpu, WgmmaIsRight) { check_wgmma(264, 136, 128, 2); }
TEST_F(PipelineOnTheCpu, SimtIsRight) { check_simt(64, 64, 64, 1); }

}  // namespace
}  // namespace tilewise::pipeline_host_test
