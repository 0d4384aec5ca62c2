#include "cli/suggest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cli/command.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

/// Levenshtein distance.
std::size_t distance(const std::string& x, const std::string& y) {
  std::vector<std::size_t> row(y.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= x.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= y.size(); ++j) {
      const std::size_t replaced = diagonal + (x[i - 1] == y[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[y.size()];
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = 3;  // more than two edits are another word
  for (const std::string& name : known) {
    const std::size_t d = distance(word, name);
    if (d < best_distance) best_distance = d, best = name;
  }
  return best;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(is_shown))
    names.push_back(command->get_name());
  return names;
}

const CLI::App* find_command(const CLI::App& app, const std::string& word) {
  const auto found = app.get_subcommands([&](const CLI::App* x) { return x->get_name() == word; });
  return found.empty() ? nullptr : found.front();
}

bool is_option(const std::string& word) { return word.rfind("-", 0) == 0; }

}  // namespace

void refuse_unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string chain;  // "db: "
  for (const std::string& word : words) {
    const std::vector<std::string> names = command_names(*at);
    if (names.empty() || is_option(word)) return;
    const CLI::App* command = find_command(*at, word);
    if (!command) {
      const std::string near = nearest(word, names);
      throw Error(ErrorKind::invalid_argument,
                  chain + "unknown subcommand '" + word + "'" +
                      (near.empty() ? "" : " (did you mean '" + near + "'?)") + "; there are " +
                      join(names));
    }
    at = command;
    chain = word + ": ";
  }
  const std::vector<std::string> names = command_names(*at);
  if (!names.empty())
    throw Error(ErrorKind::invalid_argument,
                chain + "a subcommand is required; there are " + join(names));
}

std::string suggestion(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::vector<std::string> known;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : app.remaining(true)) {
    if (find_command(app, word))
      return " (options go after the subcommand: autotune " + word + " ...)";
    if (word.rfind("--", 0) != 0) continue;
    const std::string near = nearest(word.substr(0, word.find('=')), known);
    if (!near.empty()) return " (did you mean " + near + "?)";
  }
  return "";
}

}  // namespace tilewise::cli
