#include <algorithm>

#include "cli/command.hpp"
#include "cli/common/answers.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/json.hpp"
#include "cli/common/stored.hpp"
#include "cli/inspect/disassembly.hpp"
#include "device/machines.hpp"
#include "matmul/image_store.hpp"
#include "matmul/kept_orders.hpp"
#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

struct SourceCommand : AnswerOptions {
  bool cuda = false, ptx = false, sass = false;
  bool all_steps = false;
  std::string arch, only, disassembler;
};

void setup(CLI::App& app, SourceCommand& options) {
  app.add_flag("--cuda", options.cuda, "CUDA C++: constants, headers and kernel as one text");
  app.add_flag("--ptx", options.ptx, "PTX, as NVRTC makes it")->excludes("--cuda");
  app.add_flag("--sass", options.sass, "Machine code, by nvdisasm or cuobjdump")
      ->excludes("--cuda")
      ->excludes("--ptx");
  app.add_option("--only", options.only,
                 "This candidate: 'simt 128x128x8 thread=8x8 warp_m=4', or simt for its default "
                 "(else the stored record that serves the problem)")
      ->type_name("CANDIDATE");
  add_subject_options(app, options);
  app.add_option("--arch", options.arch, "A target without its GPU, for --only: sm_90")
      ->type_name("TARGET")
      ->needs("--only")
      ->excludes("--gpu")
      ->excludes("--device");
  add_problem_options(app, options.problems, "");
  app.add_flag("--all-steps", options.all_steps, "Also the kernels that pack and reduce");
  app.add_option("--disassembler", options.disassembler,
                 "nvdisasm or cuobjdump: the program or its folder")
      ->type_name("PATH")
      ->needs("--sass");
  add_nvrtc_option(app, options.nvrtc);
  add_database_option(app, options.database);
  app.footer(
      "The source of the kernel that serves a product, with what it uses (registers, spills, "
      "shared "
      "memory) and how often each instruction occurs in it. Stored images are read, others are "
      "compiled (docs/source.md).\n\n" +
      examples({"autotune source --sass --sizes 4096 --gpu H200",
                "autotune source --ptx --sizes 1024 --arch sm_80 --only 'simt 128x128x8 thread=8x8 "
                "vector=4/4/4 warp_m=4'",
                "autotune source --cuda --sizes 4096 --dtype bf16 --gpu H200 > kernel.cu"}));
}

/// A kernel of a candidate's plan, and its source.
struct Listing {
  LaunchStep step;
  std::string text;
  std::optional<Image> image;  ///< empty for --cuda and for the CPU
  InstructionMix mix;          ///< empty for --cuda
};

struct Request {
  Subject subject;
  Problem problem;
  Candidate candidate;
  std::string match;  ///< "named" by --only, otherwise the kind of match
};

Request request_of(const SourceCommand& options, const std::optional<Database>& database) {
  std::vector<Subject> subjects;
  if (!options.arch.empty()) {
    const std::vector<Target> targets = parse_targets(options.arch);
    if (targets.size() == 1) subjects = {{"", nominal_device(best_target(targets.front()))}};
  } else {
    const std::vector<Gpu> gpus =
        options.device.empty() ? std::vector<Gpu>{} : choose_gpus(options.device, true);
    if (options.device.empty() && !database)
      throw Error(ErrorKind::invalid_argument,
                  "there is no database; name a GPU of this machine (--device), or a target and a "
                  "candidate (--arch, --only)");
    subjects = subjects_of(options, gpus, database, true);
  }
  if (subjects.size() != 1)
    throw Error(
        ErrorKind::invalid_argument,
        "one GPU is needed: name one by --gpu, --device or --arch" +
            (subjects.empty() ? " (nothing is stored)"
                              : " (these are: " + join(subjects, ", ", &Subject::key) + ")"));
  const Subject& subject = subjects.front();
  std::vector<Problem> problems = problems_of(options.problems, subject.info, {});
  for (Problem& problem : problems)
    problem = in_kept_order(problem, subject.info, database ? &*database : nullptr);
  if (problems.size() != 1)
    throw Error(ErrorKind::invalid_argument,
                "one product is needed, and " + std::to_string(problems.size()) + " are named");
  if (!options.only.empty())
    return {subject, problems[0], parse_candidate(options.only, problems[0], subject.info),
            "named"};
  const Answer answer = answers_for(database, subjects, options, false).front();
  return {subject, answer.problem, answer.resolution.candidate,
          std::string(to_string(answer.resolution.kind))};
}

Listing listing_of(const LaunchStep& step, const Request& request, const ImageStore& images,
                   const SourceCommand& options, const std::string& tool) {
  const Target& target = request.subject.info.target;
  const KernelSource source = kernel_source(step.kernel);
  Listing listing{step, "", {}, {}};
  if (options.cuda) {
    listing.text = text_in_one_file(step.kernel);
    return listing;
  }
  ImageStore::Made made = images.make(
      step.kernel, target, launch_revision(find_template(request.candidate.kernel_template)));
  if (!made.image)
    throw Error(ErrorKind::compiler, to_string(request.candidate) + " does not compile for " +
                                         to_string(target) + ":\n" + made.log);
  listing.image = std::move(made.image);
  if (options.ptx) {
    listing.text = images.compiler()->ptx({step.kernel, source.text, source.headers, target});
    listing.mix = mix_of_ptx(listing.text);
  } else {
    listing.text = disassemble(tool, listing.image->binary);
    listing.mix = mix_of_sass(listing.text);
  }
  return listing;
}

std::string share(std::int64_t count, std::int64_t all) {
  return all > 0 ? format_percent(static_cast<double>(count) / static_cast<double>(all)) : "-";
}

/// Prints facts as comments, so that the output remains valid source.
void print_listing(const Request& request, const Listing& listing, const SourceCommand& options) {
  const Target& target = request.subject.info.target;
  const auto line = [](const std::string& text) { print_line("// " + text); };
  line(to_string(request.problem) + " on " +
       (request.subject.key.empty() ? to_string(target) : request.subject.key) + ", " +
       request.match);
  line(short_text(request.candidate));
  line("step " + std::string(to_string(listing.step.role)) + ", kernel " +
       listing.step.kernel.entry + " for " + to_string(target));
  if (options.cuda) {
    const auto cap = listing.step.kernel.defines.find(std::string(kMaxRegisters));
    line("NVRTC compiles it with -default-device -std=c++17 -arch=" + to_string(target) +
         (cap != listing.step.kernel.defines.end() && cap->second > 0
              ? " --maxrregcount=" + std::to_string(cap->second)
              : ""));
  }
  if (listing.image) {
    const ResourceUsage& usage = listing.image->usage;
    const Occupancy occupancy = occupancy_of(listing.step, usage, request.subject.info);
    line(std::to_string(usage.registers) + " registers, " + std::to_string(usage.spill_bytes) +
         " bytes of spills, shared memory " + std::to_string(usage.static_shared_bytes) + "+" +
         std::to_string(listing.step.shared_bytes) + " bytes (static+dynamic), " +
         std::to_string(occupancy.blocks) + " blocks on a multiprocessor, limited by " +
         occupancy.limit);
    std::int64_t all = 0;
    std::size_t width = 0;
    for (const auto& [name, count] : listing.mix)
      all += count, width = std::max(width, name.size());
    line(std::to_string(all) + " instructions, as they stand in the text:");
    for (const auto& [name, count] : listing.mix)
      line("  " + name + std::string(width + 2 - name.size(), ' ') + std::to_string(count) + "  " +
           share(count, all));
  }
  print_exact_line(listing.text);
}

Json listing_json(const Request& request, const Listing& listing) {
  Json json{{"step", to_string(listing.step.role)},
            {"kernel", to_string(listing.step.kernel)},
            {"text", listing.text},
            {"registers", nullptr}};
  if (!listing.image) return json;
  const ResourceUsage& usage = listing.image->usage;
  const Occupancy occupancy = occupancy_of(listing.step, usage, request.subject.info);
  json["registers"] = usage.registers;
  json["spill_bytes"] = usage.spill_bytes;
  json["stack_bytes"] = usage.stack_bytes;
  json["static_shared_bytes"] = usage.static_shared_bytes;
  json["dynamic_shared_bytes"] = listing.step.shared_bytes;
  json["blocks_per_multiprocessor"] = occupancy.blocks;
  json["occupancy_limit"] = occupancy.limit;
  json["instructions"] = Json::object();
  for (const auto& [name, count] : listing.mix) json["instructions"][name] = count;
  return json;
}

int run_source(const SourceCommand& options, const Output& output) {
  if (!options.cuda && !options.ptx && !options.sass)
    throw Error(ErrorKind::invalid_argument, "name the form: --cuda, --ptx or --sass");
  problems_of(options.problems);  // bad problems are reported first
  std::optional<Database> database;
  if (options.arch.empty())
    database =
        options.device.empty() ? open_to_read(options.database) : open_if_there(options.database);
  const Request request = request_of(options, database);
  const Target& target = request.subject.info.target;
  if (target.host && !options.cuda)
    throw Error(ErrorKind::unsupported,
                "the CPU's kernels have no PTX and no SASS; --cuda prints their source");
  const std::string tool = options.sass ? find_disassembler(options.disassembler) : "";
  std::unique_ptr<Compiler> compiler;
  if (options.ptx)
    compiler = load_compiler(target, options.nvrtc);
  else if (options.sass)
    compiler = compiler_if_any(target, options.nvrtc);
  const ImageStore images(database ? &*database : nullptr, nullptr, compiler.get());
  std::vector<Listing> listings;
  for (const LaunchStep& step :
       plan_of(request.candidate, request.problem, request.subject.info).steps)
    if (options.all_steps || step.role == StepRole::multiply)
      listings.push_back(listing_of(step, request, images, options, tool));
  if (!output.json) {
    for (const Listing& listing : listings) print_listing(request, listing, options);
    return kOk;
  }
  const auto kernel_json = [&](const Listing& listing) { return listing_json(request, listing); };
  print_document(Json{{"gpu", request.subject.key.empty() ? Json() : Json(request.subject.key)},
                      {"target", to_string(target)},
                      {"problem", json_of(request.problem)},
                      {"match", request.match},
                      {"candidate", json_of(request.candidate)},
                      {"form", options.cuda  ? "cuda"
                               : options.ptx ? "ptx"
                                             : "sass"},
                      {"kernels", array_of(listings, kernel_json)}});
  return kOk;
}

}  // namespace

void add_source(CLI::App& app, Selection& selection) {
  add_command<SourceCommand>(app, selection, "source",
                             "Print a kernel's CUDA, PTX or machine code, and its instructions",
                             setup, run_source);
}

}  // namespace tilewise::cli
