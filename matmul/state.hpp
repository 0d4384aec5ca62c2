#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"
#include "matmul/executable_cache.hpp"
#include "matmul/host/host_products.hpp"
#include "matmul/image_store.hpp"
#include "matmul/matmul_internal.hpp"
#include "matmul/missed.hpp"
#include "matmul/resolve.hpp"
#include "vocabulary/once.hpp"

namespace tilewise {

/// The problem whose kernel is served: the same one, except for products with k = 0.
Problem as_served(Problem problem);

/// The number of problems whose choice a Matmul keeps. A choice takes about 4 KiB.
inline constexpr std::size_t kCachedExecutables = 4096;
/// The number of prepared problems whose resolution is kept besides, about 150 bytes each.
inline constexpr std::size_t kPrepared = 65536;

/// A Matmul without its per-thread memory: problem -> executable, made at first need and kept for
/// the last kCachedExecutables problems. Thread-safe. One executable is made at a time; a lookup of
/// a finished one does not wait for it.
///
/// Kernels stay loaded as long as the State lives: enqueued work and captured graphs use them
/// without the executable. An executable does not own its kernels and holds no device memory, so
/// that its destruction frees host memory only: at any time, also after the State's, in any thread
/// and in a child by fork().
struct Matmul::State {
 public:
  explicit State(MatmulParts parts);

  /// The executable for a problem; it may be launched while the State lives. Throws
  /// Error(invalid_argument) when a kernel of it is not loaded yet and `stream` is being captured:
  /// loading and compiling are not possible in a capture.
  /// `given` counts in the choice for a problem that was neither tuned nor prepared, outside of a
  /// capture.
  std::shared_ptr<const Executable> executable(const Problem& problem, Stream stream,
                                               const GivenPackings& given = {});
  /// The executable of `product` or of `batch`, which compute the same (folded_batch()): see
  /// Executable::problem().
  std::shared_ptr<const Executable> folded(const Problem& product, const Problem& batch,
                                           Stream stream);
  /// Multiplies where is_far(): by the problem's executable if its tensor maps take the call's
  /// strides, else by a default that does not use them.
  void multiply_far(const Problem& problem, const Call& call, const GivenPackings& given);
  /// Whether executable() returns at once.
  bool has_executable(const Problem& problem) const {
    return executables_.find(problem) != nullptr;
  }
  /// Loads the kernels of a problem and keeps its choice, without an executable.
  void prepare(const Problem& problem);
  /// The resolution of a problem, without a compiler.
  Resolution resolution(const Problem& problem);
  /// The same, with staleness where there is a compiler.
  Resolution explain(const Problem& problem);
  /// Packs an operand (contents.role) with the packing of the executable for `problem`, and waits
  /// for it. Without such a packing, `contents` gets no copy.
  void pack(const Problem& problem, const Call& call, PackedOperand::Contents& contents);
  Device& device() const { return *device_; }
  HostProducts& host_products() { return host_products_; }
  /// Unique in the process, also after destruction.
  std::uint64_t id() const { return id_; }

 private:
  struct Loaded {
    KernelNeed need;
    std::vector<std::unique_ptr<LoadedKernel>> kernels;  ///< the last one is for `need`
  };
  /// Of a kernel whose image is missing or broken.
  struct Refusal {
    Problem problem;  ///< that needed it first
    std::string why_not;
  };
  /// An attempt at one resolution: an executable, or the reason for its absence.
  struct Attempt {
    std::shared_ptr<const Executable> executable;
    std::string why_not;
    KernelSpec failed;              ///< the kernel that was not loaded
    bool broken = false;            ///< the image or the source is bad, not missing
    double seconds_to_compile = 0;  ///< expected, per kernel
  };
  enum class MayLoad { yes, no };  ///< no: in a capture

  std::shared_ptr<const Executable> make(const Problem& problem, MayLoad may_load);
  std::shared_ptr<const Executable> make(const Problem& problem, MayLoad may_load,
                                         const GivenPackings& given, Resolution* served);
  Attempt attempt(const Problem& problem, const Resolution& resolution, MayLoad may_load);
  LoadedKernel* loaded(const KernelSpec& kernel, const KernelNeed& need) const;
  LoadedKernel* load(const KernelSpec& kernel, const KernelNeed& need,
                     const std::string& launch_revision, Attempt& attempt);
  std::unique_ptr<LoadedKernel> try_load(const Image& image, const KernelNeed& need,
                                         std::string& why_not);
  std::unique_ptr<LoadedKernel> load_anew(const KernelSpec& kernel, const KernelNeed& need,
                                          const std::string& launch_revision,
                                          const std::string& why);
  ImageStore::Made image(const KernelSpec& kernel, const std::string& launch_revision,
                         Attempt& attempt);
  std::optional<Image> stored_image(const KernelSpec& kernel, const std::string& launch_revision);
  void require_loaded(const Plan& plan, const Problem& problem) const;
  std::shared_ptr<const Executable> without_maps(const Problem& problem, Stream stream);
  bool serves_folded(const Problem& product, const Problem& batch);
  std::shared_ptr<const Executable> either(const Problem& first, const Problem& second,
                                           Stream stream);
  bool is_missed(const Problem& problem, const Resolution& resolution);
  Resolution resolve(const Resolver& stored, const Problem& problem,
                     const GivenPackings& given = {});
  std::optional<Corrections> corrections(const Problem& kind);
  void check_bundle();
  void read_bundle(std::vector<Winner>& winners, std::vector<Record>& general);
  void read_stored();
  std::shared_ptr<const Resolver> read_before() const;
  std::shared_ptr<const Resolver> stored();
  std::shared_ptr<const Resolver> stored_for(const Problem& problem);
  std::shared_ptr<const Resolver> stored_with_compiler();
  void tune(const Problem& problem);
  std::string search_for(const Problem& problem);
  bool is_to_be_tuned(const Problem& problem);
  void meet_miss(const Problem& problem, const std::string& why_not);
  double seconds_to_compile(const Resolution& resolution) const;
  RefusedKernels refused() const;
  void quarantine(const Record& record, const std::string& why);
  template <class Write>
  std::string write_to_database(Write write);
  void give_up(const Problem& problem) const;
  void refuse(const Problem& problem, const Attempt& attempt);
  ImageCache* cache();
  const Compiler* compiler();
  void warn_once(const std::string& line);

  std::shared_ptr<Device> device_;  ///< shared with packed operands
  std::optional<Database> database_;
  std::optional<Database> bundle_;
  std::unique_ptr<ImageCache> cache_;
  std::unique_ptr<Compiler> compiler_;
  std::string no_compiler_;  ///< the reason when there is no compiler
  MatmulParts parts_;        ///< the remaining hooks and options
  Once cache_once_, compiler_once_, portfolio_once_;
  std::optional<Resolver> portfolio_;  ///< read at the first problem that nothing stored serves
  const std::uint64_t id_;

  ExecutableCache executables_{kCachedExecutables};
  /// Of prepared problems, guarded by make_mutex_. Problems of one candidate share a resolution.
  std::unordered_map<Problem, std::shared_ptr<const Resolution>> prepared_;
  std::map<Candidate, std::shared_ptr<const Resolution>> prepared_resolutions_;

  std::mutex make_mutex_;                ///< locked while an executable is made; guards the rest
  std::map<KernelSpec, Loaded> loaded_;  ///< shared by all sizes of a configuration; only grows

  mutable std::mutex refusals_mutex_;  ///< locked only briefly: resolution() takes it
  std::map<KernelSpec, Refusal> refusals_;

  mutable std::mutex stored_mutex_;         ///< locked only briefly; guards the next
  std::shared_ptr<const Resolver> stored_;  ///< null until it is read; replaced after a search
  std::mutex read_mutex_;                   ///< locked while it is read for the first time
  std::mutex informed_mutex_;               ///< guards the next two
  std::shared_ptr<const Resolver> informed_of_, informed_;  ///< stored_ and, with the compiler's
                                                            ///< identity for explain(), the same

  std::optional<MissedProblems> missed_;  ///< with OnMiss::record

  std::mutex search_mutex_;    ///< locked during a search: two would disturb each other's times
  std::mutex searched_mutex_;  ///< locked only briefly; guards the next two
  std::unordered_set<Problem> searched_;
  int failed_searches_ = 0;  ///< in a row

  HostProducts host_products_{parts_.host};

  std::mutex warn_mutex_;
  std::set<std::string> warned_;
};

}  // namespace tilewise
