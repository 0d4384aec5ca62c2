#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "tuner/reference/judge.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {

struct ResultCheck::State {
  const Problem& problem;
  const BlockLayout layout;
  const Judge judge;
  std::mutex mutex;                         // guards the members below
  std::map<std::int64_t, Findings> pieces;  // by first row: merged in that order
  double freivalds_ratio = 0;
  std::int64_t bad_row = -1;  // the first row that fails Freivalds' check, and its values
  std::vector<std::byte> bad_values;

  State(const Reference& reference, DataSet set, const Scalars& scalars,
        std::optional<std::size_t> slot)
      : problem(reference.problem()),
        layout(problem, reference.block().data()),
        judge(problem, layout, set, scalars, slot) {}

  void note_freivalds(std::int64_t i, const std::byte* row, double ratio) {
    const std::lock_guard lock(mutex);
    freivalds_ratio = std::max(freivalds_ratio, ratio);
    if (ratio <= 1 || (bad_row >= 0 && bad_row < i)) return;
    bad_row = i;
    bad_values.assign(row, row + problem.n * bytes_of(problem.c.type));
  }
};

ResultCheck::ResultCheck(const Reference& reference, DataSet set, const Scalars& scalars,
                         std::optional<std::size_t> slot)
    : state_(std::make_unique<State>(reference, set, scalars, slot)) {}

ResultCheck::~ResultCheck() = default;

void ResultCheck::rows(std::int64_t first, std::int64_t count, const void* got, std::int64_t ld) {
  const Judge& judge = state_->judge;
  const bool by_vectors = state_->layout.header().sampled != 0 && !state_->problem.epilogue;
  const std::int64_t pitch = ld * bytes_of(judge.type());
  Findings findings;
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::byte* row = static_cast<const std::byte*>(got) + (i - first) * pitch;
    judge.row(findings, i, row);
    if (by_vectors) state_->note_freivalds(i, row, judge.freivalds(i, row));
  }
  const std::lock_guard lock(state_->mutex);
  state_->pieces.emplace(first, findings);
}

Comparison ResultCheck::finish(int threads) const {
  Findings findings;
  for (const auto& [first, piece] : state_->pieces) findings.merge(piece);
  const std::int64_t bad_row = state_->bad_row;
  if (bad_row >= 0 && !(findings.ratio > 1)) {
    Findings row;
    state_->judge.locate(row, bad_row, state_->bad_values.data(), threads);
    if (row.ratio > 1) findings = row;
  }
  return state_->judge.verdict(findings, state_->freivalds_ratio, bad_row);
}

Comparison Reference::compare(DataSet set, const Scalars& scalars, const void* got,
                              std::int64_t ldc, std::int64_t stride_c, int threads) const {
  ResultCheck check(*this, set, scalars);
  const std::int64_t bytes = bytes_of(problem_.c.type);
  const std::int64_t chunk = std::clamp<std::int64_t>(65536 / std::max<std::int64_t>(1, problem_.n),
                                                      1, std::max<std::int64_t>(1, problem_.m));
  const std::int64_t chunks = ceil_div(problem_.m, chunk);  // per matrix
  parallel_for(chunks * matrices_c(problem_), threads, [&](std::int64_t index, int) {
    const std::int64_t matrix = index / chunks, first = index % chunks * chunk;
    check.rows(matrix * problem_.m + first, std::min(chunk, problem_.m - first),
               static_cast<const std::byte*>(got) + (matrix * stride_c + first * ldc) * bytes, ldc);
  });
  return check.finish(threads);
}

}  // namespace tilewise
