#pragma once
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluator.hpp"
#include "tuner/reference.hpp"

// A device made of host memory. A "kernel" is a host function looked up by its entry's name; it
// runs at once on the argument struct. So everything about evaluation can be exercised without a
// GPU.
namespace tilewise::fake {

/// The struct every fake kernel takes; make_request() plans it.
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

/// What an illegal instruction or address does to a process, past any handler.
inline void raise_segfault() {
  signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

/// Every behaviour a candidate may have, by entry name.
inline const std::map<std::string, Kernel>& kernels();

class LoadedKernel : public tilewise::LoadedKernel {
 public:
  explicit LoadedKernel(const Kernel& kernel) : kernel_(kernel) {}
  ResourceUsage usage() const override { return {32, 0, 0, 0}; }
  const Kernel& kernel() const { return kernel_; }

 private:
  const Kernel& kernel_;
};

class Event : public tilewise::Event {
 public:
  explicit Event(Device& device) : device_(device) {}
  void record(Stream) override;
  void wait() override;
  bool reached() const override { return true; }
  double microseconds_since(const tilewise::Event& start) const override {
    const auto& from = static_cast<const Event&>(start);
    return std::chrono::duration<double, std::micro>(time_ - from.time_).count();
  }

 private:
  Device& device_;
  std::chrono::steady_clock::time_point time_;
};

class Graph : public LaunchGraph {
 public:
  void launch(Stream) override {
    for (const auto& work : work_) work();
  }
  std::vector<std::function<void()>> work_;
};

class Device : public tilewise::Device {
 public:
  Device() : info_(nominal_device({9, 0, true})) {
    info_.name = "fake";
    info_.l2_bytes = 1 << 20;
    info_.memory_bytes = std::int64_t{1} << 30;
  }

  // What tests set and look at.
  DeviceInfo info_;
  std::int64_t free_bytes = std::int64_t{1} << 30;
  bool broken = false;                                    ///< a sticky error: every call fails
  std::function<void(void* from)> before_copy_on_device;  ///< what happens just then
  bool can_compare = true;  ///< its own memory; false: the host has to
  std::int64_t launches = 0, graphs = 0, fills = 0;
  std::int64_t bytes_to_host = 0;
  std::int64_t workspace_bytes = 0;  ///< what "with_workspace" needs
  std::int64_t blocks = 0;           ///< allocations alive
  std::int64_t host_bytes = 0;       ///< page-locked, alive

  void check() const {
    if (broken)
      throw Error(ErrorKind::device, "fake driver: an illegal memory access was encountered");
  }

  const DeviceInfo& info() const override { return info_; }
  std::string driver_version() const override { return "fake 1.0"; }
  DeviceStatus status() const override {
    DeviceStatus status;
    status.sm_clock_mhz = 1980;
    status.power_w = 300;
    status.free_bytes = free_bytes;
    status.total_bytes = info_.memory_bytes;
    return status;
  }

  std::unique_ptr<tilewise::LoadedKernel> load(const Image& image, std::uint32_t,
                                               std::uint32_t) override {
    check();
    const auto found = kernels().find(image.kernel.entry);
    if (found == kernels().end()) {
      throw Error(ErrorKind::device, "fake driver: named symbol not found: " + image.kernel.entry);
    }
    return std::make_unique<LoadedKernel>(found->second);
  }
  void launch(const tilewise::LoadedKernel& kernel, const LaunchShape&, const void* arguments,
              Stream) override {
    check();
    Arguments copy;
    std::memcpy(&copy, arguments, sizeof copy);
    const Kernel& run = static_cast<const LoadedKernel&>(kernel).kernel();
    perform([this, copy, &run] {
      ++launches;
      run(*this, copy);
    });
  }
  void encode_tensor_map(const TensorMapRecipe&, const void*, std::int64_t, void*) override {
    throw Error(ErrorKind::unsupported, "fake driver: no tensor maps");
  }

  void* allocate(std::int64_t bytes) override {
    check();
    if (bytes > free_bytes) {
      throw Error(ErrorKind::out_of_memory, "fake driver: " + std::to_string(bytes) +
                                                " bytes asked, " + std::to_string(free_bytes) +
                                                " free");
    }
    free_bytes -= bytes;
    return new_block(bytes);
  }
  void free(void* pointer) noexcept override {
    free_bytes += sizes_[pointer];
    delete_block(pointer);
  }
  void* allocate_async(std::int64_t bytes, Stream) override { return allocate(bytes); }
  void free_async(void* pointer, Stream) override { free(pointer); }
  void* allocate_host(std::int64_t bytes) override {
    host_bytes += bytes;
    return new_block(bytes);
  }
  void free_host(void* pointer) noexcept override {
    host_bytes -= sizes_[pointer];
    delete_block(pointer);
  }

  void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream) override {
    copy(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream) override {
    bytes_to_host += bytes;
    copy(to, from, bytes);
  }
  void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream) override {
    if (before_copy_on_device) before_copy_on_device(const_cast<void*>(from));
    copy(to, from, bytes);
  }
  bool surely_equal(const void* x, const void* y, std::int64_t bytes, Stream) override {
    check();
    return can_compare && std::memcmp(x, y, static_cast<std::size_t>(bytes)) == 0;
  }
  void fill32(void* to, std::uint32_t value, std::int64_t words, Stream) override {
    check();
    ++fills;
    for (std::int64_t i = 0; i < words; ++i) static_cast<std::uint32_t*>(to)[i] = value;
  }

  Stream create_stream() override { return Stream(static_cast<void*>(&stream_)); }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override { check(); }
  std::unique_ptr<tilewise::Event> create_event() override {
    return std::make_unique<Event>(*this);
  }
  std::unique_ptr<LaunchGraph> capture(Stream, const std::function<void()>& enqueue) override {
    check();
    auto graph = std::make_unique<Graph>();
    captured_ = graph.get();
    try {
      enqueue();
    } catch (...) {
      captured_ = nullptr;
      throw;
    }
    captured_ = nullptr;
    if (graph->work_.empty()) throw Error(ErrorKind::device, "fake driver: empty graph");
    ++graphs;
    return graph;
  }
  bool capturing(Stream) const override { return captured_ != nullptr; }

  /// Now, or when the graph being captured runs.
  void perform(std::function<void()> work) {
    if (captured_) {
      captured_->work_.push_back(std::move(work));
    } else {
      work();
    }
  }

 private:
  void copy(void* to, const void* from, std::int64_t bytes) {
    check();
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void* new_block(std::int64_t bytes) {
    void* block = std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256));
    if (!block) throw std::bad_alloc();
    sizes_[block] = bytes;
    ++blocks;
    return block;
  }
  void delete_block(void* pointer) noexcept {
    sizes_.erase(pointer);
    --blocks;
    std::free(pointer);
  }

  std::map<void*, std::int64_t> sizes_;
  Graph* captured_ = nullptr;
  int stream_ = 0;
};

inline void Event::record(Stream) {
  device_.check();
  time_ = std::chrono::steady_clock::now();
}
inline void Event::wait() { device_.check(); }

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
       [](D, A p) {  // every seventh time one result is rounded the other way
         static int launches = 0;
         multiply(p);
         const bool whole = p.c[0] == std::floor(p.c[0]);
         if (++launches % 7 == 0 && !whole) p.c[0] = std::nextafter(p.c[0], 1e30F);
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
       [](D, A p) {  // a remainder of k not masked: what lies behind the row times zero
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

/// A one-step plan that launches fake kernel `entry`, with its image.
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
                    {Kind::integer64, static_cast<std::int64_t>(problem.layout)},
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
