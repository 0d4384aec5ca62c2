#include "bench/compare/contest.hpp"

#include <limits>
#include <optional>

#include "device/machines.hpp"
#include "matmul/executable.hpp"
#include "matmul/resolution.hpp"
#include "tilewise/error.hpp"

namespace tilewise::bench {
namespace {

// Up to these limits a reference stores every element. Beyond them it stores samples and sums over
// every row: this takes a fraction of the time and still finds every wrong kernel.
constexpr ReferenceLimits kReferenceLimits{2.0 * 1024 * 1024 * 1024, 2048.0 * 2048};

Matmul serve(std::unique_ptr<Device> device, const ContestOptions& options,
             const std::shared_ptr<std::vector<std::string>>& notes) {
  MatmulOptions asked;
  asked.database = options.database;
  asked.nvrtc = options.nvrtc;
  asked.warn = [notes](const std::string& line) { notes->push_back(line); };
  return make_matmul(parts_for(std::move(device), asked));
}

TimingOptions timing_for(const DeviceInfo& info, const ContestOptions& options) {
  TimingOptions timing;
  timing.cold = options.cold && !info.target.host;  // the CPU has no cache to flush
  timing.race_rounds = options.rounds;
  return timing;
}

// A bit pattern that is NaN in every floating-point type.
constexpr std::uint32_t kUnwritten = 0xFFFFFFFF;

/// The number of elements from the first of C to one past the last.
std::int64_t span_of_c(const Problem& problem, const Call& call) {
  return (problem.batch - 1) * call.stride_c + problem.m * call.ldc;
}

/// Fills C with kUnwritten, except for at most three bytes at either end that are not a whole word.
void make_unwritten(Device& device, const Call& call, std::int64_t bytes) {
  const std::int64_t into = -reinterpret_cast<std::intptr_t>(call.c) & 3;
  if (bytes - into >= 4)
    device.fill32(static_cast<std::byte*>(call.c) + into, kUnwritten, (bytes - into) / 4,
                  call.stream);
}

/// Computes one product and compares it with the reference.
Comparison product_of(Device& device, const Reference& reference, const Call& call,
                      const Enqueue& enqueue) {
  const Problem& problem = reference.problem();
  const std::int64_t bytes = span_of_c(problem, call) * bytes_of(problem.c.type);
  const HostBuffer got(device, bytes);
  make_unwritten(device, call, bytes);
  enqueue(call);
  device.copy_to_host(got.data(), call.c, bytes, call.stream);
  device.synchronize(call.stream);
  return reference.compare(DataSet::bounded, {1, 0}, got.data(), call.ldc, call.stride_c);
}

void append(std::string& text, const std::string& more) {
  text += (text.empty() ? "" : "; ") + more;
}

// A library may round more often than our bounds allow (sums of f16 parts in f16, tf32 by
// truncation). Its product is timed up to this error ratio; beyond it the product is wrong.
constexpr double kForgiven = 64;

}  // namespace

bool admit(Column& column, const Comparison& found) {
  column.error_ratio = found.error_ratio;
  column.normwise_error = found.normwise_error;
  if (found.ok) return true;
  const bool ours = column.player == Player::tuned || column.player == Player::bare;
  const bool forgiven = !ours && found.error_ratio <= kForgiven;
  append(column.detail,
         (forgiven ? "beyond the bound, timed all the same: " : "wrong result: ") + found.worst);
  return forgiven;
}

Contest::Contest(const ContestOptions& options)
    : options_(options),
      notes_(std::make_shared<std::vector<std::string>>()),
      opened_(open_device(options.device)),
      device_(*opened_),
      multiply_(serve(std::move(opened_), options, notes_)),
      timing_(timing_for(device_.info(), options)),
      stream_(device_),
      cublas_(cuda::load_cublas(device_, &no_cublas_)),
      pedantic_(cuda::load_cublas(device_, &no_pedantic_, cuda::CublasMath::pedantic)),
      lt_(cuda::load_cublas_lt(device_, &no_lt_)) {}

Row Contest::run(const Problem& problem) {
  Row row;
  row.problem = problem;
  for (const Player player : kPlayers) row.columns.emplace_back().player = player;
  if (problem.epilogue) row.columns.emplace_back().player = Player::bare;
  try {
    measure(row);
  } catch (const std::exception& error) {
    row.error = error.what();
  }
  return row;
}

void Contest::measure(Row& row) {
  const Problem& problem = row.problem;
  const Reference reference = Reference::compute(problem, 1, 0, kReferenceLimits);
  const TimingBuffers buffers(device_, stream_.get(), reference,
                              TimingBuffers::sets_wanted(problem, device_.info(), timing_.cold));
  row.strict_f32_error = reference.strict_f32_error();
  std::vector<Enqueue> players;
  std::vector<Column*> places;
  Problem bare = problem;
  bare.epilogue = nullptr;
  std::optional<Reference> of_bare;
  if (problem.epilogue) of_bare = Reference::compute(bare, 1, 0, kReferenceLimits);
  for (const Contestant& contestant : contestants(row, bare, buffers)) {
    const bool is_bare = contestant.column->player == Player::bare;
    if (!may_compete(row, contestant, is_bare ? *of_bare : reference, buffers.calls().front()))
      continue;
    players.push_back(contestant.enqueue);
    places.push_back(contestant.column);
  }
  Benchmark benchmark(device_, stream_.get(), problem, buffers, timing_);
  const std::vector<Raced> raced = benchmark.race(players, 0);
  for (std::size_t i = 0; i < places.size(); ++i) places[i]->measurement = raced[i].measurement;
}

// False if none of our kernels serves the problem; the reason is the row's error.
bool Contest::prepare(Row& row) {
  try {
    multiply_.prepare(row.problem);
    row.resolution = resolution_of(multiply_, row.problem);
    return true;
  } catch (const Error& error) {
    append(row.error, "tuned: " + std::string(error.what()));
    return false;
  }
}

// False if nothing serves the product without the epilogue; the reason is its column's detail.
bool Contest::prepare_bare(const Problem& bare, Column& column) {
  try {
    multiply_.prepare(bare);
    return true;
  } catch (const Error& error) {
    column.detail = error.what();
    return false;
  }
}

// A failure of a library is its column's detail; a failure of ours is the row's error.
bool Contest::may_compete(Row& row, const Contestant& contestant, const Reference& reference,
                          const Call& call) {
  Column& column = *contestant.column;
  Comparison found;
  try {
    found = product_of(device_, reference, call, contestant.enqueue);
  } catch (const Error& error) {
    append(column.detail, error.what());
    if (column.player == Player::tuned) append(row.error, "tuned: " + column.detail);
    return false;
  }
  const bool admitted = admit(column, found);
  if (!admitted) append(row.error, std::string(to_string(column.player)) + ": " + column.detail);
  return admitted;
}

std::vector<Contest::Contestant> Contest::contestants(Row& row, const Problem& bare,
                                                      const TimingBuffers& buffers) {
  const Problem& problem = row.problem;
  std::vector<Contestant> made;
  if (prepare(row))
    made.push_back(
        {&row.columns[0], [this, &problem](const Call& call) { multiply_(problem, call); }});
  const auto add_library = [&](Column& column, BaselineLibrary* library, const std::string& missing,
                               cuda::CublasMath math) {
    column.detail = library ? cuda::why_not_cublas(problem, math) : missing;
    if (column.detail.empty())
      made.push_back(
          {&column, [library, &problem](const Call& call) { library->multiply(problem, call); }});
  };
  add_library(row.columns[1], cublas_.get(), no_cublas_, cuda::CublasMath::default_);
  add_library(row.columns[2], pedantic_.get(), no_pedantic_, cuda::CublasMath::pedantic);
  if (!lt_) {
    row.columns[3].detail = no_lt_;
  } else if (const int best = best_of_lt(problem, buffers, row.columns[3]); best >= 0) {
    made.push_back(
        {&row.columns[3], [this, best](const Call& call) { lt_->multiply(best, call); }});
  }
  if (problem.epilogue && prepare_bare(bare, row.columns[4]))
    made.push_back({&row.columns[4], [this, &bare](const Call& call) {
                      Call without = call;
                      without.operands = {};
                      multiply_(bare, without);
                    }});
  return made;
}

// The index of the candidate that is fastest in a short measurement; -1 if there is none, with the
// reason in the column.
int Contest::best_of_lt(const Problem& problem, const TimingBuffers& buffers, Column& column) {
  int count = 0, best = -1, failed = 0;
  double best_us = std::numeric_limits<double>::infinity();
  std::string why = "its heuristic gave no candidate";
  try {
    count = lt_->ask(problem, buffers.calls(), options_.lt_candidates);
  } catch (const Error& error) {
    why = error.what();
  }
  Benchmark benchmark(device_, stream_.get(), problem, buffers, timing_);
  for (int i = 0; i < count; ++i) {
    try {
      const double us = benchmark.glance([this, i](const Call& call) { lt_->multiply(i, call); },
                                         best < 0 ? 0 : best_us);
      if (us < best_us) best = i, best_us = us;
    } catch (const Error& error) {
      ++failed;
      why = error.what();
    }
  }
  column.detail = best < 0
                      ? why
                      : "candidate " + std::to_string(best + 1) + " of " + std::to_string(count) +
                            (failed > 0 ? ", " + std::to_string(failed) + " failed" : "");
  return best;
}

}  // namespace tilewise::bench
