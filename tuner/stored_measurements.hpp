#pragma once
#include <functional>
#include <vector>

#include "matmul/image_store.hpp"
#include "templates/space/search_space.hpp"
#include "tuner/compile_ahead.hpp"

namespace tilewise {

/// Measurements of earlier runs whose kernel sources or compiler have changed since. A measurement
/// remains valid if the kernel still compiles to the measured machine code.
class StaleMeasurements {
 public:
  void add(Record record) { records_.push_back(std::move(record)); }
  /// The fastest candidates, fastest first.
  std::vector<Candidate> fastest(std::size_t count) const;
  /// Removes and returns the measurement of the same candidate and machine code, if any.
  std::optional<Record> take(const Built& built);

 private:
  std::vector<Record> records_;
};

/// Whether the candidates of a finished search still compile to the same machine code, although the
/// sources or the compiler changed. Compiles the winner, the finalists and a sample of the others
/// in `records` (measured here, of one problem and GPU). On success it renews every compiled record
/// in the database. False when one differs, or none could be compared.
bool same_machine_code(const std::vector<Record>& records, const Candidate& winner,
                       const SearchSpace& space, const ImageStore& store, Database& database,
                       int threads, const std::function<bool()>& stopped);

/// The template of a candidate: from the searched ones, otherwise from the catalog; null when this
/// version lacks it.
const KernelTemplate* template_of(const Candidate& candidate, const SearchSpace& space);

}  // namespace tilewise
