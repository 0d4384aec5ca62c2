#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "api/host_pointers/host_plan.hpp"
#include "api/host_pointers/host_staging.hpp"
#include "api/host_pointers/split_cache.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// Data that a Matmul keeps for its products on host pointers: staging memory, and the splits of
/// the last products. Thread-safe.
class HostProducts {
 public:
  /// The expected time of a product in us; 0: unknown.
  using ExpectedUs = std::function<double(const Problem&)>;

  explicit HostProducts(const HostSettings& settings) : settings_(settings) {}

  const HostSettings& settings() const { return settings_; }
  HostStagingShelf& staging() { return staging_; }
  /// The device memory that a product may use while `free_bytes` are free. Without a limit, the
  /// driver and other threads keep 1/16 of the free memory, at most 512 MiB.
  std::int64_t budget(std::int64_t free_bytes) const;
  /// The split of a product within the budget, with its order; possibly that of an earlier product.
  /// `workspace_of`: see fitting_split(). Throws Error(out_of_memory).
  std::shared_ptr<const FittingSplit> split(const HostTask& task, std::int64_t free_bytes,
                                            const DeviceInfo& device,
                                            const WorkspaceOf& workspace_of,
                                            const ExpectedUs& expected_us);
  std::shared_ptr<const FittingSplit> new_split(const HostTask& task, std::int64_t free_bytes,
                                                const DeviceInfo& device,
                                                const WorkspaceOf& workspace_of,
                                                const ExpectedUs& expected_us);

 private:
  const HostSettings settings_;
  HostStagingShelf staging_;
  SplitCache splits_;
};

}  // namespace tilewise
