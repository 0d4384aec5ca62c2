#include <algorithm>
#include <cstring>
#include <vector>

#include "matmul/state.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

/// Strided rows are copied in parts of about this many bytes, gathered on the host, so that neither
/// padding nor a full copy of the matrix is needed.
constexpr std::int64_t kPartBytes = std::int64_t{8} << 20;

class OwnStream {
 public:
  explicit OwnStream(Device& device) : device_(device), stream_(device.create_stream()) {}
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { device_.destroy_stream(stream_); }
  Stream get() const { return stream_; }

 private:
  Device& device_;
  Stream stream_;
};

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

std::string mebibytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

/// Whether C is read: beta in the accumulator's type is not 0.
bool reads_c(const Problem& problem, double beta) {
  return problem.accumulator == DType::f32 ? static_cast<float>(beta) != 0.0F : beta != 0.0;
}

void check_host_call(const Problem& problem, const Call& call) {
  if (call.alpha_device || call.beta_device || call.packed_a || call.packed_b)
    throw Error(ErrorKind::invalid_argument,
                "a product on host pointers takes neither alpha and beta on the device nor packed "
                "operands");
  check_call(problem, call);
}

}  // namespace

void Matmul::host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                  float* c, std::int64_t ldc, MathMode math) {
  host(typed_problem(layout, m, n, k, DType::f32, DType::f32, math),
       call_of(a, lda, b, ldb, c, ldc, alpha, beta, nullptr));
}

/// The matrices are contiguous on the device, whatever their leading dimensions on the host.
void Matmul::host(const Problem& asked, const Call& given) {
  check_process();
  check_host_call(asked, given);
  if (is_empty(asked)) return;
  Problem problem = as_served(asked);
  problem.alignment =
      natural_alignment(asked.layout, asked.m, asked.n, asked.k, asked.a, asked.b, asked.c);
  const std::int64_t batch = problem.batch;
  const Matrices a(batch, rows_a(problem), min_lda(problem), given.lda, given.stride_a, problem.a);
  const Matrices b(batch, rows_b(problem), min_ldb(problem), given.ldb, given.stride_b, problem.b);
  const Matrices c(batch, problem.m, problem.n, given.ldc, given.stride_c, problem.c);
  const bool reads = reads_operands(problem, given);
  const std::int64_t bytes_a = reads ? a.bytes() : 0, bytes_b = reads ? b.bytes() : 0,
                     bytes_c = c.bytes();
  Device& device = state_->device();
  std::int64_t workspace = 0;
  try {
    const DeviceBuffer on_a(device, bytes_a), on_b(device, bytes_b), on_c(device, bytes_c);
    const std::shared_ptr<const Executable> executable = state_->executable(problem, nullptr);
    workspace = executable->plan().workspace_bytes;
    const OwnStream stream(device);
    Call call = call_of(on_a.data(), min_lda(problem), on_b.data(), min_ldb(problem), on_c.data(),
                        min_ldc(problem), given.alpha, given.beta, stream.get());
    call.stride_a = a.device_stride(problem.a), call.stride_b = b.device_stride(problem.b);
    call.stride_c = c.device_stride(problem.c);
    if (reads) {
      upload(device, call.stream, on_a.data(), given.a, a);
      upload(device, call.stream, on_b.data(), given.b, b);
    }
    if (reads_c(problem, given.beta)) upload(device, call.stream, on_c.data(), given.c, c);
    executable->launch(call);
    download(device, call.stream, given.c, on_c.data(), c);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    const double needed = static_cast<double>(bytes_a) + static_cast<double>(bytes_b) +
                          static_cast<double>(bytes_c) + static_cast<double>(workspace);
    throw Error(ErrorKind::out_of_memory,
                to_string(problem) + " on host pointers needs " +
                    std::to_string(static_cast<std::int64_t>(needed / (1 << 20))) +
                    " MiB of device memory, and " + mebibytes(device.status().free_bytes) +
                    " are free: " + error.what());
  }
}

}  // namespace tilewise
