#include "bench/compare/contest.hpp"

#include <limits>

#include "device/machines.hpp"
#include "matmul/executable.hpp"
#include "tilewise/error.hpp"

namespace tilewise::bench {
namespace {

// Up to this a reference holds every element. Beyond it rows, columns and sums over every row are
// checked, which takes a fraction of the time and misses nothing that a wrong kernel does.
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
  timing.cold = options.cold && !info.target.host;  // the CPU has no cache that could be emptied
  timing.race_rounds = options.rounds;
  return timing;
}

/// One product on poisoned C, held against the reference. Empty when it is right.
std::string check(Device& device, const Reference& reference, const Call& call,
                  const Enqueue& enqueue, Column& column) {
  const Problem& problem = reference.problem();
  const std::int64_t elements = problem.m * call.ldc;
  const HostBuffer got(device, elements * bytes_of(problem.c));
  device.fill32(call.c, kPoison, elements, call.stream);
  enqueue(call);
  device.copy_to_host(got.data(), call.c, got.bytes(), call.stream);
  device.synchronize(call.stream);
  const Comparison found = reference.compare(DataSet::bounded, {1, 0}, got.data(), call.ldc);
  column.error_ratio = found.error_ratio;
  return found.ok ? "" : "wrong result: " + found.worst;
}

}  // namespace

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
  multiply_.prepare(problem);
  row.match = multiply_.explain(problem);

  std::vector<Enqueue> players;
  std::vector<Column*> places;
  for (const Contestant& contestant : contestants(row, buffers)) {
    Column& column = *contestant.column;
    const std::string wrong =
        check(device_, reference, buffers.calls().front(), contestant.enqueue, column);
    if (wrong.empty()) {
      players.push_back(contestant.enqueue);
      places.push_back(&column);
    } else {
      column.detail = wrong;
      row.error +=
          (row.error.empty() ? "" : "; ") + std::string(to_string(column.player)) + ": " + wrong;
    }
  }
  Benchmark benchmark(device_, stream_.get(), problem, buffers, timing_);
  const std::vector<Measurement> measurements = benchmark.race(players);
  for (std::size_t i = 0; i < places.size(); ++i) places[i]->measurement = measurements[i];
}

std::vector<Contest::Contestant> Contest::contestants(Row& row, const TimingBuffers& buffers) {
  const Problem& problem = row.problem;
  std::vector<Contestant> made;
  made.push_back(
      {&row.columns[0], [this, &problem](const Call& call) { multiply_(problem, call); }});
  const auto add_library = [&](Column& column, BaselineLibrary* library, const std::string& why) {
    if (!library)
      column.detail = why;
    else if (!library->supports(problem))
      column.detail = "not a problem for " + library->name();
    else
      made.push_back(
          {&column, [library, &problem](const Call& call) { library->multiply(problem, call); }});
  };
  add_library(row.columns[1], cublas_.get(), no_cublas_);
  add_library(row.columns[2], pedantic_.get(), no_pedantic_);
  if (!lt_) {
    row.columns[3].detail = no_lt_;
  } else if (const int best = best_of_lt(problem, buffers, row.columns[3]); best >= 0) {
    made.push_back(
        {&row.columns[3], [this, best](const Call& call) { lt_->multiply(best, call); }});
  }
  return made;
}

// The candidate that is fastest at a glance; -1 when there is none, and the column says why.
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
