// Captured products on a GPU.
#include "tests/matmul/graph_checks.hpp"

namespace tilewise::graph_gpu_test {
namespace {

struct GraphsGpu : test::Graphs {
  GraphsGpu() : Graphs("auto") {}
};

TEST_F(GraphsGpu, WithAWorkspace) { check_captured(Layout::nt, 0, {200, 136, 520}, 20); }
TEST_F(GraphsGpu, WithPacks) { check_captured(Layout::nn, 1, {200, 136, 520}, 20); }
TEST_F(GraphsGpu, CountEmulatedProducts) { check_counted(); }

}  // namespace
}  // namespace tilewise::graph_gpu_test
