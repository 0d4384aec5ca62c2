#include "tuner/search/replay.hpp"
#include "cli/common/json.hpp"

#include "cli/command.hpp"
#include "cli/common/input_file.hpp"
#include "cli/common/inputs.hpp"
#include "tuner/search/strategy.hpp"

namespace tilewise::cli {
namespace {

constexpr const char* kMean =
    "mean over the repeats of the best time of all over the best time found";
constexpr const char* kCalculated = "random, calculated";

struct ReplayCommand {
  std::string data, strategy = "all";
  ReplayOptions replay;
  std::uint64_t shuffle_seed = 1;
  bool shuffle_values = false;
};

void setup(CLI::App& app, ReplayCommand& options) {
  app.add_option("data", options.data,
                 "CSV (columns of parameters, then median_ms), Kernel Tuner's cache, T4 results, "
                 "or an export of Tilewise; - is standard input")
      ->type_name("DATA")
      ->required();
  app.add_option("--strategy", options.strategy, "Its name, or all but exhaustive")
      ->type_name("all|NAME")
      ->capture_default_str();
  app.add_option("--repeats", options.replay.repeats,
                 "Searches of each strategy, with seeds 1 to N")
      ->type_name("N")
      ->transform(whole_number(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--evaluations", options.replay.evaluations, "Of each search")
      ->type_name("N")
      ->transform(whole_number(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--under-way", options.replay.under_way,
                 "Candidates proposed and without a result at a time, as while others compile")
      ->type_name("K")
      ->transform(whole_number(1, 100'000))
      ->capture_default_str();
  app.add_option("--jobs", options.replay.threads, "Threads; 0: all cores")
      ->type_name("N")
      ->transform(whole_number(0, 1024));
  app.add_flag("--shuffle-values", options.shuffle_values,
               "List the values of each parameter in a random order");
  app.footer(examples({"autotune replay recorded.csv --repeats 200 --under-way 16",
                       "zcat cache.json.gz | autotune replay - --strategy model --json",
                       "autotune export | autotune replay -"}));
}

struct Replayed {
  const RecordedSpace& recorded;
  std::vector<ReplayResult> results;  ///< the calculated result first
};

std::vector<std::string> strategies_of(const ReplayCommand& options) {
  std::vector<std::string> names;
  std::string known = "all";
  for (const StrategyInfo& info : strategies()) {
    known += ", " + info.name;
    // Exhaustive search has a fixed order.
    if (options.strategy == info.name || (options.strategy == "all" && info.name != "exhaustive"))
      names.push_back(info.name);
  }
  if (names.empty())
    throw Error(ErrorKind::invalid_argument,
                "--strategy: unknown strategy '" + options.strategy + "'; there are " + known);
  return names;
}

/// The evaluation counts in the table: 25, 50, 100, ... and the last.
std::vector<int> checkpoints(int evaluations) {
  std::vector<int> points;
  for (int n = 25; n < evaluations; n *= 2) points.push_back(n);
  points.push_back(evaluations);
  return points;
}

double after(const ReplayResult& result, int evaluations) {
  return result.reached.at(static_cast<std::size_t>(evaluations) - 1);
}

Json replay_json(const std::vector<Replayed>& all, const ReplayCommand& options) {
  const auto strategy_json = [&](const ReplayResult& result) {
    Json json{{"strategy", result.strategy}, {"ms_per_proposal", result.ms_per_proposal}};
    for (const int n : checkpoints(options.replay.evaluations))
      json["reached"][std::to_string(n)] = after(result, n);
    json["curve"] = result.reached;
    return json;
  };
  const auto space_json = [&](const Replayed& replayed) {
    return Json{{"name", replayed.recorded.name},
                {"configurations", replayed.recorded.times.size()},
                {"failed", replayed.recorded.failed()},
                {"best_us", replayed.recorded.best()},
                {"strategies", array_of(replayed.results, strategy_json)}};
  };
  return {{"mean", kMean},
          {"repeats", options.replay.repeats},
          {"under_way", options.replay.under_way},
          {"values_shuffled", options.shuffle_values},
          {"spaces", array_of(all, space_json)}};
}

void print_replayed(const Replayed& replayed, const ReplayCommand& options, const Output& output) {
  const RecordedSpace& recorded = replayed.recorded;
  print_line(recorded.name + ": " + std::to_string(recorded.times.size()) + " configurations, " +
             std::to_string(recorded.failed()) + " of them failed; the best takes " +
             format_microseconds(recorded.best()));
  std::vector<Column> columns{{"% after evaluations"}};
  const std::vector<int> points = checkpoints(options.replay.evaluations);
  for (const int n : points) columns.push_back({std::to_string(n), true});
  columns.push_back({"ms a proposal", true, false, 1});
  Table table(columns);
  for (const ReplayResult& result : replayed.results) {
    std::vector<std::string> cells{result.strategy};
    for (const int n : points) cells.push_back(format_number(100 * after(result, n), 1));
    cells.push_back(result.strategy == kCalculated ? "" : format_number(result.ms_per_proposal, 2));
    table.add(cells);
  }
  table.print(output);
}

std::vector<RecordedSpace> read_spaces(const ReplayCommand& options) {
  const std::string name = options.data == "-" ? "standard input" : options.data;
  std::vector<RecordedSpace> spaces = read_recorded(contents_of(options.data), name);
  if (options.shuffle_values)
    for (RecordedSpace& space : spaces) space.shuffle_values(options.shuffle_seed);
  return spaces;
}

int run_replay(const ReplayCommand& options, const Output& output) {
  const std::vector<std::string> names = strategies_of(options);
  const std::vector<RecordedSpace> spaces = read_spaces(options);
  std::vector<Replayed> all;
  for (const RecordedSpace& space : spaces) {
    all.push_back(
        {space, {{kCalculated, random_expectation(space, options.replay.evaluations), 0}}});
    for (const std::string& name : names)
      all.back().results.push_back(replay(space, name, options.replay));
    if (!output.json) print_replayed(all.back(), options, output);
  }
  if (output.json)
    print_document(replay_json(all, options));
  else
    note(output, std::string("%: ") + kMean + "; " + std::to_string(options.replay.repeats) +
                     " repeats, " + std::to_string(options.replay.under_way) + " under way");
  return kOk;
}

}  // namespace

void add_replay(CLI::App& app, Selection& selection) {
  add_command<ReplayCommand>(app, selection, "replay",
                             "Try search strategies on recorded times, without a GPU", setup,
                             run_replay);
}

}  // namespace tilewise::cli
