// Products on host pointers: small ones by one copy each way, others by tiles.
#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "matmul/build.hpp"
#include "matmul/host_plan.hpp"
#include "matmul/host_stream.hpp"
#include "matmul/state.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

/// Strided rows are copied in parts of about this many bytes, gathered on the host, so that neither
/// padding nor a full copy of the matrix is needed.
constexpr std::int64_t kPartBytes = std::int64_t{8} << 20;

/// The matrices of one operand in host memory; in device memory they are contiguous. Lengths in
/// bytes. A stride of 0 is one matrix for all products.
struct Matrices {
  std::int64_t count, rows, row, ld, stride;

  Matrices(std::int64_t batch, std::int64_t rows_, std::int64_t columns, std::int64_t ld_,
           std::int64_t stride_, DType type)
      : count(stride_ == 0 ? 1 : batch),
        rows(rows_),
        row(columns * bytes_of(type)),
        ld(ld_ * bytes_of(type)),
        stride(stride_ * bytes_of(type)) {}

  bool tight() const { return ld == row && (count == 1 || stride == rows * row); }
  /// Byte offset of row `i`, counted over all matrices.
  std::int64_t begin(std::int64_t i) const { return i / rows * stride + i % rows * ld; }

  /// Bytes in device memory. Throws Error(out_of_memory) above 2^63.
  std::int64_t bytes() const {
    std::int64_t all = 0;
    if (__builtin_mul_overflow(count, rows, &all) || __builtin_mul_overflow(all, row, &all))
      throw Error(ErrorKind::out_of_memory, std::to_string(count) + " x " + std::to_string(rows) +
                                                " rows of " + std::to_string(row) +
                                                " bytes pass 2^63 bytes");
    return all;
  }
  /// The batch stride in device memory, in elements.
  std::int64_t device_stride(DType type) const {
    return stride == 0 ? 0 : rows * row / bytes_of(type);
  }

  /// Calls `move(first, count)` for parts of all rows.
  template <class Move>
  void in_pieces(Move move) const {
    const std::int64_t piece = std::max<std::int64_t>(1, kPartBytes / row), all = count * rows;
    for (std::int64_t first = 0; first < all; first += piece)
      move(first, std::min(piece, all - first));
  }
};

void upload(Device& device, Stream stream, void* to, const void* from, const Matrices& x) {
  if (x.tight()) return device.copy_to_device(to, from, x.bytes(), stream);
  std::vector<std::byte> staged;
  x.in_pieces([&](std::int64_t first, std::int64_t count) {
    staged.resize(static_cast<std::size_t>(count * x.row));
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(staged.data() + i * x.row,
                  static_cast<const std::byte*>(from) + x.begin(first + i),
                  static_cast<std::size_t>(x.row));
    device.copy_to_device(static_cast<std::byte*>(to) + first * x.row, staged.data(), count * x.row,
                          stream);
    device.synchronize(stream);
  });
}

void download(Device& device, Stream stream, void* to, const void* from, const Matrices& x) {
  if (x.tight()) {
    device.copy_to_host(to, from, x.bytes(), stream);
    return device.synchronize(stream);
  }
  std::vector<std::byte> staged;
  x.in_pieces([&](std::int64_t first, std::int64_t count) {
    staged.resize(static_cast<std::size_t>(count * x.row));
    device.copy_to_host(staged.data(), static_cast<const std::byte*>(from) + first * x.row,
                        count * x.row, stream);
    device.synchronize(stream);
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(static_cast<std::byte*>(to) + x.begin(first + i), staged.data() + i * x.row,
                  static_cast<std::size_t>(x.row));
  });
}

/// Whether C is read: beta in the accumulator's type is not 0.
bool reads_c(const Problem& problem, double beta) {
  return problem.accumulator == DType::f32 ? static_cast<float>(beta) != 0.0F : beta != 0.0;
}

void check_host_call(const Problem& problem, const Call& call) {
  if (call.alpha_device || call.beta_device || call.packed_a || call.packed_b || problem.pointers)
    throw Error(ErrorKind::invalid_argument,
                "a product on host pointers takes neither alpha and beta on the device nor packed "
                "operands nor a batch by pointers");
  check_call(problem, call);
}

HostTask task_of(const Problem& problem, const Call& call) {
  HostTask task;
  task.problem = problem;
  if (!reads_operands(problem, call)) task.problem.k = 0;
  task.problem = as_served(task.problem);
  task.shares_a = problem.batch > 1 && call.stride_a == 0;
  task.shares_b = problem.batch > 1 && call.stride_b == 0;
  task.reads_c = reads_c(problem, call.beta);
  return task;
}

/// Device memory that a product may use. Without a limit the driver and other threads keep 1/16 of
/// what is free, at most 512 MiB.
std::int64_t budget_of(const HostSettings& settings, std::int64_t free_bytes) {
  const std::int64_t rest = free_bytes - std::min(free_bytes / 16, std::int64_t{512} << 20);
  return settings.memory_limit > 0 ? std::min(settings.memory_limit, rest) : rest;
}

using WorkspaceOf = std::function<std::int64_t(const Problem&)>;

/// A split with its order. Tiles are made smaller until their kernels' workspace fits, too.
struct Planned {
  HostPlan plan;
  std::int64_t workspace = 0;
};
Planned planned(const HostTask& task, const HostSettings& settings, const HostRates& rates,
                std::int64_t free_bytes, const WorkspaceOf& workspace_of) {
  const std::int64_t budget = budget_of(settings, free_bytes);
  Planned made;
  for (;;) {
    try {
      made.plan = chosen_split(task, budget - made.workspace, settings, rates);
    } catch (const Error& error) {
      throw Error(
          error.kind(),
          std::string(error.what()) + ": " + std::to_string(free_bytes) +
              " bytes are free, the limit is " +
              (settings.memory_limit > 0 ? std::to_string(settings.memory_limit) : "what is free") +
              ", and workspace takes " + std::to_string(made.workspace));
    }
    std::int64_t workspace = 0;
    for (const Problem& problem : made.plan.problems())
      workspace = std::max(workspace, workspace_of(problem));
    const bool fits = made.plan.slots_bytes() + workspace <= budget;
    made.workspace = workspace;
    if (fits) break;
  }
  put_in_order(made.plan);
  return made;
}

/// The device's rate for this product, by its expected time. Small products need none.
HostRates rates_of(const HostTask& task, const HostSettings& settings, const DeviceInfo& info,
                   const std::function<double(const Problem&)>& expected_us) {
  HostRates rates;
  rates.multiprocessors = info.multiprocessors;
  const Problem& problem = task.problem;
  if (problem.k == 0 || operand_bytes(problem) <= static_cast<double>(settings.single_bytes))
    return rates;
  Problem whole = problem;
  whole.alignment = {16, 16, 16};
  const double microseconds = expected_us(whole);
  if (microseconds > 0) rates.flops = flops_of(whole) / microseconds * 1e6;
  return rates;
}

/// One copy each way.
void multiply_at_once(Device& device, const HostPlan& plan, const Executable& executable,
                      const Call& given) {
  const Problem& p = plan.task.problem;
  const std::int64_t batch = p.batch;
  const Matrices a(batch, rows_a(p), min_lda(p), given.lda, given.stride_a, p.a);
  const Matrices b(batch, rows_b(p), min_ldb(p), given.ldb, given.stride_b, p.b);
  const Matrices c(batch, p.m, p.n, given.ldc, given.stride_c, p.c);
  const bool reads = p.k > 0;
  const DeviceBuffer on_a(device, a.bytes()), on_b(device, b.bytes()), on_c(device, c.bytes());
  const OwnStream stream(device);
  Call call;
  call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
  call.lda = min_lda(p), call.ldb = min_ldb(p), call.ldc = min_ldc(p);
  call.stride_a = a.device_stride(p.a), call.stride_b = b.device_stride(p.b);
  call.stride_c = c.device_stride(p.c);
  call.alpha = given.alpha, call.beta = given.beta;
  call.stream = stream.get();
  if (reads) {
    upload(device, call.stream, on_a.data(), given.a, a);
    upload(device, call.stream, on_b.data(), given.b, b);
  }
  if (plan.task.reads_c) upload(device, call.stream, on_c.data(), given.c, c);
  executable.launch(call);
  download(device, call.stream, given.c, on_c.data(), c);
}

}  // namespace

void Matmul::host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                  float* c, std::int64_t ldc, MathMode math) {
  host(typed_problem(layout, m, n, k, DType::f32, DType::f32, math),
       call_of(a, lda, b, ldb, c, ldc, alpha, beta, nullptr));
}

void Matmul::host(const Problem& asked, const Call& given) {
  check_process();
  check_host_call(asked, given);
  if (is_empty(asked)) return;
  Device& device = state_->device();
  const HostSettings& settings = state_->host_settings();
  const HostTask task = task_of(asked, given);
  StreamedProduct::Executables executables;
  const auto workspace_of = [&](const Problem& problem) {
    auto& executable = executables[problem];
    if (!executable) executable = state_->executable(as_served(problem), nullptr);
    return executable->plan().workspace_bytes;
  };
  const HostRates rates = rates_of(task, settings, device.info(), [&](const Problem& whole) {
    return state_->resolution(whole).predicted_us;
  });
  const auto [plan, workspace] = planned(task, settings, rates, device.free_memory(), workspace_of);
  try {
    if (plan.shape.single)
      return multiply_at_once(device, plan, *executables.at(plan.problem_of({})), given);
    std::unique_ptr<HostStaging> staging = state_->staging().take(device, settings);
    StreamedProduct(device, *staging, plan, executables, given).run();
    state_->staging().put_back(std::move(staging));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    throw Error(ErrorKind::out_of_memory, to_string(asked) + " on host pointers takes " +
                                              std::to_string(plan.slots_bytes() + workspace) +
                                              " bytes of device memory, and " +
                                              std::to_string(device.free_memory()) +
                                              " are free: " + error.what());
  }
}

HostSplit Matmul::host_split(const Problem& problem) const {
  Call tight;
  tight.stride_a = rows_a(problem) * min_lda(problem);
  tight.stride_b = rows_b(problem) * min_ldb(problem);
  return host_split(problem, tight);
}

HostSplit Matmul::host_split(const Problem& problem, const Call& call) const {
  check_process();
  check_problem(problem);
  if (problem.pointers)
    throw Error(ErrorKind::invalid_argument,
                "a batch by pointers is not a product on host pointers");
  if (is_empty(problem)) return {};
  const HostSettings& settings = state_->host_settings();
  const DeviceInfo& info = state_->device().info();
  const HostTask task = task_of(problem, call);
  const HostRates rates = rates_of(task, settings, info, [&](const Problem& whole) {
    return state_->resolution(whole).predicted_us;
  });
  const auto [plan, workspace] =
      planned(task, settings, rates, state_->device().free_memory(), [&](const Problem& tile) {
        const Problem served = as_served(tile);
        return plan_of(state_->resolution(served).candidate, served, info).workspace_bytes;
      });
  HostSplit split = plan.split();
  split.device_bytes += workspace;
  if (!plan.shape.single) split.staging_bytes = HostStaging::bytes(settings);
  return split;
}

}  // namespace tilewise
