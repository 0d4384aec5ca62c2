#pragma once
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "device/device.hpp"
#include "drop_in/product.hpp"
#include "drop_in/settings.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::drop_in {

/// Whether a problem is answered, and the times that say so, in us.
struct Decision {
  Why why = Why::untuned;  ///< none: it is answered
  bool predicted = false;
  bool workspace = false;       ///< its plan needs one
  double ours = 0, cublas = 0;  ///< 0: not known
};

/// Products by sizes, batch, layout and types. Immutable; thread-safe.
class Products {
 public:
  explicit Products(const std::vector<Problem>& problems);
  /// Whether the call may be one of them: by its math mode and alignments it may not.
  bool may_have(const Gemm& gemm) const;

 private:
  std::unordered_set<Problem> keys_;
};

/// All products that a record may answer, damaged rows aside: others are passed through without a
/// further look, at a fraction of its cost. Empty where others may be answered, too, or where each
/// product counts (a report, a record), and where the database cannot be read.
std::optional<Products> products_to_answer(const Settings& settings) noexcept;

/// One device: its Matmul, and the decisions by its database.
class Answerer {
 public:
  /// `device` as MatmulOptions::device. Throws what Matmul's constructor does.
  Answerer(const std::string& device, const Settings& settings);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  /// A problem is answered where its own record, measured on this GPU, is faster by 1% than every
  /// way of cuBLAS that was measured for it, and its kernel is stored; with Settings::predict also
  /// where the expected time is shorter by 10% than what is expected of cuBLAS. Loads the kernel.
  /// Not in a stream capture. Thread-safe.
  Decision decide(const Problem& problem);
  Device& device();
  /// Enqueues the product. Throws what Matmul does; then nothing was enqueued.
  void multiply(const Problem& problem, const Call& call) { (*matmul_)(problem, call); }

 private:
  Decision by_records(const Problem& problem);
  Decision by_prediction(const Problem& problem);

  struct Stored;
  std::unique_ptr<Stored> stored_;
  std::unique_ptr<Matmul> matmul_;
  const bool predict_, always_;
};

}  // namespace tilewise::drop_in
