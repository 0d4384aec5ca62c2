// Runs every kernel template on the CPU executor, or on a GPU, over a pairwise spread of
// configurations, each over odd shapes, thread orders and paddings, and compares exactly. Built
// three times: plain, with AddressSanitizer (and bounds, alignment), with ThreadSanitizer.
//   check_kernels [--cases N] [--seed N] [--jobs N] [--longest SECONDS] [--template NAME]
//                 [--only CANDIDATE [--layout nn|nt|tn|tt] [--types OPERAND RESULT MATH]
//                  [--batch N] [--order TEXT]] [--epilogue TEXT] [--device host:sm_90a|gpu]
//                  [--mutate MARKER CODE]... [--mutate-in MARKER FROM TO]...
// --mutate and --mutate-in plant a mistake in a marked line of the kernel sources (mutation.hpp).
// Status 0: all right; 1: a failure, reported on standard output; 2: bad usage. TILEWISE_FULL=1
// checks four times as many cases, and every shape in every thread order.
//
// Cases run in child processes, so that a kernel that crashes or hangs ends no other case, and so
// that ThreadSanitizer's memory, which grows with every kernel, is freed.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(TILEWISE_CHECK_THREADS)
#include <sanitizer/tsan_interface.h>
#endif

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <new>
#include <thread>

#include "device/cpu/cpu.hpp"
#include "device/cpu/files.hpp"
#include "device/cuda/cuda.hpp"
#include "tests/kernels/check_cases.hpp"
#include "tests/kernels/checker.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/machine_limits.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise::check {
namespace {

using Clock = std::chrono::steady_clock;

// ThreadSanitizer takes some hundred megabytes for the first cases, and more for each further case.
constexpr std::size_t kCasesOfAProcess = kMode == "ThreadSanitizer" ? 8 : 25;
constexpr int kMostReports = 4;  // one mistake causes a report per kernel thread
constexpr unsigned kMostJobs = 256;

/// State in shared memory, shared by the processes.
struct Progress {
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> products{0};
  std::atomic<int> wrong{0}, uncompiled{0}, reports{0};
  /// A process's case (from 1; 0 between two cases) and the number of its finished products.
  struct Job {
    std::atomic<std::size_t> number{0};
    std::atomic<std::int64_t> products{0};
  } jobs[kMostJobs];
};

Progress* progress = nullptr;
const Case* current = nullptr;

void tell(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// Runs up to `most` cases, one after another.
void run_cases(const std::vector<Case>& cases, const Options& options, const Compiler& compiler,
               Progress::Job& job, std::size_t most, Device* gpu = nullptr) {
  Checker checker(options, compiler, gpu);
  for (std::size_t n = 0; n < most; ++n) {
    const std::size_t i = progress->next++;
    if (i >= cases.size()) return;
    current = &cases[i];
    job.products = 0;
    job.number = i + 1;
    std::string what;
    try {
      what = checker.check(cases[i], i, job.products);
    } catch (const Error& error) {
      what = error.what();
      if (gpu && error.kind() == ErrorKind::device) {  // this process has lost the GPU
        tell(cases[i].name() + ": " + what);
        std::_Exit(1);
      }
    }
    progress->products += job.products;
    if (!what.empty()) {
      ++(what.starts_with(kDoesNotCompile) ? progress->uncompiled : progress->wrong);
      tell(cases[i].name() + ": " + what);
    }
    job.number = 0;
  }
}

// ThreadSanitizer finds the line of an access in a range from the last call on its fiber, so calls
// during a report need another fiber. A process with two fibers cannot fork.
#if defined(TILEWISE_CHECK_THREADS)
void* fiber_of_reports = nullptr;
void prepare_reports() { fiber_of_reports = __tsan_create_fiber(0); }
#else
void prepare_reports() {}
#endif

/// Runs processes, up to `jobs` at a time, until no case is left. Reports processes that end during
/// a case.
class Processes {
 public:
  Processes(const std::vector<Case>& cases, const Options& options, const Compiler& compiler)
      : cases_(cases), options_(options), compiler_(compiler) {
    const unsigned cores = static_cast<unsigned>(usable_cores());
    pids_.resize(std::min(options.jobs ? options.jobs : cores, kMostJobs), 0);
    last_products_.resize(pids_.size());
  }

  void run() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t job = 0; job < pids_.size(); ++job) {
        if (pids_[job] != 0) look_at(job);
        if (pids_[job] == 0 && progress->next < cases_.size()) start(job);
        any |= pids_[job] != 0;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  void start(std::size_t job) {
    std::fflush(nullptr);
    progress->jobs[job].number = 0;
    const pid_t pid = fork();
    if (pid < 0) throw Error(ErrorKind::io, "cannot start a process");
    if (pid == 0) {
      prepare_reports();
      run_cases(cases_, options_, compiler_, progress->jobs[job], kCasesOfAProcess);
      std::fflush(nullptr);
      std::_Exit(0);
    }
    pids_[job] = pid;
    last_products_[job] = {};
  }

  void look_at(std::size_t job) {
    int status = 0;
    if (waitpid(pids_[job], &status, WNOHANG) == 0) {
      if (!too_long(job)) return;
      kill(pids_[job], SIGKILL);
      waitpid(pids_[job], &status, 0);
      unfinished(job, "does not end");
    } else if (WIFSIGNALED(status)) {
      unfinished(job, std::string("ends with ") + strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0) {
      unfinished(job, "ended by the report on standard error");
    }
    pids_[job] = 0;
  }

  /// Whether a job has used too much of its own CPU time, which does not depend on other load of
  /// the machine. The executor itself detects threads that only wait.
  bool too_long(std::size_t job) {
    const Progress::Job& at = progress->jobs[job];
    const Seen now{at.number, at.products, cpu_seconds(pids_[job])};
    Seen& last = last_products_[job];
    if (now.number != last.number || now.products != last.products) last = now;
    return now.number != 0 && now.cpu_seconds - last.cpu_seconds > options_.longest;
  }

  /// CPU seconds that the process has used; 0 if it has ended.
  static double cpu_seconds(pid_t pid) {
    clockid_t clock{};
    timespec used{};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  }

  void unfinished(std::size_t job, const std::string& what) {
    ++progress->wrong;
    const std::size_t number = progress->jobs[job].number;
    tell((number ? cases_[number - 1].name() : "between two cases") + ": " + what);
  }

  const std::vector<Case>& cases_;
  const Options& options_;
  const Compiler& compiler_;
  std::vector<pid_t> pids_;
  /// The case and products of each process, and its CPU time when they were first seen.
  struct Seen {
    std::size_t number = 0;
    std::int64_t products = 0;
    double cpu_seconds = 0;
  };
  std::vector<Seen> last_products_;
};

/// Runs all cases on the GPU. Threads compile, and launch one after another.
void run_on_gpu(Device& gpu, const Compiler& compiler, const std::vector<Case>& cases,
                const Options& options) {
  const auto jobs = options.jobs ? options.jobs : static_cast<unsigned>(usable_cores());
  std::vector<std::jthread> threads;
  for (unsigned job = 0; job < std::min(jobs, kMostJobs); ++job)
    threads.emplace_back(
        [&, job] { run_cases(cases, options, compiler, progress->jobs[job], cases.size(), &gpu); });
}

int run(const Options& options) {
  const auto start = Clock::now();
  void* shared =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  progress = new (shared) Progress;
  // A killed process leaves its files, which are removed with the folder.
  const cpu::TemporaryFolder files;
  setenv("TMPDIR", files.path().c_str(), 1);
  std::vector<Case> cases;
  if (options.device == "gpu") {
    const auto gpu = cuda::open_device("auto");
    const auto compiler = cuda::load_compiler();
    cases = cases_for(options, gpu->info());
    run_on_gpu(*gpu, *compiler, cases, options);
  } else {
    const auto compiler = cpu::load_compiler({kFlags, ""});
    cases = cases_for(options, checked_info(options));
    Processes(cases, options, *compiler).run();
  }
  const std::chrono::duration<double> taken = Clock::now() - start;
  std::printf("%s: %zu cases, %lld products, %d wrong, %d not compiled, %d reports, %.1f s\n",
              kMode.data(), cases.size(), static_cast<long long>(progress->products),
              progress->wrong.load(), progress->uncompiled.load(), progress->reports.load(),
              taken.count());
  const int found = progress->wrong + progress->uncompiled + progress->reports;
  return found == 0 && !cases.empty() ? 0 : 1;
}

}  // namespace

/// A sanitizer's report belongs to the current case.
void report_found() {
  static int here = 0;
  ++progress->reports;
  std::fprintf(stderr, "while checking %s\n", current ? current->name().c_str() : "?");
  if (++here < kMostReports) return;
  tell(std::string(kMode) + ": no more than " + std::to_string(kMostReports) +
       " reports are shown of a process");
  std::_Exit(1);
}

}  // namespace tilewise::check

// The sanitizer's library finds this function by name.
#if defined(TILEWISE_CHECK_THREADS)
extern "C" [[gnu::visibility("default")]] void __tsan_on_report(void*) {
  void* const here = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tilewise::check::fiber_of_reports, __tsan_switch_to_fiber_no_sync);
  tilewise::check::report_found();
  __tsan_switch_to_fiber(here, __tsan_switch_to_fiber_no_sync);
}
#elif defined(TILEWISE_CHECK_ADDRESS)
extern "C" [[gnu::visibility("default")]] void __asan_on_error() {
  tilewise::check::report_found();
}
#endif

int main(int argc, char** argv) try {
#ifdef TILEWISE_CHECK_COMPILER
  setenv("TILEWISE_CXX", TILEWISE_CHECK_COMPILER, 1);  // the compiler with this program's sanitizer
#endif
  return tilewise::check::run(tilewise::check::parse_options(argc, argv));
} catch (const std::exception& error) {
  std::cerr << "check_kernels: " << error.what() << '\n';
  return 2;
}
