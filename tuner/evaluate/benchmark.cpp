#include "tuner/evaluate/benchmark.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include "tilewise/error.hpp"
#include "tuner/evaluate/energy.hpp"
#include "tuner/evaluate/sampler.hpp"
#include "tuner/evaluate/staging.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kMaxSets = 512;
constexpr double kSampleMicroseconds = 500;  // least length of a sample, if the sets allow
constexpr double kWarmUpMicroseconds = 10'000;
constexpr double kRoundMicroseconds = 10'000;
constexpr double kGlanceMicroseconds = 3'000;
constexpr std::size_t kGlanceSamples = 5;
// A candidate this many times slower than the best cannot win: it gets only a few launches.
constexpr double kHopeless = 1.5;
constexpr double kEstimateNoise = 50;  // microseconds: one launch includes part of the host time
constexpr int kHostLaunches = 20;
// Microseconds of device time. The host time is not measured if its launches would exceed it.
constexpr double kHostPatience = 10'000, kHostPatienceInRace = 100'000;

// The device runs the contestant for this long before a span of energy is measured.
constexpr double kEnergyWarmUpSeconds = 0.1;
// Measuring a span is given up after these seconds plus these steps: the counter does not change.
constexpr double kEnergyPatienceSeconds = 3;
constexpr int kEnergyPatienceSteps = 20;

bool is_hopeless(double estimate_us, double best_us) {
  return best_us > 0 && estimate_us > kHopeless * best_us + kEstimateNoise;
}

struct Placements {
  Placement a, b, c;
  explicit Placements(const Problem& p)
      : a(tight_placement(rows_a(p), min_lda(p), p.a, matrices_a(p))),
        b(tight_placement(rows_b(p), min_ldb(p), p.b, matrices_b(p))),
        c(tight_placement(p.m, p.n, p.c, matrices_c(p))) {}
};

}  // namespace

std::int64_t TimingBuffers::set_bytes(const Problem& problem) {
  const Placements places(problem);
  return places.a.bytes + places.b.bytes + places.c.bytes +
         ExtraOperands::bytes(problem, ExtraOperands::Kind::tight);
}

std::int64_t TimingBuffers::sets_wanted(const Problem& problem, const DeviceInfo& info, bool cold) {
  if (!cold) return 1;
  const std::int64_t bytes = std::max<std::int64_t>(1, set_bytes(problem));
  return std::clamp<std::int64_t>(ceil_div(2 * info.l2_bytes, bytes), 1, kMaxSets);
}

TimingBuffers::TimingBuffers(Device& device, Stream stream, const Reference& reference,
                             std::int64_t sets) {
  const Problem& problem = reference.problem();
  const Placements places(problem);
  const auto tight = ExtraOperands::Kind::tight;
  while (std::ssize(sets_) < sets) {
    try {
      sets_.push_back({DeviceMatrix(device, places.a), DeviceMatrix(device, places.b),
                       DeviceMatrix(device, places.c), ExtraOperands(device, problem, tight)});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory || sets_.empty()) throw;
      break;
    }
  }
  const Set& first = sets_.front();
  {
    std::vector<Placement> all = ExtraOperands::placements(problem, tight);
    all.insert(all.end(), {places.a, places.b, places.c});
    Staging staging(device, all);
    first.operands.upload(staging, stream, problem, reference.seed());
    staging.upload(stream, first.a, reference.data(DataSet::bounded, DataOf::a));
    staging.upload(stream, first.b, reference.data(DataSet::bounded, DataOf::b));
    staging.upload(stream, first.c, reference.data(DataSet::bounded, DataOf::c0));
  }
  for (const Set& set : sets_) {
    if (&set != &first) {
      device.copy_on_device(set.a.allocation(), first.a.allocation(), places.a.bytes, stream);
      device.copy_on_device(set.b.allocation(), first.b.allocation(), places.b.bytes, stream);
      device.copy_on_device(set.c.allocation(), first.c.allocation(), places.c.bytes, stream);
      set.operands.copy_from(first.operands, device, stream);
    }
    calls_.push_back(call_on(set.a, set.b, set.c, stream));
    set.operands.bind(calls_.back());
  }
  device.synchronize(stream);
}

Benchmark::Benchmark(Device& device, Stream stream, const Problem& problem,
                     const TimingBuffers& buffers, const TimingOptions& options)
    : device_(device),
      stream_(stream),
      buffers_(buffers),
      options_(options),
      start_(device.create_event()),
      end_(device.create_event()) {
  const std::int64_t l2 = device.info().l2_bytes;
  rotation_is_cold_ = std::ssize(buffers.calls()) * TimingBuffers::set_bytes(problem) >= 2 * l2;
  // Nothing to flush: one set alone exceeds the L2 twice over, or the timing is warm.
  if (!options.cold || l2 == 0 || TimingBuffers::set_bytes(problem) >= 2 * l2) return;
  try {
    scratch_ = DeviceBuffer(device, 2 * l2);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;  // without it, records have the state warm
  }
}

// Microseconds of one enqueued product. The first launch, which may include set-up, is not timed.
double Benchmark::estimate(const Enqueue& enqueue) {
  enqueue(buffers_.calls().front());
  start_->record(stream_);
  enqueue(buffers_.calls().back());
  end_->record(stream_);
  end_->wait();
  return end_->microseconds_since(*start_);
}

// A graph of enough launches for a sample. It rotates over all buffer sets a whole number of times.
// Where that would take too long, or the sets do not exceed the L2, the L2 is flushed before each
// run instead.
Benchmark::Timed Benchmark::prepare(const Enqueue& enqueue, double estimate_us) {
  const std::vector<Call>& calls = buffers_.calls();
  const std::int64_t sets = std::ssize(calls);
  const double us = std::max(estimate_us, 0.5);
  const auto wanted =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(kSampleMicroseconds / us)));
  const double longest_us = 1e6 * options_.max_seconds / std::max(1, options_.min_samples);
  Timed timed;
  timed.estimate_us = estimate_us;
  timed.launches = ceil_div(wanted, sets) * sets;
  if (options_.cold && scratch_.data() &&
      (!rotation_is_cold_ || static_cast<double>(timed.launches) * us > longest_us)) {
    timed.flush = true;
    timed.launches = std::min(wanted, sets);
  }
  timed.graph = device_.capture(stream_, [&] {
    for (std::int64_t i = 0; i < timed.launches; ++i) {
      enqueue(calls[static_cast<std::size_t>(i % sets)]);
    }
  });
  return timed;
}

double Benchmark::sample(Timed& timed) {
  if (timed.flush) device_.fill32(scratch_.data(), 0, scratch_.bytes() / 4, stream_);
  start_->record(stream_);
  timed.graph->launch(stream_);
  end_->record(stream_);
  end_->wait();
  return end_->microseconds_since(*start_) / static_cast<double>(timed.launches);
}

double Benchmark::host_microseconds(const Enqueue& enqueue, double estimate_us, double patience) {
  const std::vector<Call>& calls = buffers_.calls();
  if (estimate_us * kHostLaunches > patience) return 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kHostLaunches; ++i) enqueue(calls[i % calls.size()]);
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  device_.synchronize(stream_);
  return taken.count() / kHostLaunches;
}

void Benchmark::describe(Measurement& measurement, const Timed& timed) const {
  measurement.launches_per_sample = static_cast<int>(timed.launches);
  measurement.cold = options_.cold && (rotation_is_cold_ || timed.flush);
  measurement.method = "graph";
}

// Clock and power under load.
void Benchmark::read_status(Measurement& measurement, Timed& timed) {
  timed.graph->launch(stream_);
  const DeviceStatus status = device_.status();
  device_.synchronize(stream_);
  measurement.sm_clock_mhz = status.sm_clock_mhz;
  measurement.power_w = status.power_w;
  measurement.power_limit_w = status.power_limit_w;
}

// Energy per product; 0 when it cannot be measured. Two steps of some 10 ms are queued, so the
// device does not wait while the host reads the counter. The L2 is not flushed, since that would
// take energy, too.
double Benchmark::energy_mj(Timed& timed, double us) {
  const double graph_us = std::max(1.0, us * static_cast<double>(timed.launches));
  const auto graphs = static_cast<std::int64_t>(std::ceil(kRoundMicroseconds / graph_us));
  const double step_seconds = 1e-6 * graph_us * static_cast<double>(graphs);
  const double patience = kEnergyPatienceSeconds + kEnergyPatienceSteps * step_seconds;
  const std::array ends{device_.create_event(), device_.create_event()};
  EnergyCounter counter(device_);
  EnergySpan span;
  const auto began = std::chrono::steady_clock::now();
  std::size_t begun = 0, ended = 0;
  for (double seconds = 0; seconds < patience;) {
    for (; begun < ended + ends.size(); ++begun) {
      for (std::int64_t i = 0; i < graphs; ++i) timed.graph->launch(stream_);
      ends[begun % ends.size()]->record(stream_);
    }
    if (ends[ended % ends.size()]->reached())
      ++ended;
    else
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (seconds < kEnergyWarmUpSeconds) continue;
    const std::optional<double> mj = counter.read(seconds);
    const auto products = static_cast<std::int64_t>(ended) * graphs * timed.launches;
    if (!mj || span.add(seconds, *mj, products)) break;
  }
  device_.synchronize(stream_);
  return span.mj_per_product();
}

// The measurement of a candidate that a few launches prove too slow to win.
Measurement Benchmark::brief(double us, std::int64_t launches, bool cold,
                             const char* method) const {
  Measurement measurement = measurement_of({&us, 1});
  measurement.launches_per_sample = static_cast<int>(launches);
  measurement.cold = options_.cold && cold;
  measurement.method = method;
  return measurement;
}

Measurement Benchmark::measure(const Enqueue& enqueue, double best_us) {
  const double estimate_us = estimate(enqueue);
  if (is_hopeless(estimate_us, best_us)) return brief(estimate_us, 1, rotation_is_cold_, "event");
  Timed timed = prepare(enqueue, estimate_us);
  sample(timed);  // the first launch of a graph uploads it
  for (double warm_us = 0; warm_us < std::min(kWarmUpMicroseconds, 1e6 * options_.max_seconds);) {
    // A device only slows down as it warms up, so a hopeless time stays hopeless.
    const double us = sample(timed);
    if (best_us > 0 && us > kHopeless * best_us) {
      return brief(us, timed.launches, rotation_is_cold_ || timed.flush, "graph, cut short");
    }
    warm_us += std::max(1.0, us * static_cast<double>(timed.launches));
  }
  Sampler sampler(options_, best_us);
  for (bool enough = false; !enough;) {
    const double us = sample(timed);
    enough = sampler.add(us, us * static_cast<double>(timed.launches) * 1e-6);
  }
  Measurement measurement = sampler.measurement();
  describe(measurement, timed);
  read_status(measurement, timed);
  measurement.host_us = host_microseconds(enqueue, measurement.median_us, kHostPatience);
  return measurement;
}

double Benchmark::glance(const Enqueue& enqueue, double best_us) {
  const double estimate_us = estimate(enqueue);
  if (is_hopeless(estimate_us, best_us)) return estimate_us;
  Timed timed = prepare(enqueue, estimate_us);
  for (double warm_us = 0; warm_us < kGlanceMicroseconds;) {
    warm_us += std::max(1.0, sample(timed) * static_cast<double>(timed.launches));
  }
  std::vector<double> samples;
  while (samples.size() < kGlanceSamples) samples.push_back(sample(timed));
  return quantile(samples, 0.5);
}

// Mean time per product over some 10 ms.
double Benchmark::round_microseconds(Timed& timed) {
  sample(timed);
  double total_us = 0;
  int samples = 0;
  for (double spent_us = 0; spent_us < kRoundMicroseconds; ++samples) {
    const double us = sample(timed);
    total_us += us;
    spent_us += std::max(1.0, us * static_cast<double>(timed.launches));
  }
  return total_us / samples;
}

// The checksum of each set's C; empty where the device makes none, or buffers are borrowed.
std::vector<std::uint64_t> Benchmark::result_sums() {
  std::vector<std::uint64_t> sums(buffers_.calls().size());
  const auto bytes = static_cast<std::int64_t>(sums.size() * sizeof sums[0]);
  if (!sums_.data()) sums_ = DeviceBuffer(device_, bytes);
  device_.fill32(sums_.data(), 0, bytes / 4, stream_);
  for (std::size_t set = 0; set < sums.size(); ++set) {
    const DeviceMatrix* c = buffers_.c_of(set);
    if (!c || !device_.add_checksum(c->allocation(), c->placement().bytes,
                                    static_cast<std::uint64_t*>(sums_.data()) + set, stream_))
      return {};
  }
  device_.copy_to_host(sums.data(), sums_.data(), bytes, stream_);
  device_.synchronize(stream_);
  return sums;
}

std::vector<Raced> Benchmark::race(std::span<const Enqueue> contestants, std::size_t own,
                                   bool with_energy) {
  const std::size_t count = contestants.size();
  std::vector<Timed> timed;
  for (const Enqueue& enqueue : contestants) timed.push_back(prepare(enqueue, estimate(enqueue)));
  std::vector<std::vector<double>> rounds(count);
  std::vector<Raced> raced(count);
  std::vector<std::optional<std::uint64_t>> first_sums(own);
  // A graph that does not rotate over all sets leaves C of the other sets unchanged.
  const auto compare = [&](std::size_t i, int round) {
    std::vector<std::uint64_t> sums = result_sums();
    sums.resize(std::min(sums.size(), static_cast<std::size_t>(timed[i].launches)));
    if (sums.empty()) return;
    if (!first_sums[i]) first_sums[i] = sums.front();
    const bool equal = std::all_of(sums.begin(), sums.end(),
                                   [&](std::uint64_t sum) { return sum == first_sums[i]; });
    if (!equal && raced[i].wrong_round == 0) raced[i].wrong_round = round + 1;
  };
  for (int round = 0; round < options_.race_rounds; ++round) {
    for (std::size_t turn = 0; turn < count; ++turn) {
      // Each round begins with another contestant, so that none always follows the heat of the same
      // one.
      const std::size_t i = (turn + static_cast<std::size_t>(round)) % count;
      rounds[i].push_back(round_microseconds(timed[i]));
      if (i < own) compare(i, round);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    Measurement measurement = measurement_of(rounds[i]);
    describe(measurement, timed[i]);
    read_status(measurement, timed[i]);
    measurement.method = kRaceMethod;
    if (with_energy) measurement.energy_mj = energy_mj(timed[i], measurement.median_us);
    if (measurement.energy_mj == 0) with_energy = false;  // the others would have none, either
    measurement.host_us =
        host_microseconds(contestants[i], measurement.median_us, kHostPatienceInRace);
    raced[i].measurement = std::move(measurement);
  }
  return raced;
}

}  // namespace tilewise
