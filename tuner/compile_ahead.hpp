#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "matmul/image_store.hpp"
#include "templates/space/search_space.hpp"
#include "tuner/evaluator.hpp"

namespace tilewise {

/// A candidate with its plan and images, or why it has none.
struct Built {
  Candidate candidate;
  std::string launch_revision;
  std::string source_hash;  ///< of the multiply step: what a record carries
  Plan plan;
  std::vector<Image> images;  ///< one a step; incomplete when refused or missing
  std::string code_hash;      ///< of the machine code of all steps; empty when not all compiled
  std::string refusal;        ///< the compiler's words; empty when it was not refused
  std::string fault;          ///< what kept the compiler from its work, no fault of the kernel
  bool missing = false;       ///< no image is stored, and there is no compiler to make one
  bool stopped = false;       ///< another process was compiling it when waiting was ended
  bool compiled = false;      ///< something was compiled for it; false: all was stored
  double compile_ms = 0;
};

/// Images from the database, the cache or the compiler, in that order. Thread-safe. Throws
/// Error(database); what else goes wrong is in the result.
Built build(const Candidate& candidate, const KernelTemplate& kernel, const Problem& problem,
            const DeviceInfo& device, const ImageStore& store, const Patience& patience = {});

/// The source hash a record of this candidate would carry now; empty when it cannot be told (no
/// compiler, and no image stored).
std::string current_source_hash(const Candidate& candidate, const KernelTemplate& kernel,
                                const Problem& problem, const DeviceInfo& device,
                                const ImageStore& store);

/// A pool of threads that builds candidates while the device measures others. They come back as
/// they are ready. Used from one thread; ends after the compiles under way, dropping what waits for
/// a thread, or for another process.
class CompileAhead {
 public:
  /// `threads` 0 = all cores.
  CompileAhead(const Problem& problem, const DeviceInfo& device, const ImageStore& store,
               int threads);
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;
  ~CompileAhead();

  void add(const Candidate& candidate, const KernelTemplate& kernel);
  /// The next that is ready; nothing when none was within `patience`. Throws what its build threw.
  std::optional<Built> take(std::chrono::milliseconds patience);
  /// Ends the threads, after the compiles under way. Returns what was ready or has been made ready
  /// by then; builds that threw are left out. Nothing can be added any more.
  std::vector<Built> end();
  /// Added and not yet taken.
  std::size_t under_way() const { return under_way_; }
  /// Enough is under way to keep every thread busy. More would only make a search choose with less
  /// known.
  bool full() const { return under_way_ > threads_.size(); }

 private:
  struct Job {
    Candidate candidate;
    const KernelTemplate* kernel;
  };
  struct Result {
    Built built;
    std::exception_ptr error;
  };
  void work();
  void join();

  const Problem problem_;
  const DeviceInfo device_;
  const ImageStore& store_;
  std::size_t under_way_ = 0;
  std::atomic<std::size_t> builds_{0};
  std::atomic<bool> ending_{false};  // set under the mutex: threads that wait for jobs must see it
  std::mutex mutex_;                 // guards what follows
  std::condition_variable job_added_, result_added_;
  std::deque<Job> jobs_;
  std::deque<Result> results_;
  std::vector<std::thread> threads_;  // last: they use all the others
};

}  // namespace tilewise
