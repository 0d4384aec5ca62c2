#include "tests/kernels/problem_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tuner/reference.hpp"
#if defined(TILEWISE_CHECK_ADDRESS)
#include <sanitizer/asan_interface.h>
#elif defined(TILEWISE_CHECK_THREADS)
#include <sanitizer/tsan_interface.h>

// What the compiler calls at a store where it instruments it; no header has it.
extern "C" void __tsan_write4(void* at);
#endif

namespace tilewise::check {
namespace {

constexpr float kCanary = 12345.0F;
constexpr std::int64_t kTags = 251;

/// What lies between the rows of a matrix in device memory must not be touched: an address
/// sanitizer watches while this lives.
class PoisonedGaps {
 public:
  PoisonedGaps(void* data, std::int64_t rows, std::int64_t columns, std::int64_t ld,
               std::int64_t offset)
      : first_(static_cast<float*>(data) + offset), rows_(rows), columns_(columns), ld_(ld) {
#if defined(TILEWISE_CHECK_ADDRESS)
    for (std::int64_t row = 0; row + 1 < rows_; ++row)
      __asan_poison_memory_region(gap(row), gap_bytes());
#endif
  }
  ~PoisonedGaps() { lift(); }
  PoisonedGaps(const PoisonedGaps&) = delete;
  PoisonedGaps& operator=(const PoisonedGaps&) = delete;
  void lift() const {
#if defined(TILEWISE_CHECK_ADDRESS)
    for (std::int64_t row = 0; row + 1 < rows_; ++row)
      __asan_unpoison_memory_region(gap(row), gap_bytes());
#endif
  }

 private:
  float* gap(std::int64_t row) const { return first_ + row * ld_ + columns_; }
  std::size_t gap_bytes() const { return static_cast<std::size_t>(ld_ - columns_) * sizeof(float); }

  float* first_;
  std::int64_t rows_, columns_, ld_;
};

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

Operands::Operands(const Problem& problem, int padding, std::uint64_t seed, Tag tag_them)
    : problem_(problem),
      a_(make(rows_a(problem), min_lda(problem), problem.alignment.a, padding, NAN, seed)),
      b_(make(rows_b(problem), min_ldb(problem), problem.alignment.b, padding, NAN, seed + 1)),
      c_(make(problem.m, problem.n, problem.alignment.c, padding, kCanary, seed + 2)) {
  if (tag_them != Tag::none) tag(tag_them);
}

/// As op(A)'s row i and column k, op(B)'s row k and column j are stored.
void Operands::tag(Tag tag) {
  const auto fill = [](Matrix& m, bool along_rows) {
    for (std::int64_t r = 0; r < m.rows; ++r)
      for (std::int64_t c = 0; c < m.columns; ++c)
        m.first()[r * m.ld + c] = static_cast<float>(1 + (along_rows ? r : c) % kTags);
  };
  // Whether k is the number of the stored row.
  const bool a_by_k = a_transposed(problem_.layout), b_by_k = !b_transposed(problem_.layout);
  fill(a_, a_by_k == (tag == Tag::k));
  fill(b_, b_by_k == (tag == Tag::k));
}

Operands::OnDevice Operands::upload(Device& device) const {
  const auto put = [&](const Matrix& m) {
    DeviceBuffer buffer(device, m.bytes());
    device.copy_to_device(buffer.data(), m.data.data(), m.bytes(), nullptr);
    return buffer;
  };
  return {put(a_), put(b_), put(c_)};
}

Call Operands::call(const OnDevice& on, double alpha, double beta) const {
  Call call;
  call.a = static_cast<float*>(on.a.data()) + a_.offset, call.lda = a_.ld;
  call.b = static_cast<float*>(on.b.data()) + b_.offset, call.ldb = b_.ld;
  call.c = static_cast<float*>(on.c.data()) + c_.offset, call.ldc = c_.ld;
  call.alpha = alpha, call.beta = beta;
  return call;
}

std::optional<Difference> Operands::difference(Device& device, const Executable& executable,
                                               double alpha, double beta) {
  Matrix expected = c_, got = c_;
  const Problem& p = problem_;
  reference_multiply(p.layout, p.m, p.n, p.k, alpha, a_.first(), a_.ld, b_.first(), b_.ld, beta,
                     expected.first(), c_.ld, 1);
  {
    const OnDevice on = upload(device);
    const PoisonedGaps poisoned[] = {{on.a.data(), a_.rows, a_.columns, a_.ld, a_.offset},
                                     {on.b.data(), b_.rows, b_.columns, b_.ld, b_.offset},
                                     {on.c.data(), c_.rows, c_.columns, c_.ld, c_.offset}};
    executable.launch(call(on, alpha, beta));
    poisoned[2].lift();
    device.copy_to_host(got.data.data(), on.c.data(), c_.bytes(), nullptr);
  }
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    if (got.data[i] == expected.data[i]) continue;
    const std::int64_t at = static_cast<std::int64_t>(i) - c_.offset;
    const std::int64_t row = at < 0 ? -1 : at / c_.ld, column = at < 0 ? at : at % c_.ld;
    return Difference{i, "C[" + std::to_string(row) + "][" + std::to_string(column) + "] is " +
                             std::to_string(got.data[i]) + " instead of " +
                             std::to_string(expected.data[i])};
  }
  return std::nullopt;
}

void Operands::watch(Device& device, const Executable& executable, double alpha, double beta,
                     std::size_t index) {
#if defined(TILEWISE_CHECK_THREADS)
  const OnDevice on = upload(device);
  void* const self = __tsan_get_current_fiber();
  void* const watcher = __tsan_create_fiber(0);
  __tsan_set_fiber_name(watcher, "the watch on the wrong element");
  __tsan_switch_to_fiber(watcher, __tsan_switch_to_fiber_no_sync);
  __tsan_write4(static_cast<float*>(on.c.data()) + index);
  __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
  executable.launch(call(on, alpha, beta));
  // With an edge each way: the buffers are released after the watch.
  __tsan_switch_to_fiber(watcher, 0);
  __tsan_switch_to_fiber(self, 0);
  __tsan_destroy_fiber(watcher);
#else
  static_cast<void>(device), static_cast<void>(executable), static_cast<void>(alpha);
  static_cast<void>(beta), static_cast<void>(index);
#endif
}

}  // namespace tilewise::check
