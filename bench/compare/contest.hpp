#pragma once
#include <memory>
#include <string>
#include <vector>

#include "api/matmul_parts.hpp"
#include "bench/compare/result.hpp"
#include "device/cuda/cuda.hpp"
#include "tilewise/matmul.hpp"
#include "tuner/evaluate/benchmark.hpp"

namespace tilewise::bench {

struct ContestOptions {
  std::string device = "0";  ///< see open_device()
  std::string database;      ///< empty: autotune's default
  std::string nvrtc;
  bool cold = true;
  int rounds = 9;                                 ///< of the race; each about 10 ms per player
  int lt_candidates = cuda::kCublasLtCandidates;  ///< requested of cublasLt, each timed
};

/// Stores the result of a comparison in a player's column. False if the player must not be timed. A
/// library slightly beyond the bound may be timed; its column's detail states that.
bool admit(Column& column, const Comparison& found);

/// Races the tuned product of a database against cuBLAS: in one process, on the same buffers,
/// alternately. The tuned column is Matmul's own call, captured, so it is served as in any program.
/// Not thread-safe.
class Contest {
 public:
  /// Throws Error(no_device) and Error(database).
  explicit Contest(const ContestOptions& options);

  /// Compares each player's product with the reference, then times them alternately. Never throws:
  /// a failure of ours is the row's error, a failure of a library is its column's detail.
  Row run(const Problem& problem);

  const Device& device() const { return device_; }
  /// "13.1.0"; empty without cuBLAS.
  std::string cublas_version() const { return cublas_ ? cublas_->version() : ""; }
  /// The Matmul's warnings.
  const std::vector<std::string>& notes() const { return *notes_; }
  const TimingOptions& timing() const { return timing_; }

 private:
  // A product to enqueue, and its column in the row.
  struct Contestant {
    Column* column;
    Enqueue enqueue;
  };
  void measure(Row& row);
  bool prepare(Row& row);
  bool prepare_bare(const Problem& bare, Column& column);
  bool may_compete(Row& row, const Contestant& contestant, const Reference& reference,
                   const Call& call);
  /// `bare`: the row's problem without its epilogue; valid as long as the contestants.
  std::vector<Contestant> contestants(Row& row, const Problem& bare, const TimingBuffers& buffers);
  int best_of_lt(const Problem& problem, const TimingBuffers& buffers, Column& column);

  const ContestOptions options_;
  const std::shared_ptr<std::vector<std::string>> notes_;  ///< the Matmul's warnings
  std::unique_ptr<Device> opened_;                         ///< until it is moved into the Matmul
  Device& device_;
  Matmul multiply_;  ///< owns the device: declared before its users
  TimingOptions timing_;
  OwnedStream stream_;
  std::string no_cublas_, no_pedantic_, no_lt_;
  std::unique_ptr<BaselineLibrary> cublas_, pedantic_;
  std::unique_ptr<cuda::CublasLt> lt_;
};

}  // namespace tilewise::bench
