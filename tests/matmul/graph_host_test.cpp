// Captured products by wgmma on the CPU executor.
#include "tests/matmul/graph_checks.hpp"

namespace tilewise::graph_host_test {
namespace {

struct GraphsOnTheCpu : test::Graphs {
  GraphsOnTheCpu() : Graphs("host:sm_90a") {}
};

TEST_F(GraphsOnTheCpu, WithAWorkspace) { check_captured(Layout::nt, 0); }
TEST_F(GraphsOnTheCpu, WithPacks) { check_captured(Layout::nn, 1); }

}  // namespace
}  // namespace tilewise::graph_host_test
