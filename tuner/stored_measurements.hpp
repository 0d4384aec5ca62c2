#pragma once
#include <functional>
#include <string>
#include <vector>

#include "matmul/image_store.hpp"
#include "templates/space/search_space.hpp"
#include "tuner/compile_ahead.hpp"

namespace tilewise {

/// Measurements of earlier runs whose kernels' sources have changed since, or the compiler: still
/// good where the kernels compile to the machine code that was measured.
class StaleMeasurements {
 public:
  void add(Record record) { records_.push_back(std::move(record)); }
  /// The fastest candidates, fastest first.
  std::vector<Candidate> fastest(std::size_t count) const;
  /// The measurement of the same candidate and machine code, which it leaves; nothing else.
  std::optional<Record> take(const Built& built);

 private:
  std::vector<Record> records_;
};

/// Whether the machine code of a finished search's candidates is what it was, though the sources or
/// the compiler changed since: compiles the winner, the finalists and a sample of the others, those
/// that `records` (measured here, of one problem and GPU) hold. On success every record compiled is
/// renewed in the database. False when one differs, or none could be compared.
bool same_machine_code(const std::vector<Record>& records, const Candidate& winner,
                       const SearchSpace& space, const ImageStore& store, Database& database,
                       int threads, const std::function<bool()>& stopped);

/// The template of a candidate: of those searched, else of the catalog; null for one that this
/// version does not have.
const KernelTemplate* template_of(const Candidate& candidate, const SearchSpace& space);

}  // namespace tilewise
