// Captured products on the CPU executor.
#include "tests/matmul/graph_checks.hpp"

namespace tilewise::graph_host_test {
namespace {

struct GraphsOnTheCpu : test::Graphs {
  GraphsOnTheCpu() : Graphs("host:sm_90a") {}
};

constexpr Size kSize{136, 72, 200};
constexpr int kRounds = 3;

TEST_F(GraphsOnTheCpu, WithAWorkspace) { check_captured(Layout::nt, 0, kSize, kRounds); }
TEST_F(GraphsOnTheCpu, WithPacks) { check_captured(Layout::nn, 1, kSize, kRounds); }
TEST_F(GraphsOnTheCpu, CountEmulatedProducts) { check_counted(); }

}  // namespace
}  // namespace tilewise::graph_host_test
