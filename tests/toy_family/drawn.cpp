// Includes the toy family in the generic tests of plans.
#include "tests/templates/random_plans.hpp"

namespace tilewise {
namespace {

TEST(ToyFamily, IsAmongTheRandomPlans) {
  EXPECT_EQ(find_template("toy").name, "toy");
  const auto drawn = std::count_if(samples().begin(), samples().end(), [](const Sample& s) {
    return s.candidate.kernel_template == "toy";
  });
  EXPECT_GT(drawn, 10);
}

}  // namespace
}  // namespace tilewise
