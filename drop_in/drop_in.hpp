#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/fork.hpp"
#include "drop_in/decision.hpp"
#include "drop_in/product.hpp"
#include "drop_in/settings.hpp"
#include "vocabulary/once.hpp"

namespace tilewise::drop_in {

/// The state of a call apart from its operands.
struct Circumstances {
  Stream stream = nullptr;
  int math = kDefaultMath;  ///< the handle's cublasMath_t
  bool scalars_on_host = true;
  bool all_multiprocessors = true;
  /// Of a call of cublasLt. Empty for cuBLAS's functions: cuBLAS has no query for a handle's
  /// workspace.
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
  Handle handle = nullptr;
  /// Reads all fields but the math mode from `handle`; false if it cannot. Null: all fields are
  /// known. Skips these queries (30 ns each) for calls that pass through anyway.
  bool (*ask)(Circumstances& of) = nullptr;

  bool complete() {
    auto* const question = std::exchange(ask, nullptr);
    return !question || question(*this);
  }
};

/// Times the first calls of a problem on the device, for the record. Thread-safe.
class Samples {
 public:
  static constexpr int kMost = 8;
  struct Sample {
    std::unique_ptr<Event> begin, end;
    bool ended = false;  ///< `end` was recorded
  };
  /// Call before the timed call. Returns null after kMost samples. Throws Error(device).
  Sample* begin(Device& device, Stream stream);
  /// Call after the timed call.
  void end(Sample& sample, Stream stream);
  /// The median time in us of the samples that the device has completed; 0 without any. The first
  /// call of a kernel includes the time to load it.
  double median_us();

 private:
  std::mutex mutex_;  // guards all below
  std::vector<std::unique_ptr<Sample>> samples_;
};

/// Without such a GPU `answerer` is null. `failed` is true then and after a fault.
struct OfDevice {
  std::unique_ptr<Answerer> answerer;
  std::atomic<bool> failed{false};
};

/// A problem that the process has multiplied on one device; for a record, one per set of leading
/// dimensions. Never removed.
struct Entry {
  Problem problem;
  MathMode math = MathMode::strict;  ///< of the product that answers
  OfDevice* there = nullptr;
  std::array<std::int64_t, 3> leading{};  ///< of Call's A, B, C; zeros without a record
  int device = 0;
  Decision decision;
  std::atomic<std::uint64_t> answered{0}, passed{0};
  Samples samples;
};

/// The drop-in of a process. Its functions do not throw. Thread-safe.
class DropIn {
 public:
  /// Made at the first product; never destroyed. finish() is called at the end of the process.
  /// CUDA, which began earlier, ends after it.
  static DropIn& of_process();
  explicit DropIn(Settings settings);

  struct Outcome {
    bool answered = false;
    Entry* timed = nullptr;  ///< problem whose call to cuBLAS is to be timed
    bool refused = false;    ///< the call must not reach cuBLAS (Settings::invariant)
  };
  /// False for a product that is passed through without being counted: one that no record would
  /// answer, and every product in a forked child.
  bool may_answer(const Gemm& gemm);
  /// Answers a product for which may_answer() is true, or counts the reason why not. After a fault,
  /// which is reported once, nothing is answered on that device.
  Outcome consider(const Gemm& gemm, Circumstances& circumstances) noexcept;
  /// Counts a call that is not answered, and refuses it with Settings::invariant; each reason is
  /// printed once. `problem`: of the call, if it is known.
  Outcome not_answered(Why why, const Problem* problem = nullptr,
                       const char* details = "") noexcept;
  /// Whether a call of a function that is never answered must not reach cuBLAS. Counts it then.
  bool refuses_function() noexcept {
    return settings_.on && refuses() && not_answered(Why::function).refused;
  }
  /// Enclose the timed call; begin_timing() returns null if the call is not timed.
  Samples::Sample* begin_timing(Entry& entry, Stream stream) noexcept;
  void end_timing(Entry& entry, Samples::Sample& sample, Stream stream) noexcept;

  /// Writes the report and the record, if Settings require them, once, at the end of the process.
  void finish() noexcept;

  std::uint64_t answered();  ///< number of products

  /// The report's text.
  std::string report();
  /// A list of problems in the format of `autotune --problems`, with counts, median times and
  /// leading dimensions. The weights are the total times.
  std::string record();

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  /// Returns the count before.
  std::uint64_t count(Why why) noexcept {
    return whys_[static_cast<std::size_t>(why)].fetch_add(1, kRelaxed);
  }
  using Key = std::pair<int, std::pair<Problem, std::array<std::int64_t, 3>>>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<Problem>()(key.second.first) * 31 + static_cast<std::size_t>(key.first) +
             static_cast<std::size_t>(key.second.second[0] * 7 + key.second.second[1] * 13 +
                                      key.second.second[2] * 17);
    }
  };

  int current_device() const noexcept;
  Entry* entry_of(const Product& product, int device, Circumstances& circumstances, Why& why);
  bool refuses() const { return settings_.invariant && settings_.record.empty(); }
  bool is_forked() const { return generation_ != fork_generation(); }
  void say_refusal(Why why, const Problem* problem, const char* details) const noexcept;
  OfDevice& of_device(int device);
  void fail(int device, const char* what) noexcept;

  const Settings settings_;
  const std::uint32_t generation_;  ///< of the process that made this object
  Once products_read_;
  std::optional<Products> products_;  ///< read at the first product
  std::optional<Database> database_;  ///< opened then, or with the first device under mutex_
  std::array<std::atomic<std::uint64_t>, kWhys> whys_{};
  std::atomic<bool> finished_{false};
  std::mutex mutex_;  // guards all below
  std::map<int, OfDevice> devices_;
  std::unordered_map<Key, std::unique_ptr<Entry>, KeyHash> entries_;
  bool said_ = false;
};

}  // namespace tilewise::drop_in
