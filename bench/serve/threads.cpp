#include "bench/serve/threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace tilewise::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Starts all threads at the same time. It spins, because a sleeping thread would start late.
class Gate {
 public:
  explicit Gate(int threads) : threads_(threads) {}
  void wait() {
    const int before = opened_.load();
    if (arrived_.fetch_add(1) + 1 == threads_) {
      arrived_ = 0;
      opened_ = before + 1;
      return;
    }
    while (opened_.load() == before) std::this_thread::yield();
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0}, opened_{0};
};

/// A thread's stream, operands, workspace and bound launches.
struct Lane {
  Lane(Device& of, const Problem& problem, const Executable& executable)
      : device(of),
        stream(of.create_stream()),
        operands(of, problem, stream),
        workspace(of, executable.plan().workspace_bytes),
        launches(executable.bind(operands.call, workspace.data())) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() { device.destroy_stream(stream); }

  Device& device;
  Stream stream;
  Operands operands;
  DeviceBuffer workspace;
  std::vector<BoundLaunch> launches;
  std::vector<double> served_us, bare_us;  ///< one value per round
};

template <class Work>
double per_call(Lane& lane, Gate& gate, int calls, Work work) {
  gate.wait();
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) work();
  const auto end = Clock::now();
  lane.device.synchronize(lane.stream);
  return std::chrono::duration<double, std::micro>(end - begin).count() / calls;
}

void run(Lane& lane, Gate& gate, Matmul& multiply, const Problem& problem, int rounds, int calls) {
  constexpr int kWarm = 5;
  for (int round = -kWarm; round < rounds; ++round) {
    const double served =
        per_call(lane, gate, calls, [&] { multiply(problem, lane.operands.call); });
    const double bare = per_call(lane, gate, calls, [&] {
      for (const BoundLaunch& launch : lane.launches)
        lane.device.launch(*launch.kernel, launch.shape, launch.arguments.data(), lane.stream);
    });
    if (round < 0) continue;
    lane.served_us.push_back(served);
    lane.bare_us.push_back(bare);
  }
}

double mean_of_round(const std::vector<std::unique_ptr<Lane>>& lanes,
                     std::vector<double> Lane::*times, std::size_t round) {
  double sum = 0;
  for (const auto& lane : lanes) sum += ((*lane).*times)[round];
  return sum / static_cast<double>(lanes.size());
}

}  // namespace

Statistics statistics_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double part) {
    return samples[static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1))];
  };
  return {at(0.5), (at(0.75) - at(0.25)) / 2 / at(0.5)};
}

ThreadTimes time_threads(Matmul& multiply, Device& device, const Problem& problem,
                         const Executable& executable, int threads, int rounds, int calls) {
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < threads; ++i)
    lanes.push_back(std::make_unique<Lane>(device, problem, executable));
  Gate gate(threads);
  std::vector<std::thread> running;
  for (const auto& lane : lanes)
    running.emplace_back([&] { run(*lane, gate, multiply, problem, rounds, calls); });
  for (std::thread& thread : running) thread.join();

  std::vector<double> served, bare, ratios;
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    served.push_back(mean_of_round(lanes, &Lane::served_us, round));
    bare.push_back(mean_of_round(lanes, &Lane::bare_us, round));
    ratios.push_back(served.back() / bare.back());
  }
  return {threads, statistics_of(served), statistics_of(bare), statistics_of(ratios)};
}

}  // namespace tilewise::bench
