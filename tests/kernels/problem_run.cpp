#include "tests/kernels/problem_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tuner/reference.hpp"
#if defined(TILEWISE_CHECK_ADDRESS)
#include <sanitizer/asan_interface.h>
#endif

namespace tilewise::check {
namespace {

constexpr float kCanary = 12345.0F;

}  // namespace

Operands::Matrix Operands::make(std::int64_t rows, std::int64_t columns, int alignment, int padding,
                                float between, std::uint64_t seed) {
  Matrix m;
  m.rows = rows, m.columns = columns;
  const std::int64_t unit = std::max(1, alignment / 4);
  // An odd number of units where there is padding: no better aligned than promised.
  m.ld = (columns + unit - 1) / unit * unit + padding * unit;
  m.offset = alignment < 16 ? unit : 0;
  m.data.assign(static_cast<std::size_t>(m.offset + (rows - 1) * m.ld + columns), between);
  std::mt19937_64 generator(seed);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      m.first()[r * m.ld + c] = static_cast<float>(static_cast<int>(generator() % 7) - 3);
  return m;
}

Operands::Operands(const Problem& problem, int padding, std::uint64_t seed)
    : problem_(problem),
      a_(make(rows_a(problem), min_lda(problem), problem.alignment.a, padding, NAN, seed)),
      b_(make(rows_b(problem), min_ldb(problem), problem.alignment.b, padding, NAN, seed + 1)),
      c_(make(problem.m, problem.n, problem.alignment.c, padding, kCanary, seed + 2)) {}

std::string Operands::difference(Device& device, const Executable& executable, double alpha,
                                 double beta) {
  Matrix expected = c_, got = c_;
  const Problem& p = problem_;
  reference_multiply(p.layout, p.m, p.n, p.k, alpha, a_.first(), a_.ld, b_.first(), b_.ld, beta,
                     expected.first(), c_.ld, 1);
  const auto upload = [&](const Matrix& m) {
    DeviceBuffer buffer(device, m.bytes());
    device.copy_to_device(buffer.data(), m.data.data(), m.bytes(), nullptr);
#if defined(TILEWISE_CHECK_ADDRESS)
    for (std::int64_t row = 0; row + 1 < m.rows; ++row)
      __asan_poison_memory_region(
          static_cast<float*>(buffer.data()) + m.offset + row * m.ld + m.columns,
          static_cast<std::size_t>(m.ld - m.columns) * sizeof(float));
#endif
    return buffer;
  };
  {
    const DeviceBuffer a = upload(a_), b = upload(b_), c = upload(c_);
    Call call;
    call.a = static_cast<float*>(a.data()) + a_.offset, call.lda = a_.ld;
    call.b = static_cast<float*>(b.data()) + b_.offset, call.ldb = b_.ld;
    call.c = static_cast<float*>(c.data()) + c_.offset, call.ldc = c_.ld;
    call.alpha = alpha, call.beta = beta;
    executable.launch(call);
#if defined(TILEWISE_CHECK_ADDRESS)
    __asan_unpoison_memory_region(c.data(), static_cast<std::size_t>(c.bytes()));
#endif
    device.copy_to_host(got.data.data(), c.data(), c.bytes(), nullptr);
#if defined(TILEWISE_CHECK_ADDRESS)
    for (const DeviceBuffer* buffer : {&a, &b})
      __asan_unpoison_memory_region(buffer->data(), static_cast<std::size_t>(buffer->bytes()));
#endif
  }
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    if (got.data[i] == expected.data[i]) continue;
    const std::int64_t at = static_cast<std::int64_t>(i) - c_.offset;
    const std::int64_t row = at < 0 ? -1 : at / c_.ld, column = at < 0 ? at : at % c_.ld;
    return "C[" + std::to_string(row) + "][" + std::to_string(column) + "] is " +
           std::to_string(got.data[i]) + " instead of " + std::to_string(expected.data[i]);
  }
  return "";
}

}  // namespace tilewise::check
