// Compiles the same candidates from several versions of the kernel sources, in one process on one
// device. Races them against one another, or launches each repeatedly and compares every result.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "device/machines.hpp"
#include "matmul/executable.hpp"
#include "templates/sources.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/benchmark.hpp"
#include "tuner/evaluate/other_size.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/thread_pool.hpp"

using namespace tilewise;

namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string device = "0", list;
  std::vector<std::string> variants{"now"};
  std::int64_t press = 0;
  int rounds = 9;
};

/// A version of the sources. folder: the templates/ of a checkout, instead of the built-in texts.
/// without: a text that is removed.
struct Variant {
  std::string name, folder, without;
};

Variant parse_variant(const std::string& text) {
  const auto equals = text.find('=');
  Variant variant{text.substr(0, equals), "", ""};
  if (equals == text.npos) return variant;
  const std::string value = text.substr(equals + 1);
  if (value.rfind("without:", 0) == 0)
    variant.without = value.substr(8);
  else if (std::filesystem::is_directory(value))
    variant.folder = value;
  else
    throw Error(ErrorKind::invalid_argument,
                "--variant " + text + ": '" + value +
                    "' is no folder; allowed are NAME, NAME=FOLDER and NAME=without:TEXT");
  return variant;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) throw Error(ErrorKind::io, "cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Removes a text. Returns whether it occurred.
bool take_out(std::string& text, const std::string& what) {
  bool any = false;
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; any = true)
    text.erase(at, what.size());
  return any;
}

/// The source of a kernel in a variant.
KernelSource source_of(const std::string& name, const Variant& variant) {
  KernelSource source = kernel_source(name);
  if (!variant.folder.empty()) {
    source.headers.clear();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(variant.folder)) {
      const std::string extension = entry.path().extension().string();
      if (entry.path().filename() == name) source.text = read(entry.path());
      if (extension == ".cuh" || extension == ".hpp")
        source.headers.emplace_back(entry.path().lexically_relative(variant.folder).string(),
                                    read(entry.path()));
    }
  }
  if (!variant.without.empty()) {
    bool any = take_out(source.text, variant.without);
    for (auto& header : source.headers) any = take_out(header.second, variant.without) || any;
    if (!any)
      throw Error(ErrorKind::invalid_argument, "--variant " + variant.name + ": no source of " +
                                                   name + " has '" + variant.without + "'");
  }
  return source;
}

struct Entry {
  Problem problem;
  Candidate candidate;
  std::map<std::string, Candidate> own;  ///< candidates of variants by name, instead of `candidate`

  const Candidate& candidate_of(const Variant& variant) const {
    const auto found = own.find(variant.name);
    return found == own.end() ? candidate : found->second;
  }
};

Candidate candidate_from(const Json& json) {
  Candidate candidate{json.at("template"), Configuration::parse(json.at("configuration").dump())};
  candidate.configuration =
      with_added(find_template(candidate.kernel_template), candidate.configuration);
  return candidate;
}

/// Reads lines {"problem": {...}, "template": "simt", "configuration": {...}}; with "own": {NAME:
/// {"template": ..., "configuration": ...}} if a variant has another candidate.
std::vector<Entry> read_list(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw Error(ErrorKind::io, "cannot read " + path);
  std::vector<Entry> entries;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    const Json json = Json::parse(line);
    Entry entry{problem_from_json(json.at("problem").dump()), candidate_from(json), {}};
    if (json.contains("own"))
      for (const auto& [name, own] : json.at("own").items())
        entry.own.emplace(name, candidate_from(own));
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// A candidate compiled from each variant; empty on failure, with the reason in `error`.
struct Compiled {
  std::vector<Plan> plans;  ///< one per variant, as the images
  std::vector<std::vector<Image>> images;
  std::string error;
};

Compiled compile(const Entry& entry, const std::vector<Variant>& variants, const DeviceInfo& device,
                 const Compiler& compiler) {
  Compiled compiled;
  for (const Variant& variant : variants) {
    const Candidate& candidate = entry.candidate_of(variant);
    const KernelTemplate& kernel = find_template(candidate.kernel_template);
    compiled.error = rejection(kernel, entry.problem, candidate.configuration, device);
    if (!compiled.error.empty()) return compiled;
    const Plan& plan =
        compiled.plans.emplace_back(kernel.plan(entry.problem, candidate.configuration, device));
    std::vector<Image>& images = compiled.images.emplace_back();
    for (const LaunchStep& step : plan.steps) {
      const KernelSource source = source_of(step.kernel.source, variant);
      CompileResult made =
          compiler.compile({step.kernel, source.text, source.headers, device.target});
      if (!made.image) {
        compiled.error = variant.name + ": " + made.log;
        return compiled;
      }
      images.push_back(std::move(*made.image));
    }
  }
  return compiled;
}

class Runs {
 public:
  Runs(const Options& options, const std::vector<Variant>& variants)
      : options_(options), variants_(variants), device_(open_device(options.device)) {}
  Device& device() { return *device_; }

  Json run(const Entry& entry, const Compiled& compiled) {
    Json json{{"problem", to_string(entry.problem)}, {"candidate", to_string(entry.candidate)}};
    if (!compiled.error.empty()) {
      json["error"] = compiled.error;
      return json;
    }
    std::vector<Executable> executables;
    for (std::size_t i = 0; i < variants_.size(); ++i)
      executables.emplace_back(*device_, entry.problem, compiled.plans[i], compiled.images[i]);
    return options_.press > 0 ? pressed(std::move(json), entry, executables)
                              : raced(std::move(json), entry, executables);
  }

 private:
  Json pressed(Json json, const Entry& entry, const std::vector<Executable>& executables) {
    for (std::size_t i = 0; i < executables.size(); ++i) {
      const Repeated found = press(
          *device_, stream_.get(), entry.problem,
          [&](const Call& call) { executables[i].launch(call); }, options_.press, true);
      json[variants_[i].name] = {{"wrong", found.wrong}, {"launches", found.launches}};
    }
    return json;
  }

  Json raced(Json json, const Entry& entry, const std::vector<Executable>& executables) {
    // Timing needs operands but no reference.
    const Reference reference = Reference::compute(entry.problem, 1, 0, {1e6, 1e4});
    TimingOptions timing;
    timing.race_rounds = options_.rounds;
    const TimingBuffers buffers(
        *device_, stream_.get(), reference,
        TimingBuffers::sets_wanted(entry.problem, device_->info(), timing.cold));
    Benchmark benchmark(*device_, stream_.get(), entry.problem, buffers, timing);
    std::vector<Enqueue> contestants;
    for (const Executable& executable : executables)
      contestants.push_back([&](const Call& call) { executable.launch(call); });
    const std::vector<Raced> raced = benchmark.race(contestants, contestants.size());
    for (std::size_t i = 0; i < raced.size(); ++i)
      json[variants_[i].name] = {{"us", raced[i].measurement.median_us},
                                 {"spread", raced[i].measurement.spread},
                                 {"wrong_round", raced[i].wrong_round}};
    return json;
  }

  const Options& options_;
  const std::vector<Variant>& variants_;
  std::unique_ptr<Device> device_;
  OwnedStream stream_{*device_};
};

void run(const Options& options) {
  std::vector<Variant> variants;
  for (const std::string& text : options.variants) variants.push_back(parse_variant(text));
  const std::vector<Entry> entries = read_list(options.list);
  Runs runs(options, variants);
  const DeviceInfo& device = runs.device().info();
  const auto compiler = load_compiler(device.target);
  std::vector<Compiled> compiled(entries.size());
  parallel_for(static_cast<std::int64_t>(entries.size()), 0, [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    compiled[at] = compile(entries[at], variants, device, *compiler);
  });
  std::cout << Json{{"device", device.name}, {"compiler", compiler->version()}}.dump() << '\n';
  for (std::size_t i = 0; i < entries.size(); ++i)
    std::cout << runs.run(entries[i], compiled[i]).dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Candidates compiled from several versions of the kernel sources, side by side.");
  app.add_option("list", options.list,
                 R"(lines {"problem": {...}, "template": "simt", "configuration": {...}})")
      ->required();
  app.add_option("--device", options.device, "index or UUID of a GPU; or host")
      ->capture_default_str();
  app.add_option("--variant", options.variants,
                 "NAME (the built-in sources), NAME=FOLDER (a checkout's templates/), or "
                 "NAME=without:TEXT")
      ->capture_default_str();
  app.add_option("--press", options.press,
                 "launch each so often, every result compared, in place of a race");
  app.add_option("--rounds", options.rounds, "of each race")->capture_default_str();
  app.footer(
      "Example: sources winners.jsonl --variant now --variant before=../old/templates\n"
      "         sources early.jsonl --press 300 --variant now --variant bare=without:'  "
      "fence_proxy_async();  //@ release-fence'");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "sources: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
