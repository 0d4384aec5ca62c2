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

/// Same layout, types and math mode: what a record of one may say about the other.
bool same_kind(const Problem& x, const Problem& y);

/// |log2 m'/m| + |log2 n'/n| + |log2 k'/k| + |log2 b'/b|, b being the batch. A size of 0 counts
/// as 1.
double distance_between(const Problem& x, const Problem& y);

/// Matmul::fastest_within() on answers of `resolve`, which may throw Error(unsupported).
MathMode fastest_within(const Problem& problem, double accuracy, const DeviceInfo& device,
                        const std::function<Resolution(const Problem&)>& resolve);

/// Problem -> resolution, from memory only. Built once from a database's winners; immutable,
/// thread-safe.
class Resolver {
 public:
  /// Winners of another GPU are left out. Those of templates or parameters this version does not
  /// know are skipped with a message in notes(), and so are quarantined ones. `compiler` is the
  /// compiler's identity when one is loaded (then a winner whose source hash differs is called
  /// stale), else empty.
  Resolver(std::vector<Winner> winners, const DeviceInfo& device, std::string compiler = "");

  /// Exact, else nearest (smallest distance_between() among winners of the same kind whose
  /// constraints hold for this problem, and of a size-specialised template those of this size
  /// alone; a record of lower alignment serves higher, never the reverse; ties go to the nearer
  /// alignment, then to what the cost model expects to be faster here, then to the faster where it
  /// was measured), else the default of the first template that can do it: `mma` (tensor cores,
  /// where the device has those for it), `simt`, then others as the catalog has them. Always valid
  /// for `problem`. `refused`: candidates not to answer with (their image is missing or broken).
  /// Throws Error(unsupported) when nothing is left, listing the kinds of products that this device
  /// can do.
  Resolution resolve(const Problem& problem, const std::vector<Candidate>& refused = {}) const;

  /// The same winners judged against a compiler.
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
