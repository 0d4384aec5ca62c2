#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "matmul/executable.hpp"
#include "matmul/prediction.hpp"
#include "matmul/stores.hpp"
#include "matmul/warnings.hpp"

namespace tilewise {

/// The loaded kernels of a Matmul, which all sizes share, and the kernels that do not load. Kernels
/// stay loaded as long as the table lives: enqueued work and captured graphs use them without an
/// executable. loaded() and load() must be called by one thread at a time; refuse(), refused() and
/// refusal_for() are thread-safe.
class KernelTable {
 public:
  KernelTable(Device& device, Stores& stores, Warnings& warnings)
      : device_(device), stores_(stores), warnings_(warnings) {}

  /// Null if the kernel is not loaded for that need.
  LoadedKernel* loaded(const KernelSpec& kernel, const KernelNeed& need) const;

  struct Loading {
    LoadedKernel* kernel = nullptr;
    std::string why_not;
    bool broken = false;  ///< the image or the source is bad, not missing
  };
  /// Loads a kernel that is not loaded for that need: its stored image, otherwise a compiled one.
  /// Compiles again if a stored image does not load. `seconds_to_compile`: the expected compile
  /// time, which also limits the wait for another process that compiles the image.
  Loading load(const KernelSpec& kernel, const KernelNeed& need, const std::string& launch_revision,
               double seconds_to_compile);

  /// Marks `kernel`, which `problem` needs, as not to be tried again.
  void refuse(const KernelSpec& kernel, const Problem& problem, const std::string& why_not);
  RefusedKernels refused() const;
  /// Why a kernel was refused that a problem of these types needs; empty if none was.
  std::string refusal_for(const Problem& problem) const;

 private:
  struct Loaded {
    KernelNeed need;
    std::vector<std::unique_ptr<LoadedKernel>> kernels;  ///< the last one is for `need`
  };
  struct Refusal {
    Problem problem;  ///< first problem that needed the kernel
    std::string why_not;
  };
  ImageStore::Made image(const KernelSpec& kernel, const std::string& launch_revision,
                         double seconds_to_compile, Loading& loading);
  std::unique_ptr<LoadedKernel> try_load(const Image& image, const KernelNeed& need,
                                         std::string& why_not);
  std::unique_ptr<LoadedKernel> load_anew(const KernelSpec& kernel, const KernelNeed& need,
                                          const std::string& launch_revision,
                                          const std::string& why);

  Device& device_;
  Stores& stores_;
  Warnings& warnings_;
  std::map<KernelSpec, Loaded> loaded_;  ///< only grows
  mutable std::mutex mutex_;             ///< locked only briefly; guards refusals_
  std::map<KernelSpec, Refusal> refusals_;
};

}  // namespace tilewise
