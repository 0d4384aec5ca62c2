#pragma once
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_device.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/reference/reference.hpp"

// Kernels of a fake device, to test evaluation without a GPU: host functions, found by entry name,
// that run at once on the argument struct.
namespace tilewise::fake {

/// The argument struct of every fake kernel; make_request() plans it.
struct Arguments {
  const float* a;
  const float* b;
  float* c;
  std::int64_t lda, ldb, ldc, m, n, k, layout;
  const float* alpha_device;
  const float* beta_device;
  float alpha, beta;
};

class Device;
using Kernel = std::function<void(Device&, const Arguments&)>;

inline void multiply(const Arguments& p, int threads = 1) {
  const float alpha = p.alpha_device ? *p.alpha_device : p.alpha;
  const float beta = p.beta_device ? *p.beta_device : p.beta;
  reference_multiply(static_cast<Layout>(p.layout), p.m, p.n, p.k, alpha, p.a, p.lda, p.b, p.ldb,
                     beta, p.c, p.ldc, threads);
}

inline std::int64_t layout_rows_b(const Arguments& p) {
  return b_transposed(static_cast<Layout>(p.layout)) ? p.n : p.k;
}

/// Ends the process like an illegal instruction or address, past any handler.
inline void raise_segfault() {
  signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

/// The kernels by entry name, one per behaviour of a candidate.
inline const std::map<std::string, Kernel>& kernels();

/// A device that finds kernels by entry name.
class Device : public FakeDevice {
 public:
  Device() {
    facts.name = "fake";
    facts.l2_bytes = 1 << 20;
    facts.memory_bytes = std::int64_t{1} << 30;
    free_bytes = std::int64_t{1} << 30;
  }
  std::int64_t workspace_bytes = 0;  ///< the workspace of "with_workspace"

  std::unique_ptr<LoadedKernel> load(const Image& image, std::uint32_t shared_bytes,
                                     std::uint32_t cluster_blocks) override {
    check();
    if (!kernels().contains(image.kernel.entry))
      throw Error(ErrorKind::device, "fake driver: named symbol not found: " + image.kernel.entry);
    auto kernel = FakeDevice::load(image, shared_bytes, cluster_blocks);
    static_cast<FakeKernel&>(*kernel).used = {32, 0, 0, 0};
    return kernel;
  }
  void launch(const LoadedKernel& kernel, const LaunchShape&, const void* arguments,
              Stream) override {
    check();
    Arguments copy;
    std::memcpy(&copy, arguments, sizeof copy);
    const Kernel& run = kernels().at(static_cast<const FakeKernel&>(kernel).spec.entry);
    perform([this, copy, &run] {
      ++launch_count;
      run(*this, copy);
    });
  }
};

inline const std::map<std::string, Kernel>& kernels() {
  using D = Device&;
  using A = const Arguments&;
  static const std::map<std::string, Kernel> table = {
      {"right", [](D, A p) { multiply(p); }},
      {"with_workspace",
       [](D d, A p) {
         const DeviceBuffer workspace(d, d.workspace_bytes);
         multiply(p);
       }},
      {"slow",
       [](D, A p) {
         multiply(p);
         std::this_thread::sleep_for(std::chrono::milliseconds(3));
       }},
      {"now_and_then",
       [](D, A p) {  // sometimes one result is rounded the other way, not periodically
         static unsigned launches = 0;
         multiply(p);
         const bool whole = p.c[0] == std::floor(p.c[0]);
         if (__builtin_parity(++launches / 4) != 0 && !whole)
           p.c[0] = std::nextafter(p.c[0], 1e30F);
       }},
      {"never_the_same",
       [](D, A p) {  // some results of the first row are rounded the other way, others each time
         static unsigned launches = 0;
         multiply(p);
         const unsigned bits = ++launches * 2654435761U;
         for (std::int64_t j = 0; j < std::min<std::int64_t>(p.n, 32); ++j)
           if ((bits >> (31 - j) & 1) != 0 && p.c[j] != std::floor(p.c[j]))
             p.c[j] = std::nextafter(p.c[j], 1e30F);
       }},
      {"one_element",
       [](D, A p) {
         multiply(p);
         p.c[(p.m - 1) * p.ldc + p.n / 2] += 1;
       }},
      {"unwritten",
       [](D, A p) {
         Arguments less = p;
         less.m = p.m - 1;
         multiply(less);
       }},
      {"after_c",
       [](D, A p) {
         multiply(p);
         p.c[p.m * p.ldc] = 1;
       }},
      {"before_c",
       [](D, A p) {
         multiply(p);
         p.c[-1] = 1;
       }},
      {"row_gap",
       [](D, A p) {
         multiply(p);
         if (p.ldc > p.n) p.c[p.n] = 0;
       }},
      {"changes_a",
       [](D, A p) {
         multiply(p);
         const_cast<float*>(p.a)[0] += 1;
       }},
      {"changes_b",
       [](D, A p) {
         multiply(p);
         const_cast<float*>(p.b)[(layout_rows_b(p) - 1) * p.ldb] += 1;
       }},
      {"ignores_beta",
       [](D, A p) {
         Arguments other = p;
         other.beta = 0;
         other.beta_device = nullptr;
         multiply(other);
       }},
      {"ignores_alpha",
       [](D, A p) {
         Arguments other = p;
         other.alpha = 1;
         other.alpha_device = nullptr;
         multiply(other);
       }},
      {"ignores_device_scalars",
       [](D, A p) {
         Arguments other = p;
         other.alpha_device = other.beta_device = nullptr;
         multiply(other);
       }},
      {"reads_c",
       [](D, A p) {  // 0 x NaN is NaN
         std::vector<float> old(static_cast<std::size_t>(p.m * p.n));
         for (std::int64_t i = 0; i < p.m * p.n; ++i) {
           old[static_cast<std::size_t>(i)] = p.c[i / p.n * p.ldc + i % p.n];
         }
         multiply(p);
         for (std::int64_t i = 0; i < p.m * p.n; ++i) {
           p.c[i / p.n * p.ldc + i % p.n] += 0 * old[static_cast<std::size_t>(i)];
         }
       }},
      {"reads_past_row",
       [](D, A p) {  // k's remainder is not masked: reads past the row, times zero
         multiply(p);
         if (static_cast<Layout>(p.layout) == Layout::nn) p.c[0] += 0 * p.a[p.k];
       }},
      {"wants_16_bytes",
       [](D d, A p) {
         if (reinterpret_cast<std::uintptr_t>(p.a) % 16 != 0) {
           d.broken = true;
           d.check();
         }
         multiply(p);
       }},
      {"refused", [](D, A) { throw Error(ErrorKind::device, "fake driver: invalid launch"); }},
      {"sticky",
       [](D d, A) {
         d.broken = true;
         d.check();
       }},
      {"hangs",
       [](D, A) {
         for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
       }},
      {"aborts", [](D, A) { std::abort(); }},
      {"crashes", [](D, A) { raise_segfault(); }},
      {"exits", [](D, A) { _exit(3); }},
      {"killed", [](D, A) { raise(SIGKILL); }},
      {"no_space", [](D, A) { throw Error(ErrorKind::io, "no space left on device"); }},
  };
  return table;
}

/// A one-step plan that launches the fake kernel `entry`, with its image.
inline EvaluationRequest make_request(const Problem& problem, const std::string& entry,
                                      double best_us = 0) {
  using Kind = Argument::Kind;
  LaunchStep step;
  step.kernel = {"fake.cu", entry, {{"TILE", 16}}};
  step.block = {32, 1, 1};
  step.arguments = {{Kind::a},
                    {Kind::b},
                    {Kind::c},
                    {Kind::lda},
                    {Kind::ldb},
                    {Kind::ldc},
                    {Kind::integer64, problem.m},
                    {Kind::integer64, problem.n},
                    {Kind::k},
                    {Kind::integer64, static_cast<std::int64_t>(layout_of(problem))},
                    {Kind::alpha_device},
                    {Kind::beta_device},
                    {Kind::alpha},
                    {Kind::beta}};
  EvaluationRequest request;
  request.plan.steps = {step};
  Image image;
  image.kernel = step.kernel;
  image.target = {9, 0, true};
  image.binary = {1, 2, 3};
  request.images = {image};
  request.best_us = best_us;
  return request;
}

}  // namespace tilewise::fake
