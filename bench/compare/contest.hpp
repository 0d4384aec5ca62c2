#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bench/compare/result.hpp"
#include "device/cuda/cuda.hpp"
#include "matmul/matmul_internal.hpp"
#include "tilewise/matmul.hpp"
#include "tuner/evaluate/benchmark.hpp"

namespace tilewise::bench {

struct ContestOptions {
  std::string device = "0";  ///< as open_device()
  std::string database;      ///< empty: as autotune
  std::string nvrtc;
  bool cold = true;
  int rounds = 9;                                 ///< of the race; each about 10 ms a player
  int lt_candidates = cuda::kCublasLtCandidates;  ///< asked of cublasLt, each timed
};

/// Puts what a comparison found into a player's column; false when it must not be timed. A library
/// somewhat beyond the bound may be, since it is what its users get, and its column says so.
bool admit(Column& column, const Comparison& found);

/// The tuned product of a database beside cuBLAS, in one process, on the same buffers, in turns.
/// Whatever serves a program serves here: the tuned column is Matmul's own call, captured. Not
/// thread-safe.
class Contest {
 public:
  /// Throws Error(no_device), Error(database).
  explicit Contest(const ContestOptions& options);

  /// Checks each player's product against the reference, then times them alternately. Never
  /// throws: what goes wrong is the row's error, what a library lacks or refuses its column's
  /// detail.
  Row run(const Problem& problem);

  const Device& device() const { return device_; }
  /// "13.1.0"; empty where cuBLAS is not there.
  std::string cublas_version() const { return cublas_ ? cublas_->version() : ""; }
  /// What the Matmul had to say.
  const std::vector<std::string>& notes() const { return *notes_; }
  const TimingOptions& timing() const { return timing_; }

 private:
  // Who multiplies, and where the result goes in the row.
  struct Contestant {
    Column* column;
    Enqueue enqueue;
  };
  void measure(Row& row);
  bool prepare(Row& row);
  bool may_compete(Row& row, const Contestant& contestant, const Reference& reference,
                   const Call& call);
  std::vector<Contestant> contestants(Row& row, const TimingBuffers& buffers);
  int best_of_lt(const Problem& problem, const TimingBuffers& buffers, Column& column);

  const ContestOptions options_;
  const std::shared_ptr<std::vector<std::string>> notes_;  ///< the Matmul's warnings go there
  std::unique_ptr<Device> opened_;                         ///< until the Matmul takes it
  Device& device_;
  Matmul multiply_;  ///< owns the device: made before all that uses it
  TimingOptions timing_;
  OwnedStream stream_;
  std::string no_cublas_, no_pedantic_, no_lt_;
  std::unique_ptr<BaselineLibrary> cublas_, pedantic_;
  std::unique_ptr<cuda::CublasLt> lt_;
};

}  // namespace tilewise::bench
