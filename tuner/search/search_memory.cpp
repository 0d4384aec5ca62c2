#include "tuner/search/search_memory.hpp"

#include <unistd.h>

#include <ctime>

#include "templates/sources.hpp"

namespace tilewise {
namespace {

std::string values_text(const std::vector<int>& values) {
  std::string text;
  for (int value : values) text += " " + std::to_string(value);
  return text + "\n";
}

}  // namespace

std::string space_hash(const SearchSpace& space, const Subspace& subspace) {
  std::string text;
  for (const KernelTemplate* kernel : space.templates()) {
    text += launch_revision(*kernel) + "\n";
    for (const Parameter& parameter : kernel->parameters)
      text += parameter.name + values_text(parameter.values);
    for (const Constraint& constraint : kernel->constraints)
      text += constraint.name + ": " + constraint.text + "\n";
  }
  for (const auto& [name, values] : subspace) text += "only " + name + values_text(values);
  return hash_text(text);
}

// Includes all sources, since the configuration (packs) determines which sources a plan uses.
std::string sources_hash(const std::string& compiler) {
  std::string text = compiler + "\n";
  for (const std::string& name : kernel_source_names())
    text += name + " " + kernel_text_hash(name) + "\n";
  return hash_text(text);
}

bool covers(const Search& stored, const Search& wanted) {
  const bool enough =
      stored.max_evaluations == 0 ||
      (wanted.max_evaluations != 0 && stored.max_evaluations >= wanted.max_evaluations);
  return stored.objective == wanted.objective && stored.strategy == wanted.strategy &&
         stored.seed == wanted.seed && stored.space == wanted.space &&
         stored.budget_seconds >= wanted.budget_seconds && enough;
}

Search begin_search(Database& database, const Search& wanted) {
  for (Search& known : database.searches(wanted.problem, wanted.gpu))
    if (!known.finished && known.sources == wanted.sources && covers(known, wanted) &&
        covers(wanted, known))
      return known;
  Search search = wanted;
  search.id = database.add(search);
  return search;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

}  // namespace tilewise
