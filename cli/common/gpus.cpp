#include "cli/common/gpus.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/common/inputs.hpp"
#include "cli/common/output.hpp"
#include "device/cpu/cpu.hpp"
#include "device/cuda/cuda.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/evaluate/validator.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/machine_limits.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

bool is_index(const std::string& text) {
  return !text.empty() && text.size() <= 4 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_uuid(const std::string& text) {
  return text.rfind("GPU-", 0) == 0 || text.rfind("MIG-", 0) == 0;
}

std::vector<Gpu> all_gpus() {
  std::vector<Gpu> gpus;
  for (const DeviceInfo& info : cuda::list_devices()) {
    const int index = static_cast<int>(gpus.size());
    gpus.push_back({index, info.uuid.empty() ? std::to_string(index) : info.uuid, info});
  }
  return gpus;
}

Gpu the_host(const std::string& which) {
  return {kHostIndex, cpu::host_name(which), cpu::device_info(which), ""};
}

/// The first GPU, otherwise the CPU with the reason.
Gpu first_gpu_or_host() {
  try {
    return all_gpus().front();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::no_device) throw;
    Gpu gpu = the_host("host");
    gpu.why_host = error.what();
    return gpu;
  }
}

std::string gpu_names(const std::vector<Gpu>& gpus) {
  return join(gpus, ", ", [](const Gpu& gpu) {
    return std::to_string(gpu.index) + " (" + gpu.info.name + ", " + gpu.info.uuid + ")";
  });
}

std::vector<Gpu> chosen(const std::string& device, const std::vector<Gpu>& gpus) {
  std::vector<Gpu> matches;
  for (const Gpu& gpu : gpus) {
    const bool same =
        is_index(device) ? number_in<int>(device) == gpu.index : gpu.info.uuid.starts_with(device);
    if (same) matches.push_back(gpu);
  }
  if (matches.size() == 1) return matches;
  throw Error(ErrorKind::no_device,
              "--device " + device + (matches.empty() ? " names no GPU" : " names several GPUs") +
                  "; there are " + gpu_names(gpus));
}

constexpr const char* kDeviceNames =
    "an index (0, 1, ...), a UUID (GPU-...), host or cpu (the same)";

/// Every device of a list. The CPU may occur several times; each is a worker of its own.
std::vector<Gpu> listed(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!cpu::is_host(name) && !is_index(name) && !is_uuid(name))
      throw Error(ErrorKind::invalid_argument,
                  "--device: '" + name + "' in a list is not " + kDeviceNames +
                      (name == "all" || name == "auto" ? "; " + name + " stands alone" : ""));
  std::vector<Gpu> present, devices;
  for (const std::string& name : names) {
    if (cpu::is_host(name)) {
      devices.push_back(the_host(name));
      continue;
    }
    if (present.empty()) present = all_gpus();
    const Gpu gpu = chosen(name, present).front();
    for (const Gpu& other : devices)
      if (other.index == gpu.index)
        throw Error(ErrorKind::invalid_argument, "--device: GPU " + gpu_names({gpu}) +
                                                     " is twice in the list, the second time as " +
                                                     name + "; each GPU once");
    devices.push_back(gpu);
  }
  return devices;
}

std::vector<Gpu> every_gpu_of(const std::string& device) {
  if (device.find(',') != std::string::npos) {
    const std::vector<std::string> names = split_list(device);
    if (!names.empty()) return listed(names);
  }
  if (cpu::is_host(device)) return {the_host(device)};
  if (device == "auto") return {first_gpu_or_host()};
  if (device != "all" && !is_index(device) && !is_uuid(device))
    throw Error(ErrorKind::invalid_argument, "--device: '" + device + "' is not auto, all, " +
                                                 kDeviceNames + ", nor a list as 0,1");
  const std::vector<Gpu> gpus = all_gpus();
  return device == "all" ? gpus : chosen(device, gpus);
}

}  // namespace

double host_bytes_available() {
  const UsableMemory memory = usable_memory();
  if (memory.total > 0) return static_cast<double>(memory.free);
  return std::numeric_limits<double>::infinity();  // not known: the allocation decides
}

std::vector<Gpu> choose_gpus(const std::string& device, bool one_of_each_kind) {
  const std::vector<Gpu> gpus = every_gpu_of(device);
  if (!one_of_each_kind) return gpus;
  std::vector<Gpu> kinds;
  for (std::vector<Gpu>& identical : group_identical(gpus)) {
    kinds.push_back(identical.front());
    kinds.back().left_out.assign(identical.begin() + 1, identical.end());
  }
  return kinds;
}

std::vector<std::vector<Gpu>> group_identical(const std::vector<Gpu>& gpus) {
  std::vector<std::vector<Gpu>> kinds;
  for (const Gpu& gpu : gpus) {
    const auto identical = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
      return gpu_key(kind.front().info) == gpu_key(gpu.info);
    });
    if (identical == kinds.end())
      kinds.push_back({gpu});
    else
      identical->push_back(gpu);
  }
  return kinds;
}

void print_left_out(const std::vector<Gpu>& gpus, const Output& output) {
  for (const Gpu& gpu : gpus) {
    if (gpu.left_out.empty()) continue;
    note(output, "device " + device_name(gpu) + " (" + gpu.info.name + ") stands for " +
                     counted(std::ssize(gpu.left_out), "more GPU") +
                     " of its kind, left out: " + join(gpu.left_out, ", ", device_name) +
                     "; identical GPUs share their records (--device INDEX names another)");
  }
}

Json left_out_json(const std::vector<Gpu>& gpus) {
  Json rows = Json::array();
  for (const Gpu& gpu : gpus)
    for (const Gpu& other : gpu.left_out)
      rows.push_back({{"index", other.index},
                      {"uuid", other.info.uuid},
                      {"gpu", gpu_key(other.info)},
                      {"used", gpu.index}});
  return rows;
}

std::string device_name(const Gpu& gpu) {
  return gpu.index == kHostIndex ? gpu.which : std::to_string(gpu.index);
}

std::vector<Target> parse_targets(const std::string& text) {
  if (text == "all") return known_targets();
  std::vector<Target> targets;
  for (const std::string& name : split_list(text)) {
    const Target target = parse_target(name);
    if (std::find(targets.begin(), targets.end(), target) == targets.end())
      targets.push_back(target);
  }
  if (targets.empty())
    throw Error(ErrorKind::invalid_argument,
                "--arch: empty; give targets as in sm_90,sm_80, or all");
  return targets;
}

std::vector<std::string> doubts(const DeviceStatus& status) {
  std::vector<std::string> lines;
  if (status.other_processes > 0)
    lines.push_back(std::to_string(status.other_processes) + " other compute process" +
                    (status.other_processes == 1 ? "" : "es") +
                    " on the GPU: times may be too long");
  else if (status.utilization_percent >= 20)
    lines.push_back("the GPU is " + std::to_string(status.utilization_percent) +
                    "% busy: times may be too long");
  if (!status.throttle.empty()) lines.push_back("the GPU is throttled: " + status.throttle);
  return lines;
}

double host_bytes_needed(const Problem& problem) {
  const auto m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
  const auto k = static_cast<double>(problem.k), batch = static_cast<double>(matrices_c(problem));
  const double elements = m * n * batch;
  const ReferenceLimits limits;
  const bool sampled = flops_of(problem) > limits.flops || elements > limits.elements;
  // 16 bytes per element where every element is stored, otherwise some 200 per row. The computation
  // also holds operands: A and B of one matrix of one data set at a time, or C0.
  const double wide = problem.a.type == DType::f64 ? 8 : 4;
  const double operands = wide * (m * k + k * n), c = wide * m * n;
  return sampled ? std::max(operands, c) + 200 * m * batch : operands + 16 * elements;
}

double device_bytes_needed(const Problem& problem) {
  const double operands = operand_bytes(problem);
  if (operands > 1e17) return operands;  // near the limit of 64-bit byte counts
  return static_cast<double>(Validator::minimal_bytes(problem));
}

double host_bytes_needed(const Problem& problem, const DeviceInfo& info) {
  const double needed = host_bytes_needed(problem);
  return info.target.host
             ? needed + device_bytes_needed(problem) + static_cast<double>(kBesideCandidatesBytes)
             : needed;
}

int cpu_compile_threads(const std::vector<Problem>& problems) {
  double needed = 0;
  for (const Problem& problem : problems)
    needed = std::max(needed, host_bytes_needed(problem) + device_bytes_needed(problem));
  const double most = (host_bytes_available() - needed) / static_cast<double>(kCompilerBytes);
  return static_cast<int>(
      std::clamp<double>(most, 1, std::max(1, usable_cores() / 2)));  // the other cores run kernels
}

void check_host_memory(const Problem& problem) {
  const double needed = host_bytes_needed(problem);
  const double available = host_bytes_available();
  if (needed <= available) return;
  throw Error(ErrorKind::out_of_memory, to_string(problem) + " needs " + format_bytes(needed) +
                                            " of host memory for test data and reference; " +
                                            format_bytes(available) + " are available");
}

void check_host_memory(const Problem& problem, const DeviceInfo& info) {
  if (!info.target.host) return check_host_memory(problem);
  const double needed = host_bytes_needed(problem, info), available = host_bytes_available();
  if (needed <= available) return;
  throw Error(ErrorKind::out_of_memory,
              to_string(problem) + " needs " + format_bytes(needed) + " of memory (" +
                  format_bytes(host_bytes_needed(problem)) + " for test data and reference, " +
                  format_bytes(device_bytes_needed(problem)) + " for A, B and C, " +
                  format_bytes(static_cast<double>(kBesideCandidatesBytes)) +
                  " for this program and a compiler); " + format_bytes(available) +
                  " are available");
}

void check_device_memory(const Problem& problem, const DeviceInfo& info,
                         const DeviceStatus& status) {
  if (info.target.host) return check_host_memory(problem, info);
  const double needed = device_bytes_needed(problem);
  if (needed <= static_cast<double>(status.free_bytes)) return;
  throw Error(ErrorKind::out_of_memory,
              to_string(problem) + " needs " + format_bytes(needed) + " of device memory; " +
                  format_bytes(static_cast<double>(status.free_bytes)) + " of " +
                  format_bytes(static_cast<double>(status.total_bytes)) + " are free on " +
                  info.name);
}

}  // namespace tilewise::cli
