#include <optional>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/gpus.hpp"
#include "cli/common/json.hpp"
#include "cli/common/kinds.hpp"
#include "vocabulary/machine_limits.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

struct DevicesCommand {
  std::string device = "all";
};

void setup(CLI::App& app, DevicesCommand& options) {
  add_device_option(
      app, options.device,
      "all, auto (the first GPU, else the CPU), an index, a UUID; or host, host:sm_90");
  app.footer(
      "Peak rate = multiprocessors x lanes x 2 x clock; bandwidth = bus width x memory clock x 2; "
      "balance = peak rate / bandwidth: a kernel that does fewer flops per byte waits for "
      "memory. types: what A and B may be there; -v names every kind of product.\n\n" +
      examples({"autotune devices", "autotune devices --device 0 --json",
                "autotune devices --device host:sm_90 --verbose"}));
}

struct Shown {
  Gpu gpu;
  std::optional<DeviceStatus> status;  ///< empty when the device could not be opened
  std::vector<std::string> doubts;
};

Shown look_at(const Gpu& gpu) {
  Shown shown{gpu, {}, {}};
  try {
    shown.status = status_of(gpu);
    shown.doubts = doubts(*shown.status);
  } catch (const Error& error) {
    shown.doubts.push_back(std::string("cannot be opened: ") + error.what());
  }
  return shown;
}

double balance_of(const DeviceInfo& info) {
  return peak_bandwidth(info) > 0 ? peak_flops(info) / peak_bandwidth(info) : 0;
}

std::int64_t free_bytes(const Shown& shown) {
  return shown.status ? shown.status->free_bytes : shown.gpu.info.memory_bytes;
}

Json status_json(const DeviceStatus& status) {
  return {{"sm_clock_mhz", status.sm_clock_mhz},
          {"memory_clock_mhz", status.memory_clock_mhz},
          {"power_w", status.power_w},
          {"power_limit_w", status.power_limit_w},
          {"temperature_c", status.temperature_c},
          {"utilization_percent", status.utilization_percent},
          {"free_bytes", status.free_bytes},
          {"total_bytes", status.total_bytes},
          {"throttle", status.throttle},
          {"other_processes", status.other_processes}};
}

Json devices_json(const std::vector<Shown>& all) {
  const auto device_json = [](const Shown& shown) {
    const DeviceInfo& info = shown.gpu.info;
    Json json = json_of(info);
    json["index"] = info.target.host ? Json(shown.gpu.which) : Json(shown.gpu.index);
    json["gpu"] = gpu_key(info);
    if (info.target.host) json["usable_processors"] = usable_cores();
    json["peak_tflops"] = peak_flops(info) * 1e-12;
    json["peak_bandwidth"] = peak_bandwidth(info);
    json["balance_flop_per_byte"] = balance_of(info);
    json["largest_square"] = largest_square(free_bytes(shown), bytes_of(DType::f32));
    json["status"] = shown.status ? status_json(*shown.status) : Json(nullptr);
    json["kinds"] = kinds_on(info);
    json["warnings"] = shown.doubts;
    return json;
  };
  return {{"devices", array_of(all, device_json)}};
}

void print_verbose(const Shown& shown) {
  const DeviceInfo& info = shown.gpu.info;
  const auto bytes = [](std::int64_t value) { return format_bytes(static_cast<double>(value)); };
  print_line("\n" + device_name(shown.gpu) + "  " + info.name + "  " + info.uuid);
  print_line("  key: " + gpu_key(info) + ", target " + to_string(info.target));
  print_line("  L2 " + bytes(info.l2_bytes) + "; shared memory " + bytes(info.shared_per_block) +
             " a block, " + bytes(info.shared_per_multiprocessor) + " a multiprocessor");
  print_line("  " + std::to_string(info.registers_per_multiprocessor) + " registers, " +
             std::to_string(info.threads_per_multiprocessor) + " threads, " +
             std::to_string(info.blocks_per_multiprocessor) + " blocks a multiprocessor; " +
             std::to_string(info.fp32_lanes) + " fp32 lanes");
  if (info.target.host)
    print_line("  usable: " + std::to_string(usable_cores()) + " of " +
               std::to_string(info.multiprocessors) + " processors, " + bytes(free_bytes(shown)) +
               " of memory");
  std::string features;
  for (std::size_t i = 0; i < info.features.size(); ++i)
    if (info.features.test(i)) features += " " + std::string(to_string(static_cast<Feature>(i)));
  print_line("  features:" + features);
  print_line("  products: " + join(kinds_on(info)));
  if (!shown.status) return;
  const DeviceStatus& now = *shown.status;
  const auto known = [](double value, const char* unit) {
    return value > 0 ? format_number(value, 0) + unit : std::string("?");
  };
  print_line("  now: " + known(now.sm_clock_mhz, " MHz") + ", memory " +
             known(now.memory_clock_mhz, " MHz") + ", " + known(now.power_w, " W") + " of " +
             known(now.power_limit_w, " W") + ", " + known(now.temperature_c, " C"));
}

void print_all(const std::vector<Shown>& all, const Output& output) {
  Table table({{"", true},
               {"name", false, true},
               {"capability", false, false, 6},
               {"SMs", true, false, 5},
               {"clock", true, false, 4},
               {"memory", true},
               {"free", true, false, 2},
               {"TFLOP/s", true},
               {"TB/s", true, false, 1},
               {"flop/byte", true, false, 3},
               {"largest", true, false, 7},
               {"types", false, false, 8}});
  for (const Shown& shown : all) {
    const DeviceInfo& info = shown.gpu.info;
    table.add({device_name(shown.gpu), info.name,
               std::to_string(info.target.major) + "." + std::to_string(info.target.minor),
               std::to_string(info.multiprocessors), std::to_string(info.clock_khz / 1000) + " MHz",
               format_bytes(static_cast<double>(info.memory_bytes)),
               format_bytes(static_cast<double>(free_bytes(shown))),
               format_number(peak_flops(info) / 1e12, 1),
               format_number(peak_bandwidth(info) / 1e12, 2), format_number(balance_of(info), 1),
               std::to_string(largest_square(free_bytes(shown), bytes_of(DType::f32))),
               join(operand_types_on(info), " ")});
  }
  table.print(output);
  if (output.verbose)
    for (const Shown& shown : all) print_verbose(shown);
  for (const Shown& shown : all)
    for (const std::string& doubt : shown.doubts)
      warn("device " + device_name(shown.gpu) + ": " + doubt);
}

/// The devices of a name; "all" is every GPU, then the CPU.
std::vector<Gpu> devices_to_show(const std::string& device) {
  if (device != "all") return choose_gpus(device, false);
  std::vector<Gpu> gpus;
  try {
    gpus = choose_gpus(device, false);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::no_device) throw;
    warn(error.what());
  }
  gpus.push_back(choose_gpus("host", false).front());
  return gpus;
}

int run_devices(const DevicesCommand& options, const Output& output) {
  std::vector<Shown> all;
  for (const Gpu& gpu : devices_to_show(options.device)) all.push_back(look_at(gpu));
  if (output.json)
    print_document(devices_json(all));
  else
    print_all(all, output);
  return kOk;
}

}  // namespace

void add_devices(CLI::App& app, Selection& selection) {
  add_command<DevicesCommand>(app, selection, "devices",
                              "List GPUs and the CPU: peak rate, bandwidth, balance, memory, state",
                              setup, run_devices);
}

}  // namespace tilewise::cli
