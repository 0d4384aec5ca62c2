#pragma once
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "db/database.hpp"
#include "device/device.hpp"
#include "drop_in/product.hpp"
#include "drop_in/settings.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::drop_in {

/// Whether a problem is answered, and the times that decide it, in us.
struct Decision {
  Why why = Why::untuned;  ///< none: it is answered
  bool predicted = false;
  std::int64_t workspace = 0;   ///< bytes that the plan needs
  double ours = 0, cublas = 0;  ///< 0: not known
};

/// Products with sizes, batch, layout and types only. Immutable; thread-safe.
class Products {
 public:
  explicit Products(const std::vector<Problem>& problems);
  /// Whether the call may be one of the products; its math mode and alignments may still exclude
  /// it.
  bool may_have(const Gemm& gemm) const;

 private:
  std::unordered_set<Problem> keys_;
};

/// All products that a record may answer, except damaged rows. Other products are passed through
/// without a further check, at a fraction of its cost. Empty if other products may be answered too,
/// product counts (a report, a record), and where the database cannot be read. Opens `database`.
std::optional<Products> products_to_answer(const Settings& settings,
                                           std::optional<Database>& database) noexcept;

/// One device: its Matmul, and the decisions from its database.
class Answerer {
 public:
  /// `device` as MatmulOptions::device. Opens `database` where it is empty, and shares it. Throws
  /// what Matmul's constructor does.
  Answerer(const std::string& device, const Settings& settings, std::optional<Database>& database);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  /// Decides whether a problem is answered, and loads the kernel if so. Requires that the problem's
  /// own record, measured on this GPU, is faster by 1% than every method of cuBLAS measured for it,
  /// and that its kernel is stored. With Settings::predict an expected time that is shorter by 10%
  /// than the expected time of cuBLAS is also enough. Not allowed in a stream capture. Thread-safe.
  Decision decide(const Problem& problem);
  Device& device();
  /// Enqueues the product. Throws the errors of Matmul; then nothing was enqueued.
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
