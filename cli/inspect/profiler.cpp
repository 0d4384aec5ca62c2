#include "cli/inspect/profiler.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>

#include "cli/common/program_output.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/csv.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "ncu";
constexpr const char* kVersions = "/opt/nvidia/nsight-compute";
constexpr std::string_view kStall = "smsp__average_warps_issue_stalled_";

// Shares are relative to the unit's peak: over the cycles in which a multiprocessor has work
// ("active"), or over the whole launch ("elapsed").
constexpr Counter kCounters[] = {
    {"gpu__time_duration.sum", "us", "time", CounterUnit::microseconds},
    {"sm__inst_issued.avg.pct_of_peak_sustained_active", "issue_slots", "issue slots",
     CounterUnit::share},
    {"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "multiply_add_pipe",
     "multiply-add pipe", CounterUnit::share},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor_pipe", "tensor pipe",
     CounterUnit::share},
    {"l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
     "shared_memory", "shared memory", CounterUnit::share},
    {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "bank_conflicts_of_loads",
     "bank conflicts (loads)", CounterUnit::count},
    {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "bank_conflicts_of_stores",
     "bank conflicts (stores)", CounterUnit::count},
    {"lts__throughput.avg.pct_of_peak_sustained_elapsed", "l2", "L2", CounterUnit::share},
    {"lts__t_bytes.sum", "l2_bytes", "L2 bytes", CounterUnit::bytes},
    {"lts__t_sector_hit_rate.pct", "l2_hits", "L2 hits", CounterUnit::share},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram", "DRAM", CounterUnit::share},
    {"dram__bytes.sum", "dram_bytes", "DRAM bytes", CounterUnit::bytes},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", "occupancy", "occupancy achieved",
     CounterUnit::share},
    {"smsp__warps_eligible.avg.per_cycle_active", "eligible_warps", "eligible warps",
     CounterUnit::ratio},
    {"launch__registers_per_thread", "registers", "registers", CounterUnit::count},
};

// Warps that wait for a reason, per issued instruction. "Not selected" warps, which could issue,
// are among them.
constexpr Counter kStalls[] = {
    {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "barrier", "barrier",
     CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio", "dispatch_stall",
     "dispatch stall", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio", "lg_throttle",
     "LG throttle", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "long_scoreboard",
     "long scoreboard", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
     "math_pipe_throttle", "math pipe throttle", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio", "mio_throttle",
     "MIO throttle", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio", "no_instruction",
     "no instruction", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio", "not_selected",
     "not selected", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
     "short_scoreboard", "short scoreboard", CounterUnit::ratio},
    {"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "wait", "wait",
     CounterUnit::ratio},
};
// wgmma's counter, which other capabilities lack.
constexpr Counter kHopperStall = {"smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
                                  "gmma", "GMMA", CounterUnit::ratio};
constexpr int kHopper = 9;  // major

std::vector<fs::path> profiler_folders() {
  std::vector<fs::path> folders = toolkit_folders();
  std::vector<fs::path> versions;
  std::error_code ignored;
  for (const auto& version : fs::directory_iterator(kVersions, ignored))
    versions.push_back(version.path());
  std::sort(versions.begin(), versions.end(), std::greater<>());
  folders.insert(folders.end(), versions.begin(), versions.end());
  return folders;
}

/// A number, with or without separators of thousands; else NaN.
double number_of(std::string text) {
  std::erase(text, ',');
  return number_in<double>(text).value_or(std::numeric_limits<double>::quiet_NaN());
}

/// ncu's times are in nanoseconds (--print-units base).
double scaled(const Counter& counter, double value) {
  return counter.unit == CounterUnit::microseconds ? value * 1e-3
         : counter.unit == CounterUnit::share      ? value * 1e-2
                                                   : value;
}

/// The error lines of ncu ("==ERROR==") or of the command ("autotune: error:"); otherwise the last
/// lines.
std::string complaint_of(const std::string& text) {
  std::istringstream lines(text);
  std::string found, last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("==ERROR==") != line.npos || line.find("error:") != line.npos)
      append(found, line, "\n");
    if (!line.empty()) last = line;
  }
  return found.empty() ? (last.empty() ? "nothing was printed" : last) : found;
}

/// The lines of ncu's table in the program's output: the title line and all later lines that begin
/// with a quote.
std::string table_in(const std::string& text) {
  std::istringstream lines(text);
  std::string line, table;
  while (std::getline(lines, line) && !line.starts_with("\"ID\",")) {
  }
  for (; lines && line.starts_with('"'); std::getline(lines, line)) table += line + '\n';
  return table;
}

}  // namespace

std::vector<Counter> counters_for(const Target& target) {
  std::vector<Counter> counters(std::begin(kCounters), std::end(kCounters));
  counters.insert(counters.end(), std::begin(kStalls), std::end(kStalls));
  if (target.major == kHopper) counters.push_back(kHopperStall);
  return counters;
}

bool is_stall(const Counter& counter) {
  return std::string_view(counter.metric).starts_with(kStall);
}

std::string find_profiler(const std::string& named) {
  if (!named.empty()) {
    if (is_program(named)) return named;
    if (is_program(fs::path(named) / kProgram)) return fs::path(named) / kProgram;
    throw Error(ErrorKind::io, "--ncu: there is no ncu at '" + named + "'");
  }
  if (std::string found = find_program(kProgram); !found.empty()) return found;
  for (const fs::path& folder : profiler_folders())
    if (is_program(folder / kProgram)) return folder / kProgram;
  throw Error(ErrorKind::unsupported,
              "--profile needs NVIDIA's ncu (Nsight Compute), which was not found on PATH, in "
              "CUDA_HOME, in /usr/local/cuda/bin or in " +
                  std::string(kVersions) + "; a CUDA toolkit has it; --ncu names one");
}

std::vector<ProfiledLaunch> read_profile(const std::string& text,
                                         const std::vector<Counter>& counters) {
  const std::vector<CsvRow> rows = csv_rows(table_in(text));
  const std::vector<std::string> titles =
      rows.empty() ? std::vector<std::string>() : rows[0].fields;
  const auto column = [&](const std::string& title) {
    return static_cast<std::size_t>(std::find(titles.begin(), titles.end(), title) -
                                    titles.begin());
  };
  const std::size_t kernel = column("Kernel Name");
  if (kernel == titles.size())
    throw Error(ErrorKind::io, "ncu measured nothing: " + complaint_of(text));
  std::vector<ProfiledLaunch> launches;
  for (std::size_t i = 2; i < rows.size(); ++i) {  // after the titles and the units
    const std::vector<std::string>& fields = rows[i].fields;
    const auto field = [&](std::size_t at) { return at < fields.size() ? fields[at] : ""; };
    ProfiledLaunch launch{field(kernel), {}};
    for (const Counter& counter : counters)
      launch.values.push_back(scaled(counter, number_of(field(column(counter.metric)))));
    launches.push_back(std::move(launch));
  }
  return launches;
}

std::vector<ProfiledLaunch> profile(const std::string& ncu, const ProfileRequest& request,
                                    const std::vector<Counter>& counters) {
  std::vector<std::string> command{ncu,
                                   "--csv",
                                   "--page",
                                   "raw",
                                   "--print-units",
                                   "base",
                                   "--print-kernel-base",
                                   "function",
                                   "--clock-control",
                                   "none",
                                   "--kernel-name",
                                   "regex:^(" + join(request.kernels, "|") + ")$",
                                   "--launch-skip",
                                   std::to_string(request.skip),
                                   "--launch-count",
                                   std::to_string(request.count),
                                   "--metrics",
                                   join(counters, ",", &Counter::metric)};
  command.insert(command.end(), request.command.begin(), request.command.end());
  const auto output = output_of(command, true);
  if (!output) throw Error(ErrorKind::io, "cannot start " + ncu);
  if (output->text.find("ERR_NVGPUCTRPERM") != output->text.npos)
    throw Error(ErrorKind::device,
                "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM); "
                "run as root or with CAP_SYS_ADMIN, or let the administrator load the driver with "
                "NVreg_RestrictProfilingToAdminUsers=0");
  if (output->status != 0) throw Error(ErrorKind::io, "ncu failed: " + complaint_of(output->text));
  std::vector<ProfiledLaunch> launches = read_profile(output->text, counters);
  if (launches.size() != request.count)
    throw Error(ErrorKind::io, "ncu measured " + std::to_string(launches.size()) + " of " +
                                   std::to_string(request.count) +
                                   " launches: " + complaint_of(output->text));
  return launches;
}

}  // namespace tilewise::cli
