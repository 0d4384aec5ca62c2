#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tuner/reference/block.hpp"
#include "tuner/reference/epilogue_bounds.hpp"
#include "tuner/reference/reference.hpp"

namespace tilewise {

/// The worst element of a result, and sums for the norms.
struct Findings {
  double ratio = 0;  ///< largest error over bound
  std::int64_t row = -1, column = -1;
  double got = 0, expected = 0, bound = 0;
  double squared_error = 0, squared_reference = 0, squared_absolute = 0, squared_output = 0;

  void note(double new_ratio, std::int64_t i, std::int64_t j, double value, double reference,
            double limit);
  void merge(const Findings& other);
};

/// Judges rows of a result by the rules of docs/measuring.md. Rows are counted through a batch.
/// Scaled data are compared at the bounded data's scale: results are divided by the powers of two
/// of their row and column, which is exact. Thread-safe.
class Judge {
 public:
  /// All but `scalars` must outlive this. `slot`: judges what the epilogue writes to, or sums in,
  /// this operand instead of C.
  Judge(const Problem& problem, const BlockLayout& block, DataSet set, const Scalars& scalars,
        std::optional<std::size_t> slot = {});
  /// Of the elements that are judged.
  DType type() const { return type_; }

  /// Compares row i with the values that the reference stores for it. A row of sums is that of a
  /// product.
  void row(Findings& findings, std::int64_t i, const std::byte* row) const;
  /// For a sampled reference: the largest error of row i's products with the Freivalds vectors,
  /// over its bound; at most 1 for a correct row.
  double freivalds(std::int64_t i, const std::byte* row) const;
  /// Computes row i of C in full, to name the wrong element after freivalds() failed.
  void locate(Findings& findings, std::int64_t i, const std::byte* row, int threads) const;
  /// The result for all rows; `freivalds_ratio` and `bad_row` (or -1) from the Freivalds vectors.
  Comparison verdict(const Findings& findings, double freivalds_ratio, std::int64_t bad_row) const;

 private:
  struct ElementRange;
  struct RowSums;
  void stored(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
              const std::byte* got, const StoredProducts& products, std::int64_t from) const;
  bool is_summed() const;
  void before_epilogue(std::int64_t i, std::int64_t j, std::int64_t count,
                       const StoredProducts& products, std::int64_t from, double* low,
                       double* high) const;
  template <class T>
  void through_epilogue(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
                        const std::byte* got, const StoredProducts& products,
                        std::int64_t from) const;
  template <class T>
  void sums(Findings& findings, std::int64_t product, const std::byte* row) const;
  template <class T>
  Findings sums_of_columns(std::int64_t product, std::int64_t j, std::int64_t count,
                           const std::byte* got, const StoredProducts& products,
                           std::int64_t from) const;
  template <class T>
  void within(Findings& findings, std::int64_t i, std::int64_t j, std::int64_t count,
              const std::byte* got, const Bounds<T>* allowed) const;
  template <typename Want>
  void exact(Findings& findings, const ElementRange& at, const Want* want) const;
  template <bool Scaled>
  void bounded(Findings& findings, const ElementRange& at, const double* want,
               const float* absolute) const;
  void round_to_c(double* values, std::int64_t count) const;
  void unscale(std::int64_t i, std::int64_t j, std::int64_t count, double* values,
               double* slack) const;
  RowSums sums_of(std::int64_t i, const std::byte* row) const;
  double sum_bound(const RowSums& sums, std::int64_t v, std::int64_t at) const;
  double allowed_norm(const Findings& sums) const;
  void judge_norm(Comparison& result, const Findings& sums) const;
  std::string describe(const Findings& worst) const;

  const Problem& problem_;
  const BlockLayout& layout_;
  std::optional<std::size_t> slot_;
  DType type_;
  DataSet set_;
  Scalars scalars_;
  TestData c0_;
  ProductKind kind_;
  bool exactly_;        ///< compared bit for bit
  bool narrow_c_;       ///< C's type holds less than the exact value
  double output_unit_;  ///< rounding error of C's type: relative
  double output_step_;  ///<   and absolute, where it underflows
  double largest_;      ///< results saturate here
  double gamma_k_;
  double k_;
};

}  // namespace tilewise
