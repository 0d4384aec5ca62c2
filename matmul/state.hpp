#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "matmul/executable.hpp"
#include "matmul/image_store.hpp"
#include "matmul/matmul_internal.hpp"
#include "matmul/resolve.hpp"

namespace tilewise {

/// The problem whose kernel gives the result: the same, but for products without a sum.
Problem as_served(Problem problem);

/// Everything behind a Matmul but the per-thread memory of problems: problem -> executable, made on
/// first need and kept until the end. All functions are thread-safe. One executable is made at a
/// time; finding one that is there waits for nobody's making.
struct Matmul::State {
 public:
  explicit State(MatmulParts parts);

  /// The executable that serves a problem. Throws Error(invalid_argument) when it is not there yet
  /// and `stream` is being captured: loading and compiling have no place in a graph.
  const Executable& executable(const Problem& problem, Stream stream);
  /// What would serve a problem, as far as is known without a compiler.
  Resolution resolution(const Problem& problem) const;
  /// The same, judged stale or not by the compiler where there is one.
  Resolution explain(const Problem& problem);
  /// Packs an operand (contents.role) as the executable that serves `problem` does, and waits for
  /// it. Leaves contents without a copy where it packs none.
  void pack(const Problem& problem, const Call& call, PackedOperand::Contents& contents);
  Device& device() const { return *device_; }
  /// Never used again by another State, even after this one is gone.
  std::uint64_t id() const { return id_; }

 private:
  struct Loaded {
    KernelNeed need;
    std::shared_ptr<LoadedKernel> kernel;
  };
  struct Refusal {
    Problem problem;  ///< its kind counts: other layouts have other kernels
    Candidate candidate;
    std::string why_not;
  };
  /// A try to make one resolution's executable: either it is there, or why not.
  struct Attempt {
    std::unique_ptr<Executable> executable;
    std::string why_not;
    bool broken = false;            ///< the image or the source is bad, rather than missing
    double seconds_to_compile = 0;  ///< as expected of each of its kernels
  };

  const Executable* find(const Problem& problem) const;
  std::unique_ptr<Executable> make(const Problem& problem);
  Attempt attempt(const Problem& problem, const Resolution& resolution);
  std::shared_ptr<LoadedKernel> load(const KernelSpec& kernel, const KernelNeed& need,
                                     const std::string& launch_revision, Attempt& attempt);
  std::shared_ptr<LoadedKernel> try_load(const Image& image, const KernelNeed& need,
                                         std::string& why_not);
  std::shared_ptr<LoadedKernel> load_anew(const KernelSpec& kernel, const KernelNeed& need,
                                          const std::string& launch_revision,
                                          const std::string& why);
  ImageStore::Made image(const KernelSpec& kernel, const std::string& launch_revision,
                         Attempt& attempt);
  std::optional<Image> stored_image(const KernelSpec& kernel, const std::string& launch_revision);
  double seconds_to_compile(const Resolution& resolution) const;
  std::vector<Candidate> refused(const Problem& problem) const;
  void quarantine(const Record& record, const std::string& why);
  template <class Write>
  std::string write_to_database(Write write);
  void give_up(const Problem& problem) const;
  void refuse(const Problem& problem, const Candidate& candidate, const std::string& why_not);
  ImageCache* cache();
  const Compiler* compiler();
  void warn_once(const std::string& line);

  std::shared_ptr<Device> device_;  ///< shared with packed operands
  std::optional<Database> database_;
  std::unique_ptr<ImageCache> cache_;
  std::unique_ptr<Compiler> compiler_;
  std::string no_compiler_;  ///< why there is none
  MatmulParts parts_;        ///< the rest of it: hooks and options
  std::once_flag cache_once_, compiler_once_, informed_once_;
  std::optional<Resolver> resolver_;
  std::optional<Resolver> informed_;  ///< knows the compiler; for explain()
  const std::uint64_t id_;

  mutable std::shared_mutex table_mutex_;
  std::unordered_map<Problem, std::unique_ptr<Executable>> table_;

  std::mutex make_mutex_;                ///< held while an executable is made; guards what follows
  std::map<KernelSpec, Loaded> loaded_;  ///< shared by all sizes of a configuration

  mutable std::mutex refusals_mutex_;  ///< never held for long: resolution() takes it
  std::vector<Refusal> refusals_;

  std::mutex warn_mutex_;
  std::set<std::string> warned_;
};

}  // namespace tilewise
