// prepare_range(): every m of a range is loaded and chosen in advance.
#include <set>

#include "matmul_fixture.hpp"

namespace tilewise::prepare_range_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PrepareRange : public MatmulTest {
 protected:
  PrepareRange() {
    device->on_load = [this](const Image&) { ++loads; };
    Database database = Database::in_memory();
    for (const std::int64_t m : {16, 64})
      store(database, problem_of(m, 48, 32), m == 16 ? "tiled" : "simt");
    parts.database = std::move(database);
  }
  int loads = 0;
};

TEST_F(PrepareRange, LaterProductsCompileAndLoadNothing) {
  for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt}) {
    SCOPED_TRACE(to_string(layout));
    MatmulParts own;
    auto made = std::make_unique<FakeDevice>();
    made->on_launch = fake_product;
    int own_loads = 0;
    made->on_load = [&](const Image&) { ++own_loads; };
    own.device = std::move(made);
    own.warn = [](const std::string&) {};
    own.load_compiler = [this] { return std::make_unique<FakeCompiler>(&compiles); };
    Matmul multiply = make_matmul(std::move(own));
    multiply.prepare_range(problem_of(1, 48, 32, layout), 80);
    const int compiled = compiles, loaded = own_loads;
    EXPECT_GT(loaded, 0);
    for (std::int64_t m = 1; m <= 80; ++m) {
      const Problem problem = problem_of(m, 48, 32, layout);
      Operands operands(problem);
      multiply(problem, operands.call);
    }
    EXPECT_EQ(compiles, compiled);
    EXPECT_EQ(own_loads, loaded);
  }
}

TEST_F(PrepareRange, TheChoicesAreThoseOfSingleProducts) {
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare_range(problem_of(1, 48, 32), 100);
  const int loaded = loads;
  std::set<std::string> kernels;
  for (std::int64_t m = 1; m <= 100; ++m) {
    const Problem problem = problem_of(m, 48, 32);
    kernels.insert(multiply.explain(problem).kernel_template);
    Operands operands(problem);
    multiply(problem, operands.call);
    // A of ones times B of twos.
    EXPECT_EQ(operands.c.front(), 64.0F);
    EXPECT_EQ(operands.c.back(), 64.0F);
  }
  EXPECT_EQ(loads, loaded);
  EXPECT_FALSE(kernels.empty());
  multiply.prepare_range(problem_of(50, 48, 32), 100);  // again: nothing to do
  EXPECT_EQ(loads, loaded);
}

TEST_F(PrepareRange, ARangeThatEndsBeforeItBeginsIsRefused) {
  Matmul multiply = make_matmul(std::move(parts));
  try {
    multiply.prepare_range(problem_of(8, 48, 32), 7);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("7"), HasSubstr("8")));
  }
  for (const std::int64_t last : {std::int64_t{1} << 40, INT64_MAX, std::int64_t{8 + 65536}})
    EXPECT_THROW(multiply.prepare_range(problem_of(8, 48, 32), last), Error);
  multiply.prepare_range(problem_of(0, 48, 32), 0);  // an empty product needs nothing
  EXPECT_EQ(loads, 0);
}

}  // namespace
}  // namespace tilewise::prepare_range_test
