// A single row whose leading dimension is beyond the limit of tensor maps, on a GPU.
#include "tests/matmul/served_checks.hpp"

namespace tilewise::far_strides_gpu_test {
namespace {

struct FarStridesGpu : test::Served {
  FarStridesGpu() : Served("auto") {}
};

TEST_F(FarStridesGpu, OfASingleRow) {
  for (const DType type : {DType::bf16, DType::f32}) {
    const Problem problem = typed_problem(Layout::nt, 1, 64, 64, type, type,
                                          type == DType::f32 ? MathMode::tf32 : MathMode::strict);
    if (!find_template("wgmma").supports(problem, device->info()))
      GTEST_SKIP() << "no wgmma on this device";
    Candidate candidate{"wgmma",
                        find_template("wgmma").default_configuration(problem, device->info())};
    Matmul matmul = with_winner(problem, candidate);
    for (const bool far_a : {true, false}) {
      test::WholeNumbers job(problem, 0, 3);
      const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
      Call call = job.call(a.data(), b.data(), c.data());
      (far_a ? call.lda : call.ldc) = std::int64_t{1} << 40;
      ASSERT_NO_THROW(matmul(problem, call));
      device->copy_to_host(job.c.at(0), c.data(), job.c.bytes(), nullptr);
      device->synchronize(nullptr);
      EXPECT_EQ(job.first_wrong(), -1) << to_string(problem) << (far_a ? " A" : " C");
    }
  }
}

}  // namespace
}  // namespace tilewise::far_strides_gpu_test
