// Grouped products on the GPU.
#include "tests/matmul/grouped_checks.hpp"

namespace tilewise::grouped_gpu_test {
namespace {

struct GroupedGpu : test::GroupedTest {
  GroupedGpu() : GroupedTest("auto") {}
};
TEST_F(GroupedGpu, EveryKind) { check_every_kind(300, 96, 72, 13); }
TEST_F(GroupedGpu, ManyProducts) {
  Matmul matmul(options);
  const ProductKind& bf16 = *find_product_kind(DType::bf16, DType::bf16, MathMode::strict);
  for (const std::int64_t groups : {1, 32, 33, 200, 512})
    for (const Grouping grouping : {Grouping::rows, Grouping::counts})
      check(matmul, problem_of(bf16, Layout::nt, grouping, 257, 72, 64, groups), 0);
}
TEST_F(GroupedGpu, RandomWinners) {
  const int count = std::getenv("TILEWISE_FULL") ? 80 : 12;
  for (const auto& [name, type] :
       {std::pair{"wgmma", DType::bf16}, {"mma", DType::f16}, {"simt", DType::f32}})
    if (find_template(name).supports(problem_of(*find_product_kind(type, type, MathMode::strict),
                                                Layout::nt, Grouping::rows, 64, 64, 64, 2),
                                     device->info()))
      check_random_winners(name, type, count, 40);
}
TEST_F(GroupedGpu, DifferentDepths) {
  Matmul matmul(options);
  for (const DType type : {DType::bf16, DType::f32})
    for (const std::int64_t groups : {1, 7, 100})
      check(matmul,
            problem_of(*find_product_kind(type, type, MathMode::strict), Layout::tn,
                       Grouping::depth, 136, 72, 900, groups),
            0);
}
TEST_F(GroupedGpu, BadNumbersWriteNothingOutside) {
  for (const DType type : {DType::bf16, DType::f32})
    check_bad_numbers(*find_product_kind(type, type, MathMode::strict));
}
TEST_F(GroupedGpu, InvariantRowsHaveTheBitsOfAPlainProduct) {
  for (const Grouping grouping : {Grouping::rows, Grouping::counts})
    for (const DType type : {DType::bf16, DType::f16, DType::f32})
      check_invariant_rows(type, grouping, 500, 256, 520);
}

}  // namespace
}  // namespace tilewise::grouped_gpu_test
