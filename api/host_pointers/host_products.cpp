#include "api/host_pointers/host_products.hpp"

#include <algorithm>
#include <string>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

/// The device's rate for this product, from its expected time. Small products need no rate.
HostRates rates_of(const HostTask& task, const HostSettings& settings, const DeviceInfo& info,
                   const HostProducts::ExpectedUs& expected_us) {
  HostRates rates;
  rates.multiprocessors = info.multiprocessors;
  const Problem& problem = task.problem;
  if (problem.k == 0 || operand_bytes(problem) <= static_cast<double>(settings.single_bytes))
    return rates;
  Problem whole = problem;
  set_alignment(whole, {16, 16, 16});
  const double microseconds = expected_us(whole);
  if (microseconds > 0) rates.flops = flops_of(whole) / microseconds * 1e6;
  return rates;
}

}  // namespace

std::int64_t HostProducts::budget(std::int64_t free_bytes) const {
  const std::int64_t rest = free_bytes - std::min(free_bytes / 16, std::int64_t{512} << 20);
  return settings_.memory_limit > 0 ? std::min(settings_.memory_limit, rest) : rest;
}

std::shared_ptr<const FittingSplit> HostProducts::split(const HostTask& task,
                                                        std::int64_t free_bytes,
                                                        const DeviceInfo& device,
                                                        const WorkspaceOf& workspace_of,
                                                        const ExpectedUs& expected_us) {
  if (std::shared_ptr<const FittingSplit> known = splits_.find(task, budget(free_bytes)))
    return known;
  return new_split(task, free_bytes, device, workspace_of, expected_us);
}

std::shared_ptr<const FittingSplit> HostProducts::new_split(const HostTask& task,
                                                            std::int64_t free_bytes,
                                                            const DeviceInfo& device,
                                                            const WorkspaceOf& workspace_of,
                                                            const ExpectedUs& expected_us) try {
  const HostRates rates = rates_of(task, settings_, device, expected_us);
  auto fit = std::make_shared<FittingSplit>(
      fitting_split(task, budget(free_bytes), settings_, rates, workspace_of));
  put_in_order(fit->plan);
  splits_.keep(budget(free_bytes), fit);
  return fit;
} catch (const Error& error) {
  if (error.kind() != ErrorKind::out_of_memory) throw;
  throw Error(error.kind(), std::string(error.what()) + ": " + std::to_string(free_bytes) +
                                " bytes are free, and the limit is " +
                                (settings_.memory_limit > 0 ? std::to_string(settings_.memory_limit)
                                                            : "what is free"));
}

}  // namespace tilewise
