#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "matmul/state.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

/// Rows that are not next to one another cross in pieces of about this size, gathered on the host,
/// so that neither the padding nor a copy of the whole matrix is needed.
constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;
constexpr std::int64_t kFloat = sizeof(float);

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

/// Runs `move(first, count)` over pieces of the rows.
template <class Move>
void in_pieces(std::int64_t rows, std::int64_t columns, Move move) {
  const std::int64_t piece = std::max<std::int64_t>(1, kPieceBytes / (columns * kFloat));
  for (std::int64_t first = 0; first < rows; first += piece)
    move(first, std::min(piece, rows - first));
}

void upload(Device& device, Stream stream, float* to, const float* from, std::int64_t rows,
            std::int64_t columns, std::int64_t ld) {
  if (ld == columns) return device.copy_to_device(to, from, rows * columns * kFloat, stream);
  std::vector<float> staged;
  in_pieces(rows, columns, [&](std::int64_t first, std::int64_t count) {
    staged.resize(static_cast<std::size_t>(count * columns));
    for (std::int64_t row = 0; row < count; ++row)
      std::copy_n(from + (first + row) * ld, columns, staged.data() + row * columns);
    device.copy_to_device(to + first * columns, staged.data(), count * columns * kFloat, stream);
    device.synchronize(stream);
  });
}

void download(Device& device, Stream stream, float* to, const float* from, std::int64_t rows,
              std::int64_t columns, std::int64_t ld) {
  if (ld == columns) {
    device.copy_to_host(to, from, rows * columns * kFloat, stream);
    return device.synchronize(stream);
  }
  std::vector<float> staged;
  in_pieces(rows, columns, [&](std::int64_t first, std::int64_t count) {
    staged.resize(static_cast<std::size_t>(count * columns));
    device.copy_to_host(staged.data(), from + first * columns, count * columns * kFloat, stream);
    device.synchronize(stream);
    for (std::int64_t row = 0; row < count; ++row)
      std::copy_n(staged.data() + row * columns, columns, to + (first + row) * ld);
  });
}

/// Bytes of a tightly packed matrix. Throws Error(out_of_memory) when no machine could hold it.
std::int64_t packed_bytes(std::int64_t rows, std::int64_t columns) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(rows, columns, &bytes) ||
      __builtin_mul_overflow(bytes, kFloat, &bytes))
    throw Error(ErrorKind::out_of_memory, "a matrix of " + std::to_string(rows) + " x " +
                                              std::to_string(columns) +
                                              " elements passes 2^63 bytes");
  return bytes;
}

std::string mebibytes(std::int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

/// The matrices are packed tightly on the device whatever their leading dimensions are on the host.
void Matmul::host(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                  const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                  float* c, std::int64_t ldc) {
  Problem problem;
  problem.layout = layout;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  Call call;
  call.a = a, call.b = b, call.c = c;
  call.lda = lda, call.ldb = ldb, call.ldc = ldc;
  call.alpha = alpha, call.beta = beta;
  check_call(problem, call);
  if (m == 0 || n == 0) return;

  const bool reads = reads_operands(problem, call);
  const std::int64_t bytes_a = reads ? packed_bytes(m, k) : 0;
  const std::int64_t bytes_b = reads ? packed_bytes(k, n) : 0;
  const std::int64_t bytes_c = packed_bytes(m, n);
  problem.alignment = natural_alignment(layout, m, n, k, problem.a, problem.b, problem.c);
  Device& device = state_->device();
  std::int64_t workspace = 0;
  try {
    const DeviceBuffer on_a(device, bytes_a), on_b(device, bytes_b), on_c(device, bytes_c);
    const Executable& executable = state_->executable(problem, nullptr);
    workspace = executable.plan().workspace_bytes;
    const OwnStream stream(device);
    call.stream = stream.get();
    call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = n;
    auto* const c_device = static_cast<float*>(on_c.data());
    if (reads) {
      upload(device, call.stream, static_cast<float*>(on_a.data()), a, rows_a(problem), call.lda,
             lda);
      upload(device, call.stream, static_cast<float*>(on_b.data()), b, rows_b(problem), call.ldb,
             ldb);
    }
    if (beta != 0.0F) upload(device, call.stream, c_device, c, m, n, ldc);
    executable.launch(call);
    download(device, call.stream, c, c_device, m, n, ldc);
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
