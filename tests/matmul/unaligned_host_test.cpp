// Operands whose rows begin at any element, on the CPU executor: mma brings them as aligned pieces
// and shifts these, element by element where an element is 4 or 8 bytes.
#include "device/compiler.hpp"
#include "matmul/executable.hpp"
#include "templates/sources.hpp"
#include "tests/matmul/served_checks.hpp"

namespace tilewise {
namespace {

struct Shifted {
  Layout layout;
  ProductKind kind;
  std::map<std::string, int> values;  ///< in place of the default's
};

struct UnalignedOnTheCpu : test::Served {
  UnalignedOnTheCpu() : Served("host:sm_90a") {}

  Executable built(const Problem& problem, const Configuration& configuration) {
    const KernelTemplate& kernel = find_template("mma");
    EXPECT_EQ(rejection(kernel, problem, configuration, device->info()), "");
    Plan plan = kernel.plan(problem, configuration, device->info());
    const Target target = device->info().target;
    const auto compiler = load_compiler(target);
    std::vector<Image> images;
    for (const LaunchStep& step : plan.steps) {
      const KernelSource& source = kernel_source(step.kernel.source);
      const CompileResult made =
          compiler->compile({step.kernel, source.text, source.headers, target});
      if (!made.image) throw Error(ErrorKind::compiler, made.log);
      images.push_back(*made.image);
    }
    return Executable(*device, problem, std::move(plan), images);
  }

  /// The elements, so many after an address that is aligned to 16 bytes.
  DeviceBuffer placed(test::Elements& elements, std::int64_t after) {
    const std::int64_t offset = after * bytes_of(elements.type);
    DeviceBuffer buffer(*device, offset + elements.bytes());
    device->copy_to_device(static_cast<std::byte*>(buffer.data()) + offset, elements.at(0),
                           elements.bytes(), nullptr);
    return buffer;
  }

  void expect_right(const Shifted& shifted) {
    const int element = bytes_of(shifted.kind.operand);
    // Parts of two tiles and more each way, and of k.
    const Problem problem = typed_problem(shifted.layout, 70, 263, 71, shifted.kind.operand,
                                          shifted.kind.c, shifted.kind.math, 2);
    Configuration configuration =
        find_template("mma").default_configuration(problem, device->info());
    configuration.set("BYTES_A", 1);
    configuration.set("BYTES_B", 1);
    for (const auto& [name, value] : shifted.values) configuration.set(name, value);
    const Executable executable = built(problem, configuration);
    for (int places = 0; places < 16 / element; ++places) {
      test::WholeNumbers job(problem, places, 3);
      const std::int64_t after_a = 16 / element - places, after_b = places;
      const DeviceBuffer a = placed(job.a, after_a), b = placed(job.b, after_b),
                         c = placed(job.c, 0);
      Call call = job.call(nullptr, nullptr, c.data());
      call.a = static_cast<std::byte*>(a.data()) + after_a * element;
      call.b = static_cast<std::byte*>(b.data()) + after_b * element;
      executable.launch(call);
      device->synchronize(nullptr);
      device->copy_to_host(job.c.at(0), c.data(), job.c.bytes(), nullptr);
      device->synchronize(nullptr);
      EXPECT_EQ(job.first_wrong(), -1) << to_string(problem) << ", " << places
                                       << " elements between rows: " << configuration.text();
    }
  }
};

const ProductKind& kind_of(DType type, MathMode math) {
  return *find_product_kind(type, type, math);
}

TEST_F(UnalignedOnTheCpu, FourBytes) {
  const ProductKind& tf32 = kind_of(DType::f32, MathMode::tf32);
  expect_right({Layout::nn, tf32, {}});
  expect_right({Layout::tt, tf32, {{"STAGES", 3}, {"FRAGMENTS", 2}}});
  expect_right({Layout::nt, kind_of(DType::f32, MathMode::f32x3), {{"STAGES", 4}}});
}

TEST_F(UnalignedOnTheCpu, EightBytes) {
  const ProductKind& f64 = kind_of(DType::f64, MathMode::strict);
  expect_right({Layout::nn, f64, {{"STAGES", 3}}});
  expect_right({Layout::nt, f64, {}});
  expect_right({Layout::tt, f64, {{"TILE_K", 32}, {"FRAGMENTS", 2}}});
}

TEST_F(UnalignedOnTheCpu, RowsThatSeveralWarpsBring) {
  // 64 pieces of 16 bytes: of A's rows where m is contiguous, of B's where n is.
  expect_right({Layout::nn,
                kind_of(DType::f32, MathMode::tf32),
                {{"TILE_M", 32}, {"TILE_N", 256}, {"WARP_N", 64}, {"STAGES", 3}}});
  expect_right({Layout::tn,
                kind_of(DType::f64, MathMode::strict),
                {{"TILE_M", 128}, {"TILE_N", 128}, {"WARP_N", 32}, {"TILE_K", 8}}});
}

TEST_F(UnalignedOnTheCpu, FewPiecesOfAThread) {
  // 16 warps: one row and half a row of a warp's own in each tile.
  expect_right({Layout::nn,
                kind_of(DType::f32, MathMode::tf32),
                {{"TILE_M", 64}, {"TILE_N", 128}, {"WARP_M", 16}, {"TILE_K", 16}}});
}

}  // namespace
}  // namespace tilewise
