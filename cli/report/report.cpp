#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/json.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/signals.hpp"
#include "cli/common/stored.hpp"
#include "cli/report/report_page.hpp"
#include "tuner/search/search_memory.hpp"

namespace tilewise::cli {
namespace {

struct ReportCommand {
  std::string file, gpu, plotly, database;
};

void setup(CLI::App& app, ReportCommand& options) {
  app.add_option("-o,--output", options.file, "The page that is written")
      ->type_name("FILE")
      ->required();
  add_gpu_option(app, options.gpu);
  app.add_option("--plotly", options.plotly, "plotly.min.js, or a folder that contains it")
      ->type_name("PATH");
  add_database_option(app, options.database);
  app.footer(
      "Writes one HTML page that needs no network: what is tuned on which GPU, and for each "
      "problem the roofline, the search, the parameters' effects, the rejections and the winner. "
      "The figures are drawn by plotly.js of pip's package plotly (docs/report.md).\n\n" +
      examples({"autotune report -o report.html",
                "autotune report --db tuned.db --gpu H200 -o h200.html"}));
}

/// Writes a temporary file, then renames it: no incomplete page remains. Other targets than plain
/// files, such as a link or a pipe, are written in place.
void write_page(const std::string& path, const std::string& page) {
  std::error_code ignored;
  const auto type = std::filesystem::symlink_status(path, ignored).type();
  const bool plain =
      type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found;
  const std::string written = plain ? path + ".part" : path;
  std::ofstream file(written, std::ios::binary | std::ios::trunc);
  file << page;
  file.close();
  if (file && (!plain || std::rename(written.c_str(), path.c_str()) == 0)) return;
  const std::string why = std::strerror(errno);
  if (plain) std::remove(written.c_str());
  throw Error(ErrorKind::io, "--output: cannot write '" + path + "': " + why);
}

/// The problems of the page. If there are too many, those with the most records.
std::vector<Database::StoredProblem> shown_problems(const Database& database,
                                                    const std::vector<std::string>& gpus,
                                                    const ReportLimits& limits,
                                                    ReportSummary& summary) {
  std::vector<Database::StoredProblem> all;
  for (const std::string& gpu : gpus)
    for (Database::StoredProblem& one : database.problems(gpu)) all.push_back(std::move(one));
  for (const auto& one : all) summary.records += one.records;
  summary.problems = std::ssize(all);
  if (all.size() <= limits.problems) return all;
  std::vector<std::int64_t> counts;
  for (const auto& one : all) counts.push_back(one.records);
  std::nth_element(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(limits.problems),
                   counts.end(), std::greater<>());
  const std::int64_t least = counts[limits.problems];
  std::vector<Database::StoredProblem> shown;
  for (const bool more : {true, false})
    for (const auto& one : all)
      if ((one.records > least) == more) {
        if (shown.size() < limits.problems)
          shown.push_back(one);
        else
          ++summary.left_out_problems, summary.left_out_records += one.records;
      }
  return shown;
}

int run(const ReportCommand& options, const Output& output) {
  check_writable("--output", options.file);
  const Database database = open_to_read(options.database);
  std::error_code ignored;
  if (std::filesystem::equivalent(options.file, database.path(), ignored))
    throw Error(ErrorKind::invalid_argument,
                "--output: '" + options.file + "' is the database that the report is made of");
  const Plotly plotly = find_plotly(options.plotly);
  const std::vector<std::string> gpus = stored_gpus(database, options.gpu);
  std::vector<ReportGpu> devices;
  for (const std::string& gpu : gpus)
    devices.push_back({gpu, stored_device(database, gpu), database.device(gpu)});
  ReportSummary summary;
  summary.database = database.path().string();
  summary.made = now_text();
  const ReportLimits limits;
  const auto problems = shown_problems(database, gpus, limits, summary);
  std::vector<std::int64_t> counts;
  for (const auto& one : problems) counts.push_back(one.records);
  summary.most_candidates = candidates_each(counts, limits);
  catch_interrupts();
  Progress progress(output);
  std::vector<std::string> overviews, details;
  ReportStrings strings;
  std::int64_t candidates = 0;
  std::map<std::string, std::vector<Winner>> winners;  // of GPUs with orders
  for (const auto& one : problems) {
    if (interrupted()) return kInterrupted;
    progress.show(std::to_string(details.size()) + " of " + std::to_string(problems.size()) +
                  " problems");
    const auto device = std::find_if(devices.begin(), devices.end(),
                                     [&](const ReportGpu& gpu) { return gpu.key == one.gpu; });
    ReportProblem problem =
        read_problem_for_report(database, one, database.winner(one.problem, one.gpu),
                                summary.most_candidates, device->info);
    if (one.problem.order) {
      const auto [known, fresh] = winners.try_emplace(one.gpu);
      if (fresh) known->second = database.winners(one.gpu);
      problem.prices = order_prices(known->second, one.problem);
    }
    candidates += std::ssize(problem.candidates);
    overviews.push_back(overview_json(problem));
    details.push_back(details_json(problem, strings));
  }
  const std::string page = report_page(summary, devices, overviews, details, strings, plotly);
  write_page(options.file, page);
  if (output.json)
    print_document(Json{{"file", options.file},
                        {"bytes", page.size()},
                        {"database", summary.database},
                        {"gpus", gpus},
                        {"problems", problems.size()},
                        {"records", summary.records},
                        {"candidates", candidates},
                        {"left_out_problems", summary.left_out_problems},
                        {"plotly", {{"file", plotly.path}, {"version", plotly.version}}}});
  else
    note(output, options.file + ": " + format_bytes(static_cast<double>(page.size())) + ", " +
                     std::to_string(problems.size()) + " problems, " + std::to_string(candidates) +
                     " of " + std::to_string(summary.records) + " candidates");
  return kOk;
}

}  // namespace

void add_report(CLI::App& app, Selection& selection) {
  add_command<ReportCommand>(app, selection, "report",
                             "Write a page of all that is stored: figures of every search", setup,
                             run);
}

}  // namespace tilewise::cli
