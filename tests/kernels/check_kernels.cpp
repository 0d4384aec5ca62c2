// Runs every kernel template on the CPU executor over a pairwise spread of configurations, each
// over odd shapes, thread orders and paddings, and compares exactly. Built three times: plain, with
// AddressSanitizer (and bounds, alignment), with ThreadSanitizer.
//   check_kernels [--cases N] [--seed N] [--jobs N] [--template NAME] [--only CANDIDATE]
//                 [--mutate FILE FROM TO]...
// --mutate plants a mistake: replaces a text that occurs once in a kernel source. Status 0: all
// right; 1: something is wrong, and standard output says what.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "device/host/host.hpp"
#include "templates/search_space.hpp"
#include "templates/sources.hpp"
#include "tests/kernels/problem_run.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"

namespace tilewise::check {
namespace {

#if defined(TILEWISE_CHECK_ADDRESS)
constexpr const char* kMode = "AddressSanitizer";
constexpr std::size_t kCases = 300;
constexpr const char* kFlags =
    "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,bounds,alignment "
    "-fno-sanitize-recover=all";
#elif defined(TILEWISE_CHECK_THREADS)
constexpr const char* kMode = "ThreadSanitizer";
constexpr std::size_t kCases = 75;
constexpr const char* kFlags = "-O1 -g1 -fsanitize=thread";
#else
constexpr const char* kMode = "plain";
constexpr std::size_t kCases = 1000;
constexpr const char* kFlags = "-O1";
#endif

constexpr Size kShapes[] = {{1, 1, 1},    {17, 33, 9},  {65, 31, 40},
                            {40, 64, 50}, {70, 90, 33}, {37, 5, 130}};
// After a wrong result a thread sanitizer may still find, in a larger shape, which lines race.
constexpr bool kGoOn = std::string_view(kMode) == "ThreadSanitizer";
constexpr int kPaddings[] = {0, 1};
constexpr std::chrono::seconds kLongest{120};  // for one case; a kernel that never ends

struct Mutation {
  std::string file, from, to;
};

struct Options {
  /// TILEWISE_FULL=1 checks ten times as many.
  std::size_t cases = kCases * (std::getenv("TILEWISE_FULL") ? 10 : 1);
  std::uint64_t seed = 1;
  unsigned jobs = 0;
  std::string only_template, only;
  std::vector<Mutation> mutations;
};

struct Case {
  Candidate candidate;
  Problem typical;  ///< its layout and alignment count
  std::string name() const {
    return to_string(candidate) + " for layout " + std::string(to_string(typical.layout)) +
           ", alignment " + std::to_string(typical.alignment.a);
  }
};

constexpr int kMostReports = 8;

thread_local const Case* current = nullptr;
std::atomic<int> sanitizer_reports{0};
std::mutex output;

[[noreturn]] void bad_usage(const std::string& what) {
  std::cerr << "check_kernels: " << what << '\n';
  std::exit(2);
}

/// The spread of one template: layouts and alignments share `limit` evenly. Drawing valid
/// candidates is what takes time, so a few times as many are drawn as are kept.
void spread(const KernelTemplate& kernel, const DeviceInfo& device, std::size_t limit,
            std::uint64_t seed, std::vector<Case>& cases) {
  std::vector<Problem> problems;
  for (const int alignment : {16, 8, 4})
    for (const Layout layout : test::kLayouts)
      problems.push_back(test::make_problem(layout, 1536, 1536, 1536, alignment));
  for (std::size_t i = 0; i < problems.size() && i < limit; ++i) {
    const std::size_t share = limit / problems.size() + (i < limit % problems.size());
    const SearchSpace space(problems[i], device, {&kernel});
    for (const Candidate& c :
         test::pairwise_cover(space, seed * 100 + i, share, static_cast<int>(4 * share) + 20))
      cases.push_back({c, problems[i]});
  }
}

std::vector<Case> cases_for(const Options& options, const DeviceInfo& device) {
  std::vector<Case> cases;
  if (!options.only.empty()) {
    const auto brace = options.only.find('{');
    if (brace == options.only.npos) bad_usage("--only takes NAME {\"PARAMETER\":VALUE,...}");
    std::string name = options.only.substr(0, brace);
    name.resize(name.find_last_not_of(' ') + 1);
    for (const Layout layout : test::kLayouts)
      cases.push_back({{name, Configuration::parse(options.only.substr(brace))},
                       test::make_problem(layout, 1536, 1536, 1536, 4)});
    return cases;
  }
  // Small templates have few configurations: what they do not need goes to the others.
  const std::size_t small = std::max<std::size_t>(4, options.cases / 20);
  for (const KernelTemplate& kernel : catalog()) {
    if (!options.only_template.empty() && kernel.name != options.only_template) continue;
    const bool whole = !options.only_template.empty();
    if (whole || kernel.name != "simt")
      spread(kernel, device, whole ? options.cases : small, options.seed, cases);
  }
  if (options.only_template.empty() && options.cases > cases.size())
    spread(find_template("simt"), device, options.cases - cases.size(), options.seed, cases);
  return cases;
}

void mutate(std::string& text, const Mutation& mutation) {
  const auto at = text.find(mutation.from);
  if (at == text.npos || text.find(mutation.from, at + 1) != text.npos)
    bad_usage("--mutate: \"" + mutation.from + "\" does not occur exactly once in " +
              mutation.file);
  text.replace(at, mutation.from.size(), mutation.to);
}

KernelSource source_of(const std::string& name, const Options& options) {
  KernelSource source = kernel_source(name);
  for (const Mutation& mutation : options.mutations) {
    if (mutation.file == name) mutate(source.text, mutation);
    for (auto& [header, text] : source.headers)
      if (mutation.file == header) mutate(text, mutation);
  }
  return source;
}

/// Compiles each kernel once: packs and reductions are in many plans.
class Images {
 public:
  Images(const Options& options, const Compiler& compiler)
      : options_(options), compiler_(compiler) {}
  const CompileResult& get(const KernelSpec& kernel, const Target& target) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = made_.find(kernel); known != made_.end()) return known->second;
    }
    const KernelSource source = source_of(kernel.source, options_);
    CompileResult made = compiler_.compile({kernel, source.text, source.headers, target});
    const std::lock_guard lock(mutex_);
    return made_.emplace(kernel, std::move(made)).first->second;
  }

 private:
  const Options& options_;
  const Compiler& compiler_;
  std::mutex mutex_;
  std::map<KernelSpec, CompileResult> made_;
};

/// One OS thread's devices: one for each thread order, each running its blocks on that thread.
class Checker {
 public:
  Checker(const Options& options, Images& images) : options_(options), images_(images) {
    using host::ThreadOrder;
    for (const ThreadOrder order :
         {ThreadOrder::forward, ThreadOrder::reversed, ThreadOrder::shuffled})
      devices_.push_back(host::open_device("host:sm_90a", {order, options.seed, 1, 2}));
  }

  /// Empty, or what is wrong.
  std::string check(const Case& c, std::int64_t& launches) {
    const KernelTemplate& kernel = find_template(c.candidate.kernel_template);
    const DeviceInfo& info = devices_.front()->info();
    std::vector<Image> images;
    for (const LaunchStep& step : kernel.plan(c.typical, c.candidate.configuration, info).steps) {
      const CompileResult& made = images_.get(step.kernel, info.target);
      if (!made.image) return "does not compile: " + made.log;
      images.push_back(*made.image);
    }
    std::string wrong;
    for (const auto& device : devices_)
      for (const Size& size : kShapes) {
        Problem p = c.typical;
        p.m = size.m, p.n = size.n, p.k = size.k;
        if (!rejection(kernel, p, c.candidate.configuration, info).empty()) continue;
        const Executable executable(*device, p, kernel.plan(p, c.candidate.configuration, info),
                                    images);
        for (const int padding : kPaddings) {
          Operands operands(p, padding, options_.seed + static_cast<std::uint64_t>(launches));
          const std::string difference =
              operands.difference(*device, executable, padding ? -2 : 1, padding ? 3 : 0);
          ++launches;
          if (difference.empty() || !wrong.empty()) continue;
          wrong = to_string(p) + ", thread order " + std::to_string(&device - devices_.data()) +
                  ": " + difference;
          if (!kGoOn) return wrong;
        }
      }
    return wrong;
  }

 private:
  const Options& options_;
  Images& images_;
  std::vector<std::unique_ptr<Device>> devices_;
};

/// Ends the program when a case takes too long: a thread of a kernel that waits for nothing cannot
/// be stopped in any other way.
class Watchdog {
 public:
  explicit Watchdog(unsigned jobs) : cases_(jobs), thread_([this] { watch(); }) {}
  ~Watchdog() {
    ending_ = true;
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  void begins(unsigned job, const Case& c) {
    const std::lock_guard lock(mutex_);
    cases_[job] = {&c, std::chrono::steady_clock::now()};
  }
  void ends(unsigned job) {
    const std::lock_guard lock(mutex_);
    cases_[job].first = nullptr;
  }

 private:
  void watch() {
    while (!ending_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::lock_guard lock(mutex_);
      for (const auto& [c, since] : cases_)
        if (c && std::chrono::steady_clock::now() - since > kLongest) {
          std::cout << c->name() << ": does not end" << std::endl;
          std::_Exit(1);
        }
    }
  }
  std::mutex mutex_;
  std::vector<std::pair<const Case*, std::chrono::steady_clock::time_point>> cases_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  // Tables that are made when first asked for: a thread sanitizer does not see how this program's
  // own code, which it is not in, keeps threads apart there.
  kernel_source_names();
  catalog();
  find_template(catalog().front().name);
  const auto compiler = host::load_compiler({kFlags, ""});
  const std::vector<Case> cases = cases_for(options, host::device_info("host:sm_90a"));
  const unsigned jobs =
      options.jobs ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
  Images images(options, *compiler);
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> launches{0};
  std::atomic<int> wrong{0};
  {
    Watchdog watchdog(jobs);
    std::vector<std::jthread> pool;
    for (unsigned job = 0; job < jobs; ++job)
      pool.emplace_back([&, job] {
        Checker checker(options, images);
        for (std::size_t i = next++; i < cases.size(); i = next++) {
          std::int64_t count = 0;
          std::string what;
          current = &cases[i];
          watchdog.begins(job, cases[i]);
          try {
            what = checker.check(cases[i], count);
          } catch (const Error& error) {
            what = error.what();
          }
          watchdog.ends(job);
          launches += count;
          if (what.empty()) continue;
          ++wrong;
          const std::lock_guard lock(output);
          std::cout << cases[i].name() << ": " << what << std::endl;
        }
      });
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("%s: %zu cases, %lld products, %d wrong, %d reports, %.1f s\n", kMode, cases.size(),
              static_cast<long long>(launches), wrong.load(), sanitizer_reports.load(),
              taken.count());
  return wrong == 0 && sanitizer_reports == 0 && !cases.empty() ? 0 : 1;
}

Options parse(int argc, char** argv) {
  Options options;
  const auto number = [](const std::string& text) {
    char* end = nullptr;
    const auto value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || *end) bad_usage("'" + text + "' is not a number");
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) bad_usage(name + " needs a value");
      return argv[i];
    };
    if (name == "--cases")
      options.cases = number(value());
    else if (name == "--seed")
      options.seed = number(value());
    else if (name == "--jobs")
      options.jobs = static_cast<unsigned>(number(value()));
    else if (name == "--template")
      options.only_template = value();
    else if (name == "--only")
      options.only = value();
    else if (name == "--mutate") {
      Mutation mutation;
      mutation.file = value(), mutation.from = value(), mutation.to = value();
      options.mutations.push_back(mutation);
    } else
      bad_usage("unknown option " + name);
  }
  return options;
}

}  // namespace

/// What a sanitizer has found belongs to the case under way.
void report_found() {
  const int reports = ++sanitizer_reports;
  std::fprintf(stderr, "while checking %s\n", current ? current->name().c_str() : "?");
  if (reports < kMostReports) return;  // one mistake makes as many as the kernel has threads
  std::printf("%s: ended after %d reports\n", kMode, reports);
  std::fflush(stdout);
  std::_Exit(1);
}

}  // namespace tilewise::check

#if defined(TILEWISE_CHECK_THREADS)
extern "C" void __tsan_on_report(void*) { tilewise::check::report_found(); }
#elif defined(TILEWISE_CHECK_ADDRESS)
extern "C" void __asan_on_error() { tilewise::check::report_found(); }
#endif

int main(int argc, char** argv) try {
#ifdef TILEWISE_CHECK_COMPILER
  setenv("TILEWISE_CXX", TILEWISE_CHECK_COMPILER, 1);  // whose sanitizer this program has
#endif
  return tilewise::check::run(tilewise::check::parse(argc, argv));
} catch (const std::exception& error) {
  std::cerr << "check_kernels: " << error.what() << '\n';
  return 2;
}
