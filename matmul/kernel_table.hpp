#pragma once
#include <cstdint>
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

/// The loaded kernels of a Matmul, shared by all sizes of a configuration, and those that do not
/// load. Kernels stay loaded as long as the table lives: enqueued work and captured graphs use them
/// without an executable. loaded() and load() are called by one thread at a time; refuse(),
/// refused() and refusal_for() by any.
class KernelTable {
 public:
  KernelTable(Device& device, Stores& stores, Warnings& warnings)
      : device_(device), stores_(stores), warnings_(warnings) {}

  /// Null when it is not loaded for that need.
  LoadedKernel* loaded(const KernelSpec& kernel, const KernelNeed& need) const;

  struct Loading {
    LoadedKernel* kernel = nullptr;
    std::string why_not;
    bool broken = false;  ///< the image or the source is bad, not missing
  };
  /// Loads a kernel that is not loaded for that need: its stored image, else a compiled one. A
  /// stored image that does not load is compiled anew. `seconds_to_compile`: expected; another
  /// process that compiles it is waited for as long.
  Loading load(const KernelSpec& kernel, const KernelNeed& need, const std::string& launch_revision,
               double seconds_to_compile);

  /// `kernel`, which `problem` needed, is not tried again.
  void refuse(const KernelSpec& kernel, const Problem& problem, const std::string& why_not);
  RefusedKernels refused() const;
  /// Why a kernel was refused that a problem of these types needed; empty where none was.
  std::string refusal_for(const Problem& problem) const;

 private:
  struct Loaded {
    KernelNeed need;
    std::vector<std::unique_ptr<LoadedKernel>> kernels;  ///< the last one is for `need`
  };
  struct Refusal {
    Problem problem;  ///< that needed it first
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
  mutable std::mutex mutex_;             ///< locked only briefly; guards the next
  std::map<KernelSpec, Refusal> refusals_;
};

}  // namespace tilewise
