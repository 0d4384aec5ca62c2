// Compares the machine code of candidates before and after a change of templates/ that must not
// change speed or results. This is not a test: it takes minutes and needs a file made before the
// change.
//
// machine_code make FILE [CANDIDATES]
//     A pairwise spread of CANDIDATES (200) of each template for sm_80 and sm_90a, compiled by
//     NVRTC: launches and hashes of the machine code.
// machine_code compare FILE [PART]
//     Plans and compiles the file's candidates again (every PART-th), and names those that
//     differ; exit status 1 when there are any.
// machine_code stages TEMPLATES [CANDIDATES]
//     How warps hand stages of a TMA pipeline back, before and after a change: by the sources in
//     TEMPLATES, the folder templates/ of another revision, and by those that are built in.
//     CANDIDATES (24) random ones of each row.
// machine_code time FILE TEMPLATES
//     On a GPU: the file's candidates by both sources, raced in turns. Prints a line of JSON for
//     each: the times in us, and before over now. At last the geometric mean and the worst three.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "device/elf.hpp"
#include "device/machines.hpp"
#include "templates/sources.hpp"
#include "templates/space/search_space.hpp"
#include "tests/kernels/check_cases.hpp"
#include "tests/support/stage_release.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/reference/reference.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/hash.hpp"
#include "vocabulary/record.hpp"

namespace tilewise::check {
namespace {

using Json = nlohmann::ordered_json;

/// Plans and compiles candidates. The result is the launches and the kernels' machine code, or the
/// reason why there is none.
class Machine {
 public:
  explicit Machine(const std::string& target)
      : device_(nominal_device(best_target(parse_target(target)))),
        compiler_(load_compiler(device_.target)) {}

  const DeviceInfo& device() const { return device_; }

  /// Parameters that were added since have their defaults in the candidate.
  Json steps(const Problem& problem, Candidate candidate) {
    const KernelTemplate& kernel = find_template(candidate.kernel_template);
    const Configuration added = kernel.default_configuration(problem, device_);
    for (const auto& [name, value] : added.values())
      if (!candidate.configuration.find(name)) candidate.configuration.set(name, value);
    const std::string refused = rejection(kernel, problem, candidate.configuration, device_);
    if (!refused.empty()) return refused;
    Json steps = Json::array();
    for (const LaunchStep& step : kernel.plan(problem, candidate.configuration, device_).steps)
      steps.push_back({{"role", to_string(step.role)},
                       {"grid", volume(step.grid)},
                       {"block", volume(step.block)},
                       {"shared", step.shared_bytes},
                       {"code", code(step.kernel)}});
    return steps;
  }

 private:
  std::string code(const KernelSpec& kernel) {
    const std::string name = to_string(kernel);
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = codes_.find(name); found != codes_.end()) return found->second;
    }
    const KernelSource& source = kernel_source(kernel.source);
    const CompileResult result =
        compiler_->compile({kernel, source.text, source.headers, device_.target});
    std::string made = result.log;
    if (const auto& image = result.image) {
      // Hashes the instructions and their resources. Unused constants of the source are in other
      // sections.
      const Binary text = elf_section(image->binary, ".text." + kernel.entry);
      made = hash_text({reinterpret_cast<const char*>(text.data()), text.size()}) + " " +
             std::to_string(image->usage.registers) + " registers";
    }
    const std::lock_guard lock(mutex_);
    return codes_.emplace(name, std::move(made)).first->second;
  }

  DeviceInfo device_;
  std::unique_ptr<Compiler> compiler_;
  std::mutex mutex_;  // guards codes_
  std::map<std::string, std::string> codes_;
};

std::map<std::string, Machine>& machines() {
  static std::map<std::string, Machine> all;
  if (all.empty())
    for (const char* target : {"sm_80", "sm_90"}) all.try_emplace(target, target);
  return all;
}

/// Calls work(0), ..., work(count - 1) on all cores.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    });
}

int make(const std::string& file, std::size_t candidates) {
  std::vector<Json> rows;
  for (const auto& [target, machine] : machines())
    for (const KernelTemplate& kernel : catalog()) {
      Options options;
      options.only_template = kernel.name;
      options.cases = candidates;
      for (const Case& c : cases_for(options, machine.device()))
        rows.push_back({{"target", target},
                        {"template", kernel.name},
                        {"configuration", Json::parse(c.candidate.configuration.text())},
                        {"problem", Json::parse(to_json(c.typical))}});
    }
  in_parallel(rows.size(), [&](std::size_t i) {
    Json& row = rows[i];
    row["steps"] = machines()
                       .at(row["target"])
                       .steps(problem_from_json(row["problem"].dump()),
                              {row["template"], Configuration::parse(row["configuration"].dump())});
  });
  std::ofstream out(file);
  for (const Json& row : rows) out << row.dump() << '\n';
  out.close();
  std::cout << rows.size() << " candidates\n";
  return out ? 0 : 1;
}

int compare(const std::string& file, std::size_t part) {
  std::vector<Json> rows;
  std::ifstream in(file);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);)
    if (number++ % part == 0) rows.push_back(Json::parse(line));
  if (rows.empty()) throw Error(ErrorKind::io, file + " holds no candidates");
  std::mutex mutex;                                   // guards the rest
  std::map<std::string, std::pair<int, int>> counts;  // numbers of all and of differing candidates
  in_parallel(rows.size(), [&](std::size_t i) {
    const Json& row = rows[i];
    const std::string target = row["target"], name = row["template"];
    const Json now = machines().at(target).steps(
        problem_from_json(row["problem"].dump()),
        Candidate{name, Configuration::parse(row["configuration"].dump())});
    const std::lock_guard lock(mutex);
    auto& [all, different] = counts[name + " " + target];
    ++all;
    if (now == row["steps"]) return;
    ++different;
    std::cout << target << ' ' << name << ' ' << row["configuration"].dump() << " for "
              << row["problem"].dump() << "\n  before " << row["steps"].dump() << "\n  now    "
              << now.dump() << '\n';
  });
  int different = 0;
  for (const auto& [name, count] : counts) {
    std::cout << name << ": " << count.first << " candidates, " << count.second << " differ\n";
    different += count.second;
  }
  return different > 0;
}

/// Candidates with a TMA pipeline for one GPU.
struct Row {
  std::string name, target;
  Problem problem;
  std::string kernel;
  Subspace subspace;
};

std::vector<Row> rows_of_stages() {
  const Problem whole = typed_problem(Layout::tn, 8192, 8192, 64, DType::f32, DType::f32),
                edges = typed_problem(Layout::nn, 1000, 1024, 1000, DType::f32, DType::f32),
                bf16 = typed_problem(Layout::nn, 1024, 1024, 1024, DType::bf16, DType::bf16);
  const auto simt = [](int fragments) {
    return Subspace{{"FRAGMENTS", {fragments}}, {"SPECIALIZE_SIZE", {1}}, {"PREFETCH", {6, 7, 8}},
                    {"TRANSPOSE_A", {0}},       {"TRANSPOSE_B", {0}},     {"VECTOR_A", {4}},
                    {"VECTOR_B", {4}},          {"TILE_K", {8, 16}}};
  };
  std::vector<Row> rows;
  for (const int fragments : {1, 2}) {
    const std::string with = ", FRAGMENTS " + std::to_string(fragments);
    rows.push_back({"simt tn 8192x8192x64" + with, "sm_90", whole, "simt", simt(fragments)});
    rows.push_back({"simt nn 1000x1024x1000" + with, "sm_90", edges, "simt", simt(fragments)});
  }
  Subspace small = simt(1);
  for (const auto& [name, value] : {std::pair{"TILE_K", 8},
                                    {"UNROLL", 8},
                                    {"THREAD_M", 2},
                                    {"THREAD_N", 8},
                                    {"FMA_ORDER", 1},
                                    {"SLICE_K", 1}})
    small[name] = {value};
  rows.push_back({"simt tn, FRAGMENTS 1, THREAD 2x8", "sm_90", whole, "simt", small});
  rows.push_back({"mma bf16 nn 1024", "sm_90", bf16, "mma", {{"TMA", {1}}}});
  return rows;
}

/// The same source with the texts of a folder.
KernelSource source_in(const std::string& folder, KernelSource source) {
  const auto read = [&](const std::string& file) {
    std::ifstream in(folder + "/" + file);
    if (!in) throw Error(ErrorKind::io, "cannot read " + folder + "/" + file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  source.text =
      read("families/" + source.name.substr(0, source.name.find('.')) + "/" + source.name);
  for (auto& [name, text] : source.headers) text = read(name);
  return source;
}

/// The kernel of the multiply step; none if it does not compile.
std::optional<test::StageRelease> release_of(const Compiler& compiler, const KernelSpec& kernel,
                                             const KernelSource& source, const Target& target) {
  const CompileResult made = compiler.compile({kernel, source.text, source.headers, target});
  if (!made.image) return std::nullopt;
  const Binary text = elf_section(made.image->binary, ".text." + kernel.entry);
  return test::StageReleaseCheck(test::instructions(text)).found();
}

void stages_of(const Row& row, const Compiler& compiler, const std::string& folder,
               std::size_t candidates) {
  const DeviceInfo device = nominal_device(best_target(parse_target(row.target)));
  const SearchSpace space(row.problem, device, select_templates({row.kernel}), row.subspace);
  std::mt19937_64 generator(1);
  std::vector<KernelSpec> kernels;
  while (kernels.size() < candidates) {
    const Candidate candidate = space.random(generator).value();
    for (const LaunchStep& step :
         find_template(row.kernel).plan(row.problem, candidate.configuration, device).steps)
      if (step.role == StepRole::multiply) kernels.push_back(step.kernel);
  }
  std::mutex mutex;  // guards the rest
  int kernels_of_both = 0, unfenced[2] = {}, early[2] = {};
  double change = 0;  // sum of logarithms
  in_parallel(kernels.size(), [&](std::size_t i) {
    const KernelSource& now = kernel_source(kernels[i].source);
    const auto before = release_of(compiler, kernels[i], source_in(folder, now), device.target);
    const auto after = release_of(compiler, kernels[i], now, device.target);
    if (!before || !after) return;
    const std::lock_guard lock(mutex);
    ++kernels_of_both;
    unfenced[0] += before->unfenced > 0, unfenced[1] += after->unfenced > 0;
    early[0] += before->early > 0, early[1] += after->early > 0;
    change += std::log(double(after->instructions) / before->instructions);
  });
  std::cout << std::left << std::setw(38) << row.name << std::setw(8) << to_string(device.target)
            << std::right << std::setw(8) << kernels_of_both << std::setw(8) << unfenced[0]
            << std::setw(4) << unfenced[1] << std::setw(8) << early[0] << std::setw(4) << early[1]
            << std::showpos << std::fixed << std::setprecision(1) << std::setw(9)
            << 100 * std::expm1(change / kernels_of_both) << "%" << std::noshowpos << std::endl;
}

int stages(const std::string& folder, std::size_t candidates) {
  const std::vector<Row> rows = rows_of_stages();
  const auto compiler = load_compiler(best_target(parse_target(rows[0].target)));
  std::cout << compiler->version() << std::string(40, ' ')
            << "kernels  no fence  in flight  instructions\n";
  for (const Row& row : rows) stages_of(row, *compiler, folder, candidates);
  return 0;
}

/// The images of a plan, from the sources in `folder` or, if it is empty, from the built-in ones.
std::vector<Image> images_of(const Plan& plan, const Compiler& compiler, const Target& target,
                             const std::string& folder) {
  std::vector<Image> images;
  for (const LaunchStep& step : plan.steps) {
    KernelSource source = kernel_source(step.kernel.source);
    if (!folder.empty() && step.role == StepRole::multiply) source = source_in(folder, source);
    CompileResult made = compiler.compile({step.kernel, source.text, source.headers, target});
    if (!made.image) throw Error(ErrorKind::compiler, made.log);
    images.push_back(*std::move(made.image));
  }
  return images;
}

/// Races a candidate's kernels from before and after the change. Returns before over now.
double time_both(Evaluator& evaluator, const Json& row, const EvaluationRequest& before,
                 const EvaluationRequest& now) {
  const Problem problem = problem_from_json(row["problem"].dump());
  evaluator.begin(problem, std::make_shared<const Reference>(Reference::compute(problem)));
  const RaceResult race = evaluator.race({before, now}, false);
  double us[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    const Evaluation& one = race.finalists[i];
    if (!one.measurement)
      throw Error(ErrorKind::device,
                  row.dump() + ": " + std::string(to_string(one.outcome)) + ": " + one.detail);
    us[i] = one.measurement->median_us;
  }
  Json line = row;
  line.erase("steps");
  line["before_us"] = us[0], line["now_us"] = us[1], line["ratio"] = us[0] / us[1];
  std::cout << line.dump() << std::endl;
  return us[0] / us[1];
}

int time_candidates(const std::string& file, const std::string& folder) {
  const auto device = open_device("auto");
  const DeviceInfo& info = device->info();
  const auto compiler = load_compiler(info.target);
  std::vector<Json> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  std::vector<EvaluationRequest> before(rows.size()), now(rows.size());
  in_parallel(rows.size(), [&](std::size_t i) {
    const Problem problem = problem_from_json(rows[i]["problem"].dump());
    before[i].plan = now[i].plan =
        find_template(std::string(rows[i]["template"]))
            .plan(problem, Configuration::parse(rows[i]["configuration"].dump()), info);
    before[i].images = images_of(before[i].plan, *compiler, info.target, folder);
    now[i].images = images_of(now[i].plan, *compiler, info.target, "");
  });
  const auto evaluator = make_local_evaluator(*device, {});
  std::vector<double> ratios;
  double logs = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ratios.push_back(time_both(*evaluator, rows[i], before[i], now[i]));
    logs += std::log(ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  std::cout << info.name << ": " << ratios.size() << " candidates, before over now in the mean "
            << std::exp(logs / static_cast<double>(ratios.size())) << ", the lowest";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, ratios.size()); ++i)
    std::cout << ' ' << ratios[i];
  std::cout << std::endl;
  return 0;
}

int run(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t otherwise) -> std::size_t {
    return words.size() > 2 ? std::stoul(words[2]) : otherwise;
  };
  if (words.size() >= 2 && words[0] == "make") return make(words[1], number(200));
  if (words.size() >= 2 && words[0] == "compare") return compare(words[1], number(1));
  if (words.size() >= 2 && words[0] == "stages") return stages(words[1], number(24));
  if (words.size() == 3 && words[0] == "time") return time_candidates(words[1], words[2]);
  std::cerr << "usage: machine_code make FILE [CANDIDATES] | machine_code compare FILE [PART] | "
               "machine_code stages TEMPLATES [CANDIDATES] | machine_code time FILE TEMPLATES\n";
  return 2;
}

}  // namespace
}  // namespace tilewise::check

int main(int argc, char** argv) {
  try {
    return tilewise::check::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "machine_code: " << error.what() << '\n';
    return 1;
  }
}
