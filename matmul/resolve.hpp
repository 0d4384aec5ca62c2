#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "matmul/resolution.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// Same layout, types and math mode: a record of one problem may serve the other.
bool same_kind(const Problem& x, const Problem& y);

/// |log2 m'/m| + |log2 n'/n| + |log2 k'/k| + |log2 b'/b|, b being the batch. A size of 0 counts
/// as 1.
double distance_between(const Problem& x, const Problem& y);

/// Matmul::fastest_within() on the results of `resolve`, which may throw Error(unsupported).
MathMode fastest_within(const Problem& problem, double accuracy, const DeviceInfo& device,
                        const std::function<Resolution(const Problem&)>& resolve);

/// Problem -> resolution, without input or output. Constructed from a database's winners;
/// immutable, thread-safe.
class Resolver {
 public:
  /// Winners of another GPU are left out. Quarantined winners and those of other templates,
  /// parameters or values than this version has are skipped with a message in notes(). `compiler`:
  /// the identity of the loaded compiler, or empty; with it, a winner whose source hash differs is
  /// called stale.
  Resolver(std::vector<Winner> winners, const DeviceInfo& device, std::string compiler = "");

  /// The exact winner, else the nearest, else a default; always valid for `problem`. Nearest: the
  /// smallest distance_between() among winners of the same kind whose constraints hold for this
  /// problem; a size-specialised template serves its own size only, and a record of lower alignment
  /// serves higher, never the reverse. Ties go to the nearer alignment, then to the faster by the
  /// cost model, then to the faster by measurement. Default: that of the first template that
  /// supports the problem: `mma` (tensor cores, where the device has them for it), `simt`, then the
  /// catalog's order. `refused`: candidates to leave out (their image is missing or broken). Throws
  /// Error(unsupported) when nothing is left, with the kinds of products that this device supports.
  Resolution resolve(const Problem& problem, const std::vector<Candidate>& refused = {}) const;

  /// The same winners, with staleness by this compiler.
  Resolver with_compiler(std::string identity) const;

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const Winner* best(const Problem& problem, const std::vector<Candidate>& refused) const;
  Resolution answer(const Problem& problem, const Winner& winner) const;
  Resolution default_answer(const Problem& problem, const std::vector<Candidate>& refused) const;

  std::vector<Winner> winners_;
  DeviceInfo device_;
  std::string compiler_;
  std::vector<std::string> notes_;
};

}  // namespace tilewise
