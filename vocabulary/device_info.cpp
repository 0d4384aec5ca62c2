#include "vocabulary/device_info.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tilewise/error.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

// In the order of the enum.
constexpr std::array<std::string_view, static_cast<std::size_t>(Feature::count_)> kFeatures{
    "cp_async", "ldmatrix", "mma_f16",  "mma_i8", "mma_bf16", "mma_tf32",
    "mma_f64",  "mma_fp8",  "mbarrier", "tma",    "clusters", "programmatic_launch",
    "wgmma"};

// A capability's limits from the programming guide's table of technical specifications, and the
// values of a typical device.
struct Nominal {
  int major, minor;
  int shared_per_block_kb, shared_per_multiprocessor_kb;
  int threads, blocks, fp32_lanes;
  int multiprocessors, clock_mhz, memory_clock_mhz, memory_bus_bits, memory_gb, l2_mb;
};
constexpr std::array kNominal{
    //      cc    sh/blk sh/SM threads blk lanes  SMs  clock memory  bus   GB  L2
    Nominal{7, 5, 64, 64, 1024, 16, 64, 40, 1590, 5001, 256, 16, 4},           // T4
    Nominal{8, 0, 163, 164, 2048, 32, 64, 108, 1410, 1593, 5120, 80, 40},      // A100
    Nominal{8, 6, 99, 100, 1536, 16, 128, 82, 1695, 9751, 384, 24, 6},         // RTX 3090
    Nominal{8, 7, 163, 164, 1536, 16, 128, 16, 1300, 3200, 256, 64, 4},        // AGX Orin
    Nominal{8, 9, 99, 100, 1536, 24, 128, 128, 2520, 10501, 384, 24, 72},      // RTX 4090
    Nominal{9, 0, 227, 228, 2048, 32, 128, 132, 1980, 3201, 6144, 140, 60},    // H200
    Nominal{10, 0, 227, 228, 2048, 32, 128, 148, 1965, 3996, 8192, 180, 126},  // B200
    Nominal{10, 3, 227, 228, 2048, 32, 128, 148, 1920, 3996, 8192, 270, 126},  // B300
    Nominal{11, 0, 227, 228, 1536, 24, 128, 20, 1575, 4266, 256, 128, 32},     // AGX Thor
    Nominal{12, 0, 99, 100, 1536, 24, 128, 170, 2407, 14001, 512, 32, 96},     // RTX 5090
    Nominal{12, 1, 99, 100, 1536, 24, 128, 48, 2418, 4266, 256, 128, 24},      // GB10
};

[[noreturn]] void bad_target(std::string_view text) {
  throw Error(ErrorKind::invalid_argument, "bad target \"" + std::string(text) +
                                               "\"; write it as sm_90, sm_90a, compute_90, 90 or "
                                               "9.0, and the CPU's as host or host:sm_90");
}

int parse_digits(std::string_view digits, std::string_view text) {
  const auto value = number_in<int>(digits);
  if (!value || *value < 0 || digits.size() > 2) bad_target(text);
  return *value;
}

}  // namespace

std::string_view to_string(Feature feature) {
  return kFeatures.at(static_cast<std::size_t>(feature));
}

std::string to_string(const Target& target) {
  return (target.host ? "host:sm_" : "sm_") + std::to_string(target.major) +
         std::to_string(target.minor) + (target.specific ? "a" : "");
}

Target parse_target(std::string_view text) {
  if (text == "host") return default_host_target();
  std::string_view rest = text;
  const bool host = rest.starts_with("host:");
  if (host) rest.remove_prefix(5);
  for (const std::string_view prefix : {"sm_", "compute_"}) {
    if (rest.starts_with(prefix)) {
      rest.remove_prefix(prefix.size());
      break;
    }
  }
  const bool specific = rest.ends_with('a');
  if (specific) rest.remove_suffix(1);
  if (rest.size() < 2) bad_target(text);
  // The last digit is the minor version, with or without a point before it.
  const std::string_view minor = rest.substr(rest.size() - 1);
  rest.remove_suffix(1);
  if (rest.ends_with('.')) rest.remove_suffix(1);
  const Target target{parse_digits(rest, text), parse_digits(minor, text), specific, host};
  if (target.major == 0) bad_target(text);
  return target;
}

Target best_target(int major, int minor) { return {major, minor, major >= 9}; }

Target best_target(const Target& named) {
  Target best = best_target(named.major, named.minor);
  best.host = named.host;
  return best;
}

Target default_host_target() { return {8, 0, false, true}; }

Features features_of(const Target& target) {
  const int capability = target.major * 10 + target.minor;
  Features features;
  const auto give = [&features](Feature feature, bool present) {
    features.set(static_cast<std::size_t>(feature), present);
  };
  for (const Feature feature : {Feature::ldmatrix, Feature::mma_f16, Feature::mma_i8}) {
    give(feature, capability >= 75);
  }
  for (const Feature feature :
       {Feature::cp_async, Feature::mma_bf16, Feature::mma_tf32, Feature::mbarrier}) {
    give(feature, capability >= 80);
  }
  give(Feature::mma_f64, capability == 80 || capability == 90 || capability == 100);
  give(Feature::mma_fp8, capability >= 89);
  for (const Feature feature : {Feature::tma, Feature::clusters, Feature::programmatic_launch}) {
    give(feature, capability >= 90);
  }
  give(Feature::wgmma, capability == 90 && target.specific);
  return features;
}

const std::vector<Target>& known_targets() {
  static const std::vector<Target> targets{
      {7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0, true}, {10, 0, true}, {10, 3, true}, {12, 0, true}};
  return targets;
}

std::string gpu_key(const DeviceInfo& info) {
  return info.name + (info.target.host ? "|host:" : "|") + std::to_string(info.target.major) + "." +
         std::to_string(info.target.minor) + "|" + std::to_string(info.multiprocessors);
}

DeviceInfo nominal_device(const Target& target) {
  const auto row = std::find_if(kNominal.begin(), kNominal.end(), [&](const Nominal& nominal) {
    return nominal.major == target.major && nominal.minor == target.minor;
  });
  if (row == kNominal.end()) {
    const std::string known = join(kNominal, ", ", [](const Nominal& nominal) {
      return to_string(Target{nominal.major, nominal.minor});
    });
    throw Error(ErrorKind::unsupported,
                "no facts are known of " + to_string(target) + "; there are facts of " + known);
  }
  DeviceInfo info;
  info.name = to_string(target) + " (nominal)";
  info.target = target;
  info.features = features_of(target);
  info.multiprocessors = row->multiprocessors;
  info.clock_khz = row->clock_mhz * 1000;
  info.memory_clock_khz = row->memory_clock_mhz * 1000;
  info.memory_bus_bits = row->memory_bus_bits;
  info.memory_bytes = std::int64_t{row->memory_gb} << 30;
  info.l2_bytes = std::int64_t{row->l2_mb} << 20;
  info.shared_per_block = row->shared_per_block_kb * 1024;
  info.shared_per_multiprocessor = row->shared_per_multiprocessor_kb * 1024;
  info.shared_reserved_per_block = target.major < 8 ? 0 : 1024;
  info.threads_per_multiprocessor = row->threads;
  info.blocks_per_multiprocessor = row->blocks;
  info.fp32_lanes = row->fp32_lanes;
  return info;
}

DeviceInfo nominal_from_key(const std::string& key) {
  const auto count_at = key.rfind('|');
  const auto target_at = count_at == std::string::npos || count_at == 0
                             ? std::string::npos
                             : key.rfind('|', count_at - 1);
  int count = 0;
  if (target_at != std::string::npos)
    count = number_in<int>(std::string_view(key).substr(count_at + 1)).value_or(0);
  if (count <= 0)
    throw Error(ErrorKind::invalid_argument,
                "'" + key + "' is not a GPU key; those read NAME|CAPABILITY|MULTIPROCESSORS");
  const Target target = parse_target(key.substr(target_at + 1, count_at - target_at - 1));
  DeviceInfo info = nominal_device(best_target(target));
  info.name = key.substr(0, target_at);
  info.multiprocessors = count;
  return info;
}

double peak_flops(const DeviceInfo& info) {
  return 2.0 * info.multiprocessors * info.fp32_lanes * info.clock_khz * 1e3;
}

double peak_bandwidth(const DeviceInfo& info) {
  return 2.0 * info.memory_bus_bits / 8 * info.memory_clock_khz * 1e3;
}

std::int64_t largest_square(std::int64_t free_bytes, int element_bytes) {
  if (free_bytes <= 0 || element_bytes <= 0) return 0;
  const std::int64_t elements = free_bytes / (std::int64_t{3} * element_bytes);
  auto n = static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements)));
  // The square root of a rounded double may be off by one.
  while (n * n > elements) --n;
  while ((n + 1) * (n + 1) <= elements) ++n;
  return n;
}

}  // namespace tilewise
