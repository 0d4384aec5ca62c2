// Pipelines under load on a GPU.
#include "tests/matmul/pipeline_checks.hpp"

namespace tilewise::pipeline_gpu_test {
namespace {

struct PipelineGpu : test::EveryPipeline {
  PipelineGpu() : EveryPipeline("auto") {}
};

TEST_F(PipelineGpu, MmaIsRightUnderPressure) { check_mma(8192, 8192, 64, 100); }
TEST_F(PipelineGpu, WhatIsExchangedLeavesBarriersAlone) { check_epilogue(5124, 704, 2048, 50); }
TEST_F(PipelineGpu, WgmmaIsRightUnderPressure) { check_wgmma(8192, 8192, 128, 100); }
TEST_F(PipelineGpu, WgmmaIsRightAtEdges) { check_wgmma(5124, 1096, 2048, 50); }
TEST_F(PipelineGpu, SimtIsRightUnderPressure) { check_simt(8192, 8192, 64, 100); }

}  // namespace
}  // namespace tilewise::pipeline_gpu_test
