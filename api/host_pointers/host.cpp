// Products on host pointers: small ones by one copy each way, others by tiles.
#include <algorithm>
#include <cstring>
#include <vector>

#include "api/host_pointers/host_plan.hpp"
#include "api/host_pointers/host_stream.hpp"
#include "api/matmul_state.hpp"
#include "matmul/check_call.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/own_errors.hpp"

namespace tilewise {
namespace {

/// Size in bytes of the parts in which strided rows are copied. Rows are gathered on the host, so
/// that neither padding nor a full copy of the matrix is needed.
constexpr std::int64_t kPartBytes = std::int64_t{8} << 20;

/// The matrices of one operand in host memory; in device memory they are contiguous. Lengths are in
/// bytes. With a stride of 0 all products share one matrix.
struct Matrices {
  std::int64_t count, rows, row, ld, stride;

  Matrices(std::int64_t batch, std::int64_t rows_, std::int64_t columns, std::int64_t ld_,
           std::int64_t stride_, DType type)
      : count(stride_ == 0 ? 1 : batch),
        rows(rows_),
        row(bytes_of(type, columns)),
        ld(bytes_of(type, ld_)),
        stride(bytes_of(type, stride_)) {}

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
    return stride == 0 ? 0 : rows * row * 8 / bits_of(type);
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

/// Whether C is read: whether beta in the accumulator's type is not 0.
bool reads_c(const Problem& problem, double beta) {
  return problem.accumulator == DType::f32 ? static_cast<float>(beta) != 0.0F : beta != 0.0;
}

void refuse_what_needs_a_device(const Problem& problem) {
  if (problem.epilogue)
    throw Error(
        ErrorKind::unsupported,
        "a product on host pointers takes no epilogue; copy the operands to the device, and "
        "call the product on device pointers");
  if (problem.order)
    throw Error(ErrorKind::unsupported,
                "a product on host pointers is not batch-invariant, since its tiles follow from "
                "the memory that is free; call the product on device pointers");
  if (problem.a.type != problem.b.type)
    throw Error(ErrorKind::unsupported,
                "a product on host pointers has an A and a B of one type; copy the operands to the "
                "device, and call the product on device pointers");
  if (is_grouped(problem))
    throw Error(ErrorKind::unsupported,
                "a grouped product on host pointers; copy the operands to the device, and call the "
                "product on device pointers");
}

void check_host_call(const Problem& problem, const Call& call) {
  if (call.alpha_device || call.beta_device || call.packed_a || call.packed_b || problem.pointers)
    throw Error(ErrorKind::invalid_argument,
                "a product on host pointers takes neither alpha and beta on the device nor packed "
                "operands nor a batch by pointers");
  refuse_what_needs_a_device(problem);
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

std::int64_t workspace_bytes(const Resolution& resolution, const Problem& problem,
                             const DeviceInfo& info) {
  return plan_of(resolution.candidate, problem, info).workspace_bytes;
}

/// The number of splits tried for one product before it fails.
constexpr int kMostFits = 8;

/// Whether the kernels that serve the tiles need more workspace than the split was made for. Makes
/// all their executables.
template <class ExecutableOf>
bool has_more_workspace(const FittingSplit& fit, ExecutableOf executable) {
  std::int64_t most = 0;
  for (const Problem& problem : fit.plan.problems())
    most = std::max(most, executable(problem).plan().workspace_bytes);
  return most > fit.workspace;
}

/// Multiplies with one copy each way.
void multiply_at_once(Device& device, Stream stream, const HostPlan& plan,
                      const Executable& executable, const Call& given) {
  const Problem& p = plan.task.problem;
  const std::int64_t batch = p.batch;
  const Matrices a(batch, rows_a(p), min_lda(p), given.lda, given.stride_a, p.a.type);
  const Matrices b(batch, rows_b(p), min_ldb(p), given.ldb, given.stride_b, p.b.type);
  const Matrices c(batch, p.m, p.n, given.ldc, given.stride_c, p.c.type);
  const bool reads = p.k > 0;
  const DeviceBuffer on_a(device, a.bytes()), on_b(device, b.bytes()), on_c(device, c.bytes());
  Call call;
  call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
  call.lda = min_lda(p), call.ldb = min_ldb(p), call.ldc = min_ldc(p);
  call.stride_a = a.device_stride(p.a.type), call.stride_b = b.device_stride(p.b.type);
  call.stride_c = c.device_stride(p.c.type);
  call.alpha = given.alpha, call.beta = given.beta, call.accuracy = given.accuracy;
  call.stream = stream;
  if (reads) {
    upload(device, call.stream, on_a.data(), given.a, a);
    upload(device, call.stream, on_b.data(), given.b, b);
  }
  if (plan.task.reads_c) upload(device, call.stream, on_c.data(), given.c, c);
  const DeviceBuffer workspace(device, executable.plan().workspace_bytes);
  executable.launch(call, workspace.data());
  download(device, call.stream, given.c, on_c.data(), c);
}

}  // namespace

void Matmul::host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                  float* c, std::int64_t ldc, MathMode math) {
  host(typed_problem(layout, m, n, k, DType::f32, DType::f32, math),
       call_of(a, lda, b, ldb, c, ldc, alpha, beta, nullptr));
}

void Matmul::host(const Problem& asked, const Call& given) try {
  check_process();
  check_host_call(asked, given);
  if (!writes_c(asked, given)) return;
  Device& device = state_->serving.device();
  const HostTask task = task_of(asked, given);
  StreamedProduct::Executables executables;
  const auto executable = [&](const Problem& problem) -> const Executable& {
    auto& made = executables[problem];
    if (!made) made = state_->serving.executable(Request(as_served(problem)), nullptr);
    return *made;
  };
  // Kernels of splits that are only considered are not loaded.
  const auto workspace_of = [&](const Problem& problem) {
    const Problem served = as_served(problem);
    if (executables.contains(problem) || state_->serving.has_executable(Request(served)))
      return executable(problem).plan().workspace_bytes;
    try {
      return workspace_bytes(state_->serving.resolution(served), served, device.info());
    } catch (const Error&) {  // its message states the remedy
      return executable(problem).plan().workspace_bytes;
    }
  };
  const auto expected_us = [&](const Problem& whole) {
    return state_->serving.resolution(whole).predicted_us;
  };
  HostProducts& kept = state_->host_products;
  const std::int64_t free_bytes = device.free_memory() + kept.staging().device_bytes();
  std::shared_ptr<const FittingSplit> fit =
      kept.split(task, free_bytes, device.info(), workspace_of, expected_us);
  // A kernel other than the expected one may serve: after a search, or if an image is broken.
  for (int turn = 0; has_more_workspace(*fit, executable); ++turn) {
    if (turn == kMostFits)
      throw Error(ErrorKind::out_of_memory, to_string(asked) +
                                                " on host pointers: the kernels that serve its "
                                                "tiles need more workspace than expected");
    fit = kept.new_split(task, free_bytes, device.info(), workspace_of, expected_us);
  }
  const HostPlan& plan = fit->plan;
  try {
    if (plan.shape.single) {
      if (fit->bytes() > device.free_memory()) kept.staging().free_device_memory();
      std::unique_ptr<OwnedStream> stream = kept.staging().take_stream(device);
      multiply_at_once(device, stream->get(), plan, *executables.at(plan.problem_of({})), given);
      return kept.staging().put_back(std::move(stream));
    }
    std::unique_ptr<HostStaging> staging = kept.staging().take(device, kept.settings());
    staging->limit_device_memory(kept.budget(free_bytes));
    StreamedProduct(device, *staging, *fit, executables, given).run();
    kept.staging().put_back(std::move(staging), kept.settings());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    throw Error(ErrorKind::out_of_memory,
                to_string(asked) + " on host pointers takes " + std::to_string(fit->bytes()) +
                    " bytes of device memory, and " + std::to_string(device.free_memory()) +
                    " are free: " + error.what());
  }
} catch (...) {
  rethrow_as_error();
}

HostSplit Matmul::host_split(const Problem& problem) const try {
  check_problem(problem);
  Call tight;
  if (is_empty(problem)) return host_split(problem, tight);
  if (__builtin_mul_overflow(rows_a(problem), min_lda(problem), &tight.stride_a) ||
      __builtin_mul_overflow(rows_b(problem), min_ldb(problem), &tight.stride_b))
    throw Error(ErrorKind::out_of_memory,
                to_string(problem) + " on host pointers: A or B passes 2^63 elements");
  return host_split(problem, tight);
} catch (...) {
  rethrow_as_error();
}

HostSplit Matmul::host_split(const Problem& problem, const Call& call) const try {
  check_process();
  check_problem(problem);
  if (problem.pointers)
    throw Error(ErrorKind::invalid_argument,
                "a batch by pointers is not a product on host pointers");
  refuse_what_needs_a_device(problem);
  if (is_empty(problem)) return {};
  const DeviceInfo& info = state_->serving.device().info();
  HostProducts& kept = state_->host_products;
  const std::shared_ptr<const FittingSplit> fit = kept.split(
      task_of(problem, call),
      state_->serving.device().free_memory() + kept.staging().device_bytes(), info,
      [&](const Problem& tile) {
        const Problem served = as_served(tile);
        return workspace_bytes(state_->serving.resolution(served), served, info);
      },
      [&](const Problem& whole) { return state_->serving.resolution(whole).predicted_us; });
  HostSplit split = fit->plan.split();
  split.device_bytes += fit->workspace;
  if (!fit->plan.shape.single) split.staging_bytes = HostStaging::bytes(kept.settings());
  return split;
} catch (...) {
  rethrow_as_error();
}

}  // namespace tilewise
