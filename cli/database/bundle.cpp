#include <algorithm>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/stored.hpp"
#include "tilewise/match.hpp"
#include "tuner/bundle.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

struct BundleCommand {
  ProblemOptions problems;
  std::vector<std::string> gpus;
  std::string file;
  std::string database;
  std::string nvrtc;
  bool other_sizes = false;
};

void setup(CLI::App& app, BundleCommand& options) {
  app.add_option("-o,--output", options.file, "The bundle that is written")
      ->type_name("FILE")
      ->required();
  app.add_option("--gpu", options.gpus,
                 "Stored GPUs whose name contains this, which need not be here; a list, or several "
                 "times (else: all that are stored)")
      ->type_name("NAME")
      ->delimiter(',');
  add_problem_options(app, options.problems, "");
  app.add_flag("--other-sizes", options.other_sizes,
               "Also all that serves other sizes of these types, as on the machine where it was "
               "measured: for programs with varying sizes");
  add_nvrtc_option(app, options.nvrtc);
  add_database_option(app, options.database);
  app.footer(
      "Writes one file with what serves the problems: records, images and what was learned for "
      "other sizes. A program\nnames it (MatmulOptions::bundle), and needs no compiler and no "
      "writable folder. Images that are not stored are\ncompiled here. See docs/deploy.md.\n\n" +
      examples({"autotune bundle --gpu H200 --problems app.csv -o app.tilewise",
                "autotune bundle --gpu H100,H200 --dtype bf16 --sizes 4096 --other-sizes -o "
                "app.tilewise"}));
}

std::vector<std::string> keys_of(const BundleCommand& options, const Database& database) {
  std::vector<std::string> parts = options.gpus, keys;
  if (parts.empty()) parts = {""};
  for (const std::string& part : parts)
    for (std::string& key : stored_gpus(database, part))
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  if (keys.empty())
    throw Error(ErrorKind::not_found,
                "nothing is stored for any GPU: tune first (autotune --problems ...), or name "
                "another database with --db");
  return keys;
}

Json problem_json(const BundledProblem& one) {
  Json json = {{"gpu", one.gpu},
               {"problem", json_of(one.problem)},
               {"match", to_string(one.kind)},
               {"us", positive_or_null(one.us)}};
  if (!one.why_not.empty()) json["error"] = one.why_not;
  return json;
}

void print_text(const BundleResult& result, const BundleCommand& options, const Output& output) {
  std::map<std::string, std::size_t> counts;
  for (const BundledProblem& one : result.problems) {
    ++counts[one.why_not.empty() ? std::string(to_string(one.kind)) : "missing"];
    if (one.why_not.empty() && one.kind == MatchKind::default_)
      warn("nothing that was measured serves " + to_string(one.problem) + " on " + one.gpu +
           ": the bundle has a default kernel");
  }
  const std::string text = join(counts, ", ", [](const auto& entry) {
    return std::to_string(entry.second) + " " + entry.first;
  });
  note(output, options.file + ": " + std::to_string(result.bytes / 1024) + " KiB, " +
                   counted(result.records, "record") + ", " + counted(result.images, "image") +
                   " (" + std::to_string(result.compiled) + " compiled now); " +
                   counted(std::ssize(result.problems), "problem") + ": " + text);
}

int run(const BundleCommand& options, const Output& output) {
  check_writable("bundle", options.file);
  Database database = open_to_read(options.database);
  BundleOptions wanted{keys_of(options, database), problems_of(options.problems),
                       options.other_sizes};
  const Target target = nominal_from_key(wanted.gpus.front()).target;
  const std::unique_ptr<Compiler> compiler = compiler_if_any(target, options.nvrtc);
  const auto cache = open_image_cache(default_database_path(options.database), database);
  const ImageStore images(&database, cache.get(), compiler.get());
  const BundleResult result = write_bundle(database, images, wanted, options.file);
  std::size_t missing = 0;
  for (const BundledProblem& one : result.problems) {
    if (one.why_not.empty()) continue;
    ++missing;
    warn(to_string(one.problem) + " on " + one.gpu + " is not in the bundle: " + one.why_not);
  }
  if (output.json)
    print_document(Json{{"file", options.file},
                        {"bytes", result.bytes},
                        {"records", result.records},
                        {"images", result.images},
                        {"compiled", result.compiled},
                        {"problems", array_of(result.problems, problem_json)}});
  else
    print_text(result, options, output);
  return missing > 0 ? kNoWinner : kOk;
}

}  // namespace

void add_bundle(CLI::App& app, Selection& selection) {
  add_command<BundleCommand>(app, selection, "bundle",
                             "Write what serves a list of problems into one file to ship", setup,
                             run);
}

}  // namespace tilewise::cli
