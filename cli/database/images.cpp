#include "cli/command.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/signals.hpp"
#include "cli/common/stored.hpp"
#include "device/machines.hpp"
#include "matmul/portfolio.hpp"
#include "tuner/bundle.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

struct ImagesCommand {
  std::string arch = "sm_90";
  std::vector<std::string> kinds;
  std::string file;
  int jobs = 0;
  std::string nvrtc;
  std::string database;
};

void setup(CLI::App& app, ImagesCommand& options) {
  app.add_option("--arch", options.arch, "The target (sm_90 means sm_90a)")
      ->type_name("ARCH")
      ->capture_default_str();
  app.add_option("--kinds", options.kinds,
                 "Kinds of products, as query prints them: bf16, f32, tf32, e4m3:bf16 (else: all)")
      ->type_name("KIND")
      ->delimiter(',');
  app.add_option("-o,--output", options.file,
                 "The file; the library finds it by its name next to itself (else: that name)")
      ->type_name("FILE");
  app.add_option("--jobs", options.jobs, "Compiler threads; 0: all cores")
      ->type_name("N")
      ->transform(whole_number(0, 1024));
  add_nvrtc_option(app, options.nvrtc);
  add_database_option(app, options.database);
  app.footer(
      "Compiles the kernels of the shipped portfolio into one file. Where it lies next to the "
      "library, products that were\nnot tuned need no compiler, and their first call none of its "
      "time. Needs NVRTC but no GPU. Compiled images are kept\nin the database's cache, so that a "
      "run that was interrupted goes on. See docs/deploy.md.\n\n" +
      examples({"autotune images", "autotune images --kinds bf16,f16 --json"}));
}

int run(const ImagesCommand& options, const Output& output) {
  for (const std::string& kind : options.kinds) static_cast<void>(parse_kind(kind));
  const Target target = best_target(parse_target(options.arch));
  const std::string file = options.file.empty() ? portfolio_images_name(target) : options.file;
  check_writable("images", file);
  Progress progress(output);
  progress.show("choosing the kernels");
  const std::vector<PortfolioKernel> kernels = portfolio_kernels(target, options.kinds);
  if (kernels.empty())
    throw Error(ErrorKind::not_found, "no portfolio of " + to_string(target) +
                                          " has such products; there are portfolios "
                                          "of GPUs with sm_90");
  const std::unique_ptr<Compiler> compiler = load_compiler(target, options.nvrtc);
  const auto path = default_database_path(options.database);
  Database database = Database::in_memory();
  const auto cache = open_image_cache(path, database);
  const ImageStore images(nullptr, cache.get(), compiler.get());
  catch_interrupts();
  const PortfolioImages made =
      write_portfolio_images(images, target, kernels, file, options.jobs, [&](std::size_t done) {
        if (done < kernels.size())
          progress.show(std::to_string(done) + " of " + std::to_string(kernels.size()) +
                        " kernels");
        return !interrupted();
      });
  progress.clear();
  if (interrupted()) {
    warn("interrupted: " + file + " is not written; the next run goes on from " +
         counted(made.images, "image") + " in the cache");
    return kInterrupted;
  }
  if (!made.packed)
    warn("libzstd.so.1 cannot be loaded: " + file +
         " is not compressed, and several times as large");
  for (const std::string& failed : made.failed) warn("does not compile: " + failed);
  if (output.json)
    print_document(Json{{"file", file},
                        {"target", to_string(target)},
                        {"bytes", made.bytes},
                        {"images", made.images},
                        {"compiled", made.compiled},
                        {"packed", made.packed},
                        {"failed", made.failed}});
  else
    note(output, file + ": " + std::to_string(made.bytes / 1024) + " KiB, " +
                     counted(made.images, "image") + " (" + std::to_string(made.compiled) +
                     " compiled now)");
  return made.images > 0 ? kOk : kFailure;
}

}  // namespace

void add_images(CLI::App& app, Selection& selection) {
  add_command<ImagesCommand>(app, selection, "images",
                             "Compile the shipped portfolio into a file beside the library", setup,
                             run);
}

}  // namespace tilewise::cli
