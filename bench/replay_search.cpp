// Replays search strategies on measured configurations, without a GPU:
//   replay_search FILE.csv [--repeats N] [--ahead N] [--json]
// FILE has a header of parameter names, then median_ms (and columns that are ignored), and one row
// per valid configuration. Prints the expected % of the best configuration's speed after some
// numbers of evaluations, and the computed expectation of random search without replacement.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "templates/space/search_space.hpp"
#include "tilewise/error.hpp"
#include "tuner/search/strategy.hpp"

using namespace tilewise;

namespace {

const std::vector<int> kCheckpoints{25, 50, 100, 200, 400, 800};

struct Replay {
  std::vector<std::string> names;
  std::map<Configuration, double> microseconds;
  double best = 0;
};

Replay read_replay(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::io, "cannot read " + path);
  const auto cells = [](const std::string& line) {
    std::vector<std::string> parts;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) parts.push_back(cell);
    return parts;
  };
  std::string line;
  std::getline(file, line);
  Replay replay{cells(line), {}, 0};
  const auto time = std::find(replay.names.begin(), replay.names.end(), "median_ms");
  if (time == replay.names.end()) throw Error(ErrorKind::io, path + " has no column median_ms");
  replay.names.erase(time, replay.names.end());
  while (std::getline(file, line)) {
    const auto row = cells(line);
    if (row.size() <= replay.names.size()) throw Error(ErrorKind::io, "short row: " + line);
    Configuration configuration;
    for (std::size_t i = 0; i < replay.names.size(); ++i)
      configuration.set(replay.names[i], std::stoi(row[i]));
    const double us = std::stod(row[replay.names.size()]) * 1e3;
    replay.microseconds[configuration] = us;
    if (replay.best == 0 || us < replay.best) replay.best = us;
  }
  return replay;
}

/// A constraint: these parameters' values occur together in some row.
Constraint occur_together(const Replay& replay, const std::vector<std::string>& names) {
  std::set<std::vector<int>> seen;
  const auto values_of = [names](const Configuration& configuration) {
    std::vector<int> values;
    for (const std::string& name : names) values.push_back(configuration.at(name));
    return values;
  };
  for (const auto& row : replay.microseconds) seen.insert(values_of(row.first));
  std::string text = "measured together:";
  for (const std::string& name : names) text += " " + name;
  return {text, names, text, [seen, values_of](const ConstraintInput& in) {
            return seen.count(values_of(in.configuration)) != 0;
          }};
}

/// The constraints behind the rows are not in the file. They are replaced by pairs and triples of
/// parameters that never occur, and by the rows themselves.
KernelTemplate replay_template(const Replay& replay) {
  KernelTemplate kernel;
  kernel.name = "replay";
  std::vector<std::set<int>> values(replay.names.size());
  for (const auto& row : replay.microseconds)
    for (std::size_t i = 0; i < replay.names.size(); ++i)
      values[i].insert(row.first.at(replay.names[i]));
  for (std::size_t i = 0; i < replay.names.size(); ++i)
    kernel.parameters.push_back({replay.names[i], {values[i].begin(), values[i].end()}, ""});
  const auto& names = replay.names;
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = i + 1; j < names.size(); ++j) {
      kernel.constraints.push_back(occur_together(replay, {names[i], names[j]}));
      for (std::size_t k = j + 1; k < names.size(); ++k)
        kernel.constraints.push_back(occur_together(replay, {names[i], names[j], names[k]}));
    }
  kernel.constraints.push_back(occur_together(replay, names));
  kernel.supports = [](const Problem&, const DeviceInfo&) { return true; };
  kernel.default_configuration = [](const Problem&, const DeviceInfo&) { return Configuration(); };
  return kernel;
}

/// The best time of all over the expected best of n rows drawn without replacement.
double random_expectation(const Replay& replay, int n) {
  std::vector<double> sorted;
  for (const auto& row : replay.microseconds) sorted.push_back(row.second);
  std::sort(sorted.begin(), sorted.end());
  const double count = static_cast<double>(sorted.size());
  double none_before = 1, sum = 0;  // probability that no faster row was drawn
  for (std::size_t i = 0; i < sorted.size() && none_before > 0; ++i) {
    const double left = count - static_cast<double>(i);
    const double hit = std::min(1.0, n / left);
    sum += none_before * hit * sorted[i];
    none_before *= 1 - hit;
  }
  return replay.best / sum;
}

/// The best time so far at each checkpoint, for one seed. `ahead` candidates are in flight at a
/// time, as with compiles that run ahead of the device.
std::vector<double> run_once(const Replay& replay, const SearchSpace& space,
                             const std::string& name, std::uint64_t seed, std::size_t ahead) {
  const auto strategy = make_strategy(name, space, seed);
  std::deque<Candidate> under_way;
  std::vector<double> result;
  double best = 0;
  for (int evaluations = 1; evaluations <= kCheckpoints.back(); ++evaluations) {
    while (under_way.size() < ahead) {
      auto candidate = strategy->next();
      if (!candidate) break;
      under_way.push_back(std::move(*candidate));
    }
    if (!under_way.empty()) {
      const double us = replay.microseconds.at(under_way.front().configuration);
      if (best == 0 || us < best) best = us;
      strategy->observe(under_way.front(), us);
      under_way.pop_front();
    }
    if (std::count(kCheckpoints.begin(), kCheckpoints.end(), evaluations)) result.push_back(best);
  }
  return result;
}

struct Line {
  std::string name;
  std::vector<double> mean;
};

void print(const std::vector<Line>& lines, bool json) {
  if (!json) {
    std::printf("%-22s", "evaluations");
    for (int n : kCheckpoints) std::printf("%8d", n);
    std::printf("\n");
  }
  for (const Line& line : lines) {
    std::printf(json ? "%s{\"strategy\":\"%s\"" : "%s%-22s",
                !json ? "" : (&line == &lines.front() ? "[" : ",\n"), line.name.c_str());
    for (std::size_t i = 0; i < line.mean.size(); ++i)
      if (json)
        std::printf(",\"%d\":%.5f", kCheckpoints[i], line.mean[i]);
      else
        std::printf("%8.1f", line.mean[i] * 100);
    std::printf(json ? "}" : "\n");
  }
  if (json) std::printf("]\n");
}

int run(const std::vector<std::string>& arguments) {
  std::string path;
  int repeats = 100;
  std::size_t ahead = 8;
  bool json = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto number = [&] {
      if (++i == arguments.size())
        throw Error(ErrorKind::invalid_argument, arguments[i - 1] + " needs a number");
      return std::max(1, std::atoi(arguments[i].c_str()));
    };
    if (arguments[i] == "--repeats")
      repeats = number();
    else if (arguments[i] == "--ahead")
      ahead = static_cast<std::size_t>(number());
    else if (arguments[i] == "--json")
      json = true;
    else
      path = arguments[i];
  }
  const Replay replay = read_replay(path);
  const KernelTemplate kernel = replay_template(replay);
  const SearchSpace space(Problem{}, DeviceInfo{}, {&kernel});

  std::vector<Line> lines{{"random, calculated", {}}};
  for (int n : kCheckpoints) lines[0].mean.push_back(random_expectation(replay, n));
  for (const StrategyInfo& info : strategies()) {
    if (info.name == "exhaustive") continue;  // a fixed order, not a search
    Line line{info.name, std::vector<double>(kCheckpoints.size())};
    for (int seed = 1; seed <= repeats; ++seed) {
      const auto once = run_once(replay, space, info.name, static_cast<std::uint64_t>(seed), ahead);
      for (std::size_t i = 0; i < once.size(); ++i) line.mean[i] += once[i] / repeats;
    }
    for (double& mean : line.mean) mean = replay.best / mean;
    lines.push_back(line);
  }
  print(lines, json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "replay_search: " << error.what() << "\n";
    return 1;
  }
}
