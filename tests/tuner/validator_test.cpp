// The validator on products of every type and on batches: the right one passes, faults are caught.
#include "tuner/validator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/tuner/fake_device.hpp"
#include "tests/tuner/typed_product.hpp"

namespace tilewise {
namespace {

using testing::HasSubstr;
using typed::make_problem;
using typed::name_of;

/// A kernel in host memory; scalars on the device are read there.
void multiply_here(const Problem& problem, Call call) {
  if (call.alpha_device) call.alpha = to_double(problem.accumulator, call.alpha_device);
  if (call.beta_device) call.beta = to_double(problem.accumulator, call.beta_device);
  reference_multiply(problem, call, 1);
}

struct Bench {
  Problem problem;
  fake::Device device;
  std::shared_ptr<const Reference> reference;
  Validator validator;

  Bench(const Problem& of, bool resident)
      : problem(of),
        reference(std::make_shared<const Reference>(Reference::compute(of))),
        validator(device, nullptr, reference, resident) {}
  Verdict validate(const Enqueue& enqueue) { return validator.validate(enqueue); }
  std::byte* c(const Call& call, std::int64_t element) const {
    return static_cast<std::byte*>(call.c) + element * bytes_of(problem.c);
  }
};

Problem aligned(Problem problem) {
  problem.alignment = {bytes_of(problem.a), bytes_of(problem.b), bytes_of(problem.c)};
  return problem;
}

TEST(TypedValidator, RightProductsOfEveryTypePassResidentOrNot) {
  for (const ProductKind& kind : product_kinds()) {
    for (const bool resident : {true, false}) {
      Bench bench(aligned(make_problem(kind, 19, 23, 31, 3, Layout::nt)), resident);
      int runs = 0;
      const Verdict verdict = bench.validate([&](const Call& call) {
        ++runs;
        multiply_here(bench.problem, call);
      });
      EXPECT_EQ(verdict.outcome, Outcome::ok) << name_of(kind) << ": " << verdict.detail;
      EXPECT_LE(verdict.error_ratio, 1);
      EXPECT_EQ(runs, kind.math == MathMode::f32x3 ? 6 : 4);
    }
  }
}

TEST(TypedValidator, DeviceScalarsAreOfTheAccumulatorsType) {
  for (const ProductKind& kind : product_kinds()) {
    Bench bench(aligned(make_problem(kind, 19, 23, 31)), true);
    const Verdict verdict = bench.validate([&](Call call) {
      call.alpha_device = call.beta_device = nullptr;
      multiply_here(bench.problem, call);
    });
    EXPECT_EQ(verdict.outcome, Outcome::wrong_result);
    EXPECT_THAT(verdict.detail, HasSubstr("read on the device"));
  }
}

// A byte written anywhere around C: behind a row, between two matrices, before and behind all.
TEST(TypedValidator, AWriteOutsideCIsSeen) {
  for (const ProductKind& kind : product_kinds()) {
    Bench bench(aligned(make_problem(kind, 4, 5, 6, 3)), true);
    const std::int64_t size = bytes_of(kind.c);
    const auto expect_seen = [&](const char* where, auto offset_of) {
      const Verdict verdict = bench.validate([&](const Call& call) {
        multiply_here(bench.problem, call);
        std::byte zero[8] = {};
        std::memcpy(bench.c(call, offset_of(call)), zero, static_cast<std::size_t>(size));
      });
      EXPECT_EQ(verdict.outcome, Outcome::wrong_result) << name_of(kind) << " " << where;
      EXPECT_THAT(verdict.detail, HasSubstr("wrote outside C")) << name_of(kind) << " " << where;
    };
    expect_seen("behind a row", [](const Call&) { return 5; });
    expect_seen("between matrices", [](const Call& call) { return call.stride_c - 1; });
    expect_seen("before all", [](const Call&) { return -1; });
    expect_seen("behind all", [](const Call& call) { return 2 * call.stride_c + 4 * call.ldc; });
  }
}

TEST(TypedValidator, AnInputThatChangesIsSeenInEveryMatrix) {
  for (const ProductKind& kind : product_kinds()) {
    Bench bench(aligned(make_problem(kind, 4, 5, 6, 3)), true);
    for (const bool is_a : {true, false}) {
      const Verdict verdict = bench.validate([&](const Call& call) {
        multiply_here(bench.problem, call);
        if (call.beta == 0) return;  // the last run of a data set: the next would be wrong
        const void* operand = is_a ? call.a : call.b;
        const std::int64_t stride = is_a ? call.stride_a : call.stride_b;
        auto* bytes = static_cast<std::byte*>(const_cast<void*>(operand));
        bytes[2 * stride * bytes_of(kind.operand)] ^= std::byte{1};
      });
      EXPECT_EQ(verdict.outcome, Outcome::wrong_result) << name_of(kind);
      EXPECT_THAT(verdict.detail, HasSubstr(is_a ? "changed its input A" : "changed its input B"));
    }
  }
}

TEST(TypedValidator, AMatrixOfTheBatchThatIsWrongOrNotWrittenIsNamed) {
  for (const ProductKind& kind : product_kinds()) {
    Bench bench(aligned(make_problem(kind, 4, 5, 6, 3)), false);
    const Verdict verdict = bench.validate([&](const Call& call) {
      Problem two = bench.problem;
      two.batch = 2;
      multiply_here(two, call);
    });
    EXPECT_EQ(verdict.outcome, Outcome::wrong_result);
    EXPECT_THAT(verdict.detail, HasSubstr("C[0][0] of matrix 2")) << name_of(kind);
  }
}

TEST(TypedValidator, ReadingAroundAnOperandSpoilsTheResult) {
  for (const ProductKind& kind : product_kinds()) {
    Bench bench(aligned(make_problem(kind, 16, 16, 16)), true);
    const Verdict verdict = bench.validate([&](const Call& call) {
      Problem longer = bench.problem;
      ++longer.k;  // what lies behind a row of A, and below B
      multiply_here(longer, call);
    });
    EXPECT_EQ(verdict.outcome, Outcome::wrong_result) << name_of(kind);
  }
}

TEST(TypedValidator, TheSameBitsEachTimeOfEveryTypeResidentOrNot) {
  for (const ProductKind& kind : product_kinds()) {
    for (const bool resident : {true, false}) {
      Bench bench(aligned(make_problem(kind, 19, 23, 31, 3, Layout::nt)), resident);
      int launches = 0;
      const Verdict verdict = bench.validator.repeat([&](const Call& call) {
        if (++launches <= 2) multiply_here(bench.problem, call);  // then C is as it was
      });
      EXPECT_EQ(verdict.outcome, Outcome::ok) << name_of(kind) << ": " << verdict.detail;
      EXPECT_GE(launches, 4);
      EXPECT_LE(launches, 400);
    }
  }
}

// One bit of one element, in one launch of many, wherever it is.
TEST(TypedValidator, ABitThatIsAnotherNowAndThenIsSeen) {
  for (const ProductKind& kind : product_kinds()) {
    for (const int matrix : {0, 2}) {
      Bench bench(aligned(make_problem(kind, 19, 23, 31, 3, Layout::nt)), true);
      int launches = 0;
      const Verdict verdict = bench.validator.repeat([&](const Call& call) {
        if (++launches == 1) multiply_here(bench.problem, call);
        if (launches == 6) *bench.c(call, matrix * call.stride_c + 18 * call.ldc) ^= std::byte{1};
      });
      EXPECT_EQ(verdict.outcome, Outcome::wrong_result) << name_of(kind);
      EXPECT_THAT(verdict.detail, HasSubstr("after 6 launches something has changed in C"));
      EXPECT_EQ(launches, 6);
    }
  }
}

TEST(TypedValidator, StrictF32sErrorIsSeenBesideThatOfOtherModes) {
  for (const ProductKind& kind : product_kinds()) {
    if (kind.operand != DType::f32) continue;
    Bench bench(aligned(make_problem(kind, 19, 23, 31)), true);
    const Verdict verdict =
        bench.validate([&](const Call& call) { multiply_here(bench.problem, call); });
    EXPECT_EQ(verdict.detail.empty(), kind.math == MathMode::strict) << verdict.detail;
  }
}

}  // namespace
}  // namespace tilewise
