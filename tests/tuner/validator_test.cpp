// The validator on products of every type and on batches: right products pass, faults are found.
#include "tuner/evaluate/validator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/tuner/fake_kernels.hpp"
#include "tests/tuner/typed_product.hpp"

namespace tilewise::validator_test {
namespace {

using testing::HasSubstr;
using typed::make_problem;
using typed::name_of;

/// A kernel in host memory, which reads device scalars there.
void multiply_here(const Problem& problem, Call call) {
  if (call.alpha_device) call.alpha = to_double(problem.accumulator, call.alpha_device);
  if (call.beta_device) call.beta = to_double(problem.accumulator, call.beta_device);
  reference_multiply(problem, call, 1);
}

constexpr std::int64_t kPlenty = std::int64_t{1} << 28;

struct Bench {
  Problem problem;
  fake::Device device;
  std::shared_ptr<const Reference> reference;
  Validator validator;

  Bench(const Problem& of, bool resident, std::int64_t spare_bytes = 0)
      : problem(of),
        reference(std::make_shared<const Reference>(Reference::compute(of))),
        validator(device, nullptr, reference, resident, spare_bytes) {}
  Verdict validate(const Enqueue& enqueue) { return validator.validate(enqueue); }
  std::byte* c(const Call& call, std::int64_t element) const {
    return static_cast<std::byte*>(call.c) + element * bytes_of(problem.c.type);
  }
};

Problem aligned(Problem problem) {
  set_alignment(problem,
                {bytes_of(problem.a.type), bytes_of(problem.b.type), bytes_of(problem.c.type)});
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
      EXPECT_EQ(runs, data_sets(bench.problem).size() == 3 ? 6 : 4);
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

// A byte is written anywhere around C: after a row, between two matrices, before and after all.
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
        if (call.beta == 0) return;  // the last run of a data set
        const void* operand = is_a ? call.a : call.b;
        const std::int64_t stride = is_a ? call.stride_a : call.stride_b;
        auto* bytes = static_cast<std::byte*>(const_cast<void*>(operand));
        bytes[2 * stride * bytes_of(kind.a)] ^= std::byte{1};
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
      ++longer.k;  // reads past a row of A, and past B
      multiply_here(longer, call);
    });
    EXPECT_EQ(verdict.outcome, Outcome::wrong_result) << name_of(kind);
  }
}

/// Launches repeated by a fake graph.
template <class Launch>
Enqueue recorded(Bench& bench, Launch launch) {
  return [&bench, launch](const Call& call) {
    bench.device.perform([launch, call] { launch(call); });
  };
}

TEST(TypedValidator, EveryLaunchOfAnObservationIsCompared) {
  for (const ProductKind& kind : product_kinds()) {
    for (const bool resident : {true, false}) {
      for (const bool on_device : {true, false}) {
        Bench bench(aligned(make_problem(kind, 19, 23, 31, 3, Layout::nt)), resident, kPlenty);
        bench.device.can_compare = on_device;
        std::int64_t launched = 0, launches = 0;
        const Verdict verdict =
            bench.validator.observe(recorded(bench,
                                             [&](const Call& call) {
                                               ++launched;
                                               multiply_here(bench.problem, call);
                                             }),
                                    1e-3, launches);
        EXPECT_EQ(verdict.outcome, Outcome::ok) << name_of(kind) << ": " << verdict.detail;
        EXPECT_EQ(launches, launched);
        EXPECT_GE(launches, 4);
        EXPECT_GE(bench.device.checksums, on_device ? launches - 2 : 0);
      }
    }
  }
}

// One bit of one element is wrong in one of many launches, anywhere, including launches of a graph.
TEST(TypedValidator, ABitThatIsAnotherNowAndThenIsSeen) {
  for (const ProductKind& kind : product_kinds()) {
    for (const bool on_device : {true, false}) {
      for (const std::int64_t wrong : {5, 6, 40}) {
        Bench bench(aligned(make_problem(kind, 19, 23, 31, 3, Layout::nt)), wrong != 5, 0);
        bench.device.can_compare = on_device;
        std::int64_t launched = 0, launches = 0;
        const Verdict verdict = bench.validator.observe(
            recorded(bench,
                     [&](const Call& call) {
                       multiply_here(bench.problem, call);
                       if (++launched == wrong)
                         *bench.c(call, 2 * call.stride_c + 18 * call.ldc) ^= std::byte{1};
                     }),
            1e6, launches);
        EXPECT_EQ(verdict.outcome, Outcome::wrong_result) << name_of(kind);
        EXPECT_THAT(verdict.detail, HasSubstr("launch " + std::to_string(wrong - 2)));
        EXPECT_EQ(launches, launched);
      }
    }
  }
}

// If all launches had the same operands, C of the previous launch would pass.
TEST(TypedValidator, ALaunchThatWritesNothingNowAndThenIsSeen) {
  for (const bool resident : {true, false}) {
    Bench bench(aligned(make_problem(product_kinds().front(), 19, 23, 31)), resident, kPlenty);
    std::int64_t launched = 0, launches = 0;
    const Verdict verdict = bench.validator.observe(recorded(bench,
                                                             [&](const Call& call) {
                                                               if (++launched != 9)
                                                                 multiply_here(bench.problem, call);
                                                             }),
                                                    1e6, launches);
    EXPECT_EQ(verdict.outcome, Outcome::wrong_result);
    EXPECT_THAT(verdict.detail, HasSubstr("launch 7"));
  }
}

TEST(TypedValidator, AnObservationBeginsWithARightResult) {
  Bench bench(aligned(make_problem(product_kinds().front(), 19, 23, 31)), true, kPlenty);
  std::int64_t launches = 0;
  const Verdict verdict = bench.validator.observe(recorded(bench,
                                                           [&](const Call& call) {
                                                             multiply_here(bench.problem, call);
                                                             *bench.c(call, 0) ^= std::byte{0x40};
                                                           }),
                                                  1e6, launches);
  EXPECT_EQ(verdict.outcome, Outcome::wrong_result);
  EXPECT_THAT(verdict.detail, HasSubstr("C[0][0]"));
}

/// What is downloaded where the device recognises all: the checksums of A and B of each data set.
std::int64_t checksum_bytes(const Problem& problem) { return 16 * std::ssize(data_sets(problem)); }

TEST(TypedValidator, WhatWasRightBeforeIsRecognisedOnTheDevice) {
  for (const ProductKind& kind : product_kinds()) {
    Bench bench(aligned(make_problem(kind, 19, 23, 31, 3, Layout::nt)), true, kPlenty);
    const auto right = [&](const Call& call) { multiply_here(bench.problem, call); };
    bench.device.downloaded_bytes = 0;
    const Verdict first = bench.validate(right);
    EXPECT_GT(bench.device.downloaded_bytes, checksum_bytes(bench.problem));
    bench.device.downloaded_bytes = 0;
    const Verdict second = bench.validate(right);
    EXPECT_EQ(bench.device.downloaded_bytes, checksum_bytes(bench.problem)) << name_of(kind);
    EXPECT_EQ(second.outcome, Outcome::ok) << name_of(kind);
    EXPECT_EQ(second.detail, first.detail);
    EXPECT_EQ(second.error_ratio, first.error_ratio);
    EXPECT_EQ(second.normwise_error, first.normwise_error);
    // A wrong kernel may have written anywhere, so everything is uploaded again.
    EXPECT_EQ(bench.validate([](const Call&) {}).outcome, Outcome::wrong_result);
    bench.device.downloaded_bytes = 0;
    EXPECT_EQ(bench.validate(right).outcome, Outcome::ok);
    EXPECT_GT(bench.device.downloaded_bytes, 0) << name_of(kind);
  }
}

/// f32 sums that start at another l; their bits differ from sums from 0, except with exact data.
void multiply_from(const Problem& p, Call call, std::int64_t begin) {
  const float alpha = call.alpha_device ? *static_cast<const float*>(call.alpha_device)
                                        : static_cast<float>(call.alpha);
  const float beta = call.beta_device ? *static_cast<const float*>(call.beta_device)
                                      : static_cast<float>(call.beta);
  const auto* a = static_cast<const float*>(call.a);
  const auto* b = static_cast<const float*>(call.b);
  auto* c = static_cast<float*>(call.c);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      float sum = 0;
      for (std::int64_t step = 0; step < p.k; ++step) {
        const std::int64_t l = (begin + step) % p.k;
        sum += a[i * call.lda + l] * b[l * call.ldb + j];
      }
      float& value = c[i * call.ldc + j];
      value = alpha * sum + (beta == 0 ? 0 : beta * value);
    }
  }
}

TEST(TypedValidator, SomeOrdersOfSummationAreRecognisedAndAnyNumberIsRight) {
  Bench bench(aligned(make_problem(product_kinds().front(), 19, 23, 310)), true, kPlenty);
  ASSERT_EQ(bench.problem.a.type, DType::f32);
  ASSERT_EQ(bench.problem.math, MathMode::strict);
  const auto expect_right = [&](std::int64_t begin) {
    bench.device.downloaded_bytes = 0;
    const Verdict verdict =
        bench.validate([&](const Call& call) { multiply_from(bench.problem, call, begin); });
    EXPECT_EQ(verdict.outcome, Outcome::ok) << begin << ": " << verdict.detail;
  };
  for (const std::int64_t begin : {0, 100, 200}) {
    expect_right(begin);
    EXPECT_GT(bench.device.downloaded_bytes, checksum_bytes(bench.problem)) << begin;
  }
  for (const std::int64_t begin : {100, 0, 200, 0}) {
    expect_right(begin);
    EXPECT_EQ(bench.device.downloaded_bytes, checksum_bytes(bench.problem)) << begin;
  }
  // The least recently used result is replaced.
  for (const std::int64_t begin : {50, 150, 0}) expect_right(begin);
  EXPECT_EQ(bench.device.downloaded_bytes, checksum_bytes(bench.problem))
      << "0 has been seen since";
  const std::int64_t blocks = bench.device.live_blocks();
  for (int turn = 0; turn < 3; ++turn) {
    for (std::int64_t begin = 0; begin < 300; begin += 30) expect_right(begin);
  }
  EXPECT_EQ(bench.device.live_blocks(), blocks) << "a few of each run are kept";
}

// With any amount of memory, and with and without comparison on the device.
TEST(TypedValidator, AfterARightOneEachFaultIsStillSeen) {
  const auto poke = [](void* at) { *static_cast<std::byte*>(at) ^= std::byte{0x40}; };
  for (const ProductKind& kind : product_kinds()) {
    for (const std::int64_t spare_bytes :
         {std::int64_t{0}, std::int64_t{20'000}, std::int64_t{60'000}, kPlenty}) {
      Bench bench(aligned(make_problem(kind, 9, 11, 13, 2)), true, spare_bytes);
      bench.device.can_compare = spare_bytes != 60'000;
      using Fault = std::function<void(const Call&, int run)>;
      const Fault faults[] = {
          [&](const Call& call, int run) {
            if (run == 2) poke(static_cast<std::byte*>(call.c) + bytes_of(kind.c) - 1);
          },
          [&](const Call& call, int run) {
            if (run == 3) poke(bench.c(call, -1));
          },
          [&](const Call& call, int run) {
            if (run == 1) poke(const_cast<void*>(call.a));
          },
          [&](const Call& call, int run) {
            if (run == 3) poke(const_cast<void*>(call.b));
          },
      };
      for (const Fault& fault : faults) {
        for (const bool wrong : {false, true}) {
          int run = 0;
          const Verdict verdict = bench.validate([&](const Call& call) {
            multiply_here(bench.problem, call);
            if (wrong) fault(call, run);
            ++run;
          });
          EXPECT_EQ(verdict.outcome, wrong ? Outcome::wrong_result : Outcome::ok)
              << name_of(kind) << ", fault " << &fault - faults << ", " << spare_bytes << ": "
              << verdict.detail;
        }
      }
      bench.validate([&](const Call& call) { multiply_here(bench.problem, call); });
      const Verdict idle = bench.validate([](const Call&) {});
      EXPECT_EQ(idle.outcome, Outcome::wrong_result) << "what lay in C before is right no more";
    }
  }
}

// The stored result is the copy that was judged, not the later contents of C, which the next run
// may overwrite.
TEST(TypedValidator, WhatChangesAsItIsKeptIsNotTakenForRight) {
  for (const ProductKind& kind : product_kinds()) {
    Bench bench(aligned(make_problem(kind, 9, 11, 13)), true, kPlenty);
    const auto right = [&](const Call& call) { multiply_here(bench.problem, call); };
    std::byte* last_c = nullptr;
    const auto noting = [&](const Call& call) {
      right(call);
      last_c = static_cast<std::byte*>(call.c);
    };
    int copies = 0;
    const auto stray = [&](void* from) {  // writes into C while it is copied
      auto* begin = static_cast<std::byte*>(from);
      if (!last_c || last_c < begin || last_c >= begin + 65'536) return;
      if (++copies == 1) last_c[bytes_of(kind.c) - 1] ^= std::byte{0x40};
    };
    bench.device.before_copy_on_device = stray;
    const Verdict strayed = bench.validate(noting);
    EXPECT_GT(copies, 0);
    bench.device.before_copy_on_device = nullptr;
    EXPECT_EQ(strayed.outcome, Outcome::wrong_result) << name_of(kind) << ": judged as kept";
    EXPECT_EQ(bench.validate(right).outcome, Outcome::ok);
    const Verdict wrong = bench.validate([&](const Call& call) {
      right(call);
      static_cast<std::byte*>(call.c)[bytes_of(kind.c) - 1] ^= std::byte{0x40};
    });
    EXPECT_EQ(wrong.outcome, Outcome::wrong_result) << name_of(kind);
  }
}

TEST(TypedValidator, StrictF32sErrorIsSeenBesideThatOfOtherModes) {
  for (const ProductKind& kind : product_kinds()) {
    if (kind.a != DType::f32) continue;
    Bench bench(aligned(make_problem(kind, 19, 23, 31)), true);
    const Verdict verdict =
        bench.validate([&](const Call& call) { multiply_here(bench.problem, call); });
    EXPECT_EQ(verdict.detail.empty(), kind.math == MathMode::strict) << verdict.detail;
  }
}

}  // namespace
}  // namespace tilewise::validator_test
