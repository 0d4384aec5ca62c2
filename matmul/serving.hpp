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

#include "matmul/check_call.hpp"
#include "matmul/emulated_counts.hpp"
#include "matmul/executable.hpp"
#include "matmul/executable_cache.hpp"
#include "matmul/kept_orders.hpp"
#include "matmul/kernel_table.hpp"
#include "matmul/missed.hpp"
#include "matmul/quantize.hpp"
#include "matmul/request.hpp"
#include "matmul/searches_on_miss.hpp"
#include "matmul/serving_parts.hpp"
#include "matmul/stored_winners.hpp"
#include "matmul/stores.hpp"
#include "matmul/warnings.hpp"

namespace tilewise {

/// The number of requests whose executable a Matmul caches, about 4 KiB each.
inline constexpr std::size_t kCachedExecutables = 4096;
/// The number of prepared problems whose resolution is kept in addition, about 150 bytes each.
inline constexpr std::size_t kKeptChoices = 65536;

/// Serves a Matmul's products on device pointers. Maps a request to an executable, which is made
/// when it is first needed and kept for the last kCachedExecutables requests. Thread-safe. One
/// executable is made at a time; a lookup of a finished one does not wait for it.
///
/// An executable does not own its kernels (KernelTable) and holds no device memory, so its
/// destruction frees host memory only. It may be destroyed at any time, even after this object, in
/// any thread and in a child after fork().
class Serving {
 public:
  explicit Serving(ServingParts parts);

  /// The executable for a request; it may be launched while this object lives. If request.product
  /// is set, the executable's problem() is that product or the batch. Throws
  /// Error(invalid_argument) if one of its kernels is not loaded yet and `stream` is being
  /// captured, because a capture allows neither loading nor compiling. `given`: packings of the
  /// call; they count in the choice for a problem that was neither tuned nor prepared, outside of a
  /// capture.
  std::shared_ptr<const Executable> executable(const Request& request, Stream stream,
                                               const GivenPackings& given = {});
  /// Whether executable() returns at once.
  bool has_executable(const Request& request) const {
    return executables_.find(request) != nullptr;
  }
  /// Loads the kernels of a problem and keeps its resolution, without an executable: for
  /// Matmul::prepare_range(). Matmul::prepare() makes an executable().
  void keep_choice(const Problem& problem);
  /// The resolution of a problem, without a compiler.
  Resolution resolution(const Problem& problem) {
    return winners_.resolve(orders_.in_order(problem), {kernels_.refused()});
  }
  /// The same, with staleness if there is a compiler, and with what has run of the mode `emulated`.
  Resolution explain(const Problem& problem);
  /// The problem with the order that is kept for it (KeptOrders).
  Problem in_order(const Problem& problem) { return orders_.in_order(problem); }
  /// Packs an operand (contents.role) with the packing of the executable for `problem`, and waits
  /// for it. Without such a packing, `contents` gets no copy.
  void pack(const Problem& problem, const Call& call, PackedOperand::Contents& contents);
  /// Enqueues a checked quantization that has elements. Throws as executable() does.
  void quantize(const Quantization& asked);
  Device& device() const { return *device_; }
  /// Unique in the process, even after destruction.
  std::uint64_t id() const { return id_; }

 private:
  /// The result of trying one resolution: an executable, or the reason why there is none.
  struct Attempt {
    std::shared_ptr<const Executable> executable;
    KernelSpec failed;  ///< the kernel that was not loaded
    std::string why_not;
    bool broken = false;  ///< see KernelTable::Loading
  };
  enum class MayLoad { yes, no };  ///< no: in a capture

  std::shared_ptr<const Executable> make(const Request& request, const GivenPackings& given,
                                         MayLoad may_load, Resolution* served = nullptr);
  Attempt attempt(const Request& request, const Resolution& resolution, MayLoad may_load);
  const Resolution* kept(const Request& request) const;
  std::shared_ptr<const Executable> in_kept_order(const Request& request, Stream stream,
                                                  const GivenPackings& given);
  std::shared_ptr<const Executable> product_or_batch(const Request& request, Stream stream);
  bool is_missed(const Request& request, const Resolution& resolution);
  void meet_miss(const Problem& problem, const std::string& why_not);
  void search_if_due(const Problem& problem);
  double seconds_to_compile(const Resolution& resolution) const;
  void quarantine(const Record& record, const std::string& why);
  void give_up(const Problem& problem) const;

  std::shared_ptr<Device> device_;  ///< shared with packed operands
  Warnings warnings_;
  Stores stores_;
  StoredWinners winners_;
  KeptOrders orders_;
  SearchesOnMiss searches_;
  CountedProblems counted_;  ///< outlives the kernels
  KernelTable kernels_;      ///< its loads are guarded by make_mutex_
  const OnMiss on_miss_;
  std::optional<MissedProblems> missed_;  ///< used with OnMiss::record
  const std::uint64_t id_;

  ExecutableCache executables_{kCachedExecutables};
  /// Loaded kernels of quantizations, by quantize_number(); set once.
  std::array<std::atomic<const LoadedKernel*>, kQuantizeKernels> quantizing_{};
  std::mutex make_mutex_;  ///< locked while an executable is made; guards the next two
  /// The resolutions that keep_choice() keeps. Problems with one candidate share a resolution.
  std::unordered_map<Problem, std::shared_ptr<const Resolution>> kept_;
  std::map<Candidate, std::shared_ptr<const Resolution>> kept_resolutions_;
};

}  // namespace tilewise
