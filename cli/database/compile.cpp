#include <algorithm>
#include <map>
#include <mutex>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/gpus.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/signals.hpp"
#include "cli/common/stored.hpp"
#include "device/machines.hpp"
#include "matmul/image_store.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/candidate_text.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise::cli {
namespace {

constexpr std::int64_t kMostKernels = 10'000;  // per subspace; more are considered a mistake

struct CompileCommand {
  std::string arch;
  ProblemOptions problems;
  CandidateOptions candidates;
  std::string only;
  int random = 0;
  std::uint64_t seed = 1;
  int jobs = 0;
  std::string nvrtc;
  std::string database;
  bool no_store = false;
};

void setup(CLI::App& app, CompileCommand& options) {
  add_list_option(app, "--arch", options.arch,
                  "Targets, with commas, or all (sm_90 means sm_90a, as such GPUs are served)")
      ->type_name("{sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_103,sm_120,all}")
      ->required();
  add_problem_options(app, options.problems, "1024");
  add_candidate_options(app, options.candidates);
  auto* only =
      app.add_option(
             "--only", options.only,
             "Just this candidate: 'simt 128x128x8 thread=8x8 warp_m=4', or simt for its default")
          ->type_name("CANDIDATE");
  app.add_option("--random", options.random,
                 "Random candidates, N of them, instead of the defaults")
      ->type_name("N")
      ->transform(whole_number(1, kMostKernels))
      ->excludes(only);
  for (const char* name : {"--templates", "--subspace"}) app.get_option(name)->excludes(only);
  app.add_option("--seed", options.seed, "Of --random")
      ->type_name("N")
      ->transform(whole_number(0, kLargestSeed))
      ->capture_default_str()
      ->needs("--random");
  app.add_option("--jobs", options.jobs, "Compiler threads; 0: all cores")
      ->type_name("N")
      ->transform(whole_number(0, 1024));
  add_nvrtc_option(app, options.nvrtc);
  add_database_option(app, options.database);
  app.add_flag("--no-store", options.no_store, "Do not put the images into the database");
  app.footer(
      "Needs NVRTC but no GPU. Without --only, --subspace and --random: each template's default "
      "configuration for each problem.\n\n" +
      examples({"autotune compile --arch sm_90 --sizes 1024",
                "autotune compile --arch all --templates simt --random 20 --no-store",
                "autotune compile --arch sm_80 --subspace 'TILE_M=64;TILE_N=64,128' --json"}));
}

/// A kernel to compile, and the first problem and candidate whose plan launches it.
struct Job {
  DeviceInfo device;
  Problem problem;
  std::vector<Problem> other_problems;  ///< further problems whose plans launch it
  Candidate candidate;
  LaunchStep step;
  ImageStore::Made made;
};

std::vector<Candidate> candidates_for(const CompileCommand& options, const Problem& problem,
                                      const DeviceInfo& device) {
  if (!options.only.empty()) return {parse_candidate(options.only, problem, device)};
  const SearchSpace space(problem, device, templates_of(options.candidates),
                          subspace_of(options.candidates));
  std::vector<Candidate> candidates;
  if (options.random > 0) {
    std::mt19937_64 generator(options.seed);
    for (int i = 0; i < options.random; ++i)
      if (auto candidate = space.random(generator)) candidates.push_back(std::move(*candidate));
    return candidates;
  }
  if (options.candidates.subspace.empty()) return space.defaults();
  space.for_each([&](const Candidate& candidate) {
    candidates.push_back(candidate);
    return static_cast<std::int64_t>(candidates.size()) <= kMostKernels;
  });
  if (static_cast<std::int64_t>(candidates.size()) > kMostKernels)
    throw Error(ErrorKind::invalid_argument,
                "--subspace: more than " + std::to_string(kMostKernels) +
                    " valid candidates; name fewer values, or draw some with --random N");
  return candidates;
}

/// The problems of a target. One of several targets may lack the kind; it is then skipped.
std::vector<Problem> problems_for(const CompileCommand& options, const DeviceInfo& device,
                                  bool one_of_several) {
  try {
    return problems_of(options.problems, device, {});
  } catch (const Error& error) {
    if (!one_of_several || error.kind() != ErrorKind::unsupported) throw;
    warn(error.what());
    return {};
  }
}

/// Adds a problem to the kernel's other problems, unless present.
void add_problem(Job& job, const Problem& problem) {
  auto& others = job.other_problems;
  if (problem != job.problem && std::find(others.begin(), others.end(), problem) == others.end())
    others.push_back(problem);
}

/// Every kernel once, in the order of the plans.
std::vector<Job> jobs_for(const CompileCommand& options) {
  const std::vector<Target> targets = parse_targets(options.arch);
  std::vector<Job> jobs;
  std::map<std::string, std::size_t> places;
  for (const Target& named : targets) {
    const DeviceInfo device = nominal_device(best_target(named));
    for (const Problem& problem : problems_for(options, device, targets.size() > 1)) {
      for (const Candidate& candidate : candidates_for(options, problem, device)) {
        const Plan plan = plan_of(candidate, problem, device);
        for (const LaunchStep& step : plan.steps) {
          const std::string kernel = to_string(device.target) + " " + to_string(step.kernel);
          const auto [place, fresh] = places.emplace(kernel, jobs.size());
          if (fresh)
            jobs.push_back({device, problem, {}, candidate, step, {}});
          else
            add_problem(jobs[place->second], problem);
        }
      }
    }
  }
  return jobs;
}

/// Compiles all jobs. Stores the images in `database` (not in the cache) unless it is null.
void compile_all(std::vector<Job>& jobs, Database* database, const Compiler& compiler, int threads,
                 const Output& output) {
  const ImageStore images(database, nullptr, &compiler);
  Progress progress(output);
  std::mutex mutex;  // guards `done` and `progress`
  std::size_t done = 0;
  parallel_for(std::ssize(jobs), threads, [&](std::int64_t index, int) {
    if (interrupted()) return;
    Job& job = jobs[static_cast<std::size_t>(index)];
    job.made = images.make(job.step.kernel, job.device.target,
                           launch_revision(find_template(job.candidate.kernel_template)));
    if (database && job.made.compiled && job.made.image) database->put_image(*job.made.image);
    const std::lock_guard lock(mutex);
    progress.show(std::to_string(++done) + " of " + std::to_string(jobs.size()) + " kernels");
  });
}

Json job_json(const Job& job) {
  Json json;
  json["target"] = to_string(job.device.target);
  json["problem"] = json_of(job.problem);
  json["other_problems"] = array_of(job.other_problems);
  json["template"] = job.candidate.kernel_template;
  json["configuration"] = Json::parse(job.candidate.configuration.text());
  json["step"] = std::string(to_string(job.step.role));
  json["kernel"] = to_string(job.step.kernel);
  json["ok"] = job.made.image.has_value();
  json["log"] = job.made.image ? job.made.image->log : job.made.log;
  if (!job.made.image) return json;
  const Image& image = *job.made.image;
  const Occupancy occupancy = occupancy_of(job.step, image.usage, job.device);
  json["stored"] = !job.made.compiled;
  json["compile_ms"] = image.compile_ms;
  json["registers"] = image.usage.registers;
  json["spill_bytes"] = image.usage.spill_bytes;
  json["stack_bytes"] = image.usage.stack_bytes;
  json["static_shared_bytes"] = image.usage.static_shared_bytes;
  json["dynamic_shared_bytes"] = job.step.shared_bytes;
  json["blocks_per_multiprocessor"] = occupancy.blocks;
  json["occupancy_limit"] = occupancy.limit;
  json["binary_bytes"] = image.binary.size();
  return json;
}

void print_jobs(const std::vector<Job>& jobs, const Output& output) {
  Table table({{"target"},
               {"problem", false, false, 6},
               {"step", false, false, 5},
               {"registers", true},
               {"spill", true, false, 1},
               {"shared", true, false, 2},
               {"blocks/SM", true},
               {"limit", false, false, 3},
               {"compile", true, false, 4},
               {"candidate", false, true}});
  for (const Job& job : jobs) {
    const std::string name = output.verbose ? to_string(job.candidate) : short_text(job.candidate);
    const std::size_t others = job.other_problems.size();
    std::vector<std::string> row{
        to_string(job.device.target),
        table_text(job.problem) + (others > 0 ? " +" + std::to_string(others) : ""),
        std::string(to_string(job.step.role))};
    if (!job.made.image) {
      row.insert(row.end(), {"-", "-", "-", "-", "-", job.made.log.empty() ? "-" : "failed", name});
      table.add(std::move(row));
      continue;
    }
    const ResourceUsage& usage = job.made.image->usage;
    const Occupancy occupancy = occupancy_of(job.step, usage, job.device);
    row.insert(
        row.end(),
        {std::to_string(usage.registers), std::to_string(usage.spill_bytes),
         std::to_string(usage.static_shared_bytes) + "+" + std::to_string(job.step.shared_bytes),
         std::to_string(occupancy.blocks), occupancy.limit,
         job.made.compiled ? format_number(job.made.image->compile_ms, 0) + " ms" : "stored",
         name});
    table.add(std::move(row));
  }
  table.print(output);
}

std::unique_ptr<Compiler> compiler_for(const CompileCommand& options) {
  const std::vector<Target> targets = parse_targets(options.arch);
  for (const Target& target : targets)
    if (target.host != targets.front().host)
      throw Error(
          ErrorKind::invalid_argument,
          "--arch: the CPU (host) and GPUs have different compilers; name one kind at a time");
  return load_compiler(targets.front(), options.nvrtc);
}

int run_compile(const CompileCommand& options, const Output& output) {
  refuse_kept_order(options.problems);
  std::vector<Job> jobs = jobs_for(options);
  std::optional<Database> database;
  if (!options.no_store) database = open_to_write(default_database_path(options.database));
  const std::unique_ptr<Compiler> compiler = compiler_for(options);
  catch_interrupts();
  compile_all(jobs, database ? &*database : nullptr, *compiler, options.jobs, output);
  if (output.json)
    print_document(Json{{"compiler", compiler->version()}, {"kernels", array_of(jobs, job_json)}});
  else
    print_jobs(jobs, output);
  bool all_ok = true;
  for (const Job& job : jobs) {
    if (job.made.image || interrupted()) continue;
    all_ok = false;
    warn(to_string(job.candidate) + " does not compile for " + to_string(job.device.target) +
         ":\n" + job.made.log);
  }
  if (interrupted()) return kInterrupted;
  return all_ok ? kOk : kFailure;
}

}  // namespace

void add_compile(CLI::App& app, Selection& selection) {
  add_command<CompileCommand>(app, selection, "compile",
                              "Compile kernels without a GPU: registers, spills, occupancy", setup,
                              run_compile);
}

}  // namespace tilewise::cli
