// Batches by pointers, and batches that are one product, on a GPU.
#include "tests/matmul/pointer_checks.hpp"

namespace tilewise::batches_gpu_test {
namespace {

struct BatchesOnTheGpu : test::BatchesServed {
  BatchesOnTheGpu() : BatchesServed("0") {}
};
TEST_F(BatchesOnTheGpu, EveryKindByPointers) { check_every_kind_by_pointers(130); }
TEST_F(BatchesOnTheGpu, EveryTemplateByPointers) { check_templates_by_pointers(4); }
TEST_F(BatchesOnTheGpu, EveryPlaceWhereABatchIsOneProduct) { check_folded_placements(); }
TEST_F(BatchesOnTheGpu, WithoutASumNoArrayOfOperandsIsRead) { check_without_a_sum(); }
TEST_F(BatchesOnTheGpu, EveryKindFolded) {
  int kinds = 0;
  for (const ProductKind& kind : product_kinds()) check_folded(kind, test::kLayouts[kinds++ % 4]);
}

}  // namespace
}  // namespace tilewise::batches_gpu_test
