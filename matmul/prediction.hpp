#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/record.hpp"

/// How a stored record serves a problem of another size, and how long that is expected to take.
namespace tilewise {

/// Kernels whose image is missing or broken.
using RefusedKernels = std::set<KernelSpec>;

/// Packed operands of a call. A plan with one of these packings does not pack that operand.
struct GivenPackings {
  std::optional<Packing> a, b;
  bool none() const { return !a && !b; }
  bool has(const Packing& packing) const { return packing == a || packing == b; }
};
/// A hash other than 0. Different packings have the same key only by chance.
std::uint64_t key_of(const Packing& packing);

/// Conditions of a choice in addition to the problem.
struct Conditions {
  RefusedKernels refused = {};  ///< no candidate with such a kernel serves
  GivenPackings given = {};     ///< expected times exclude the packing of these operands
  /// Rules out plans whose tensor maps have strides of the call.
  bool far = false;
};

/// The cost model's estimate of a valid candidate. Leaves out pack steps whose operands are all
/// given.
Cost cost_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device,
             const GivenPackings& given = {});
Cost cost_of(const Plan& plan, const DeviceInfo& device, const GivenPackings& given);

/// Whether the conditions rule out a valid candidate.
bool is_ruled_out(const Conditions& conditions, const Candidate& candidate, const Problem& problem,
                  const DeviceInfo& device);
/// Whether a tensor map of the plan has a stride of the call.
bool has_maps_of_call(const Plan& plan);

/// Hash of the template and all values.
std::size_t hash_of(const Candidate& candidate);

/// Whether a candidate packs an operand, has clusters or shares k where a search for this problem
/// would not, as where the rows of another problem were not aligned, or where it had more tiles.
/// Such a candidate serves only its own problem.
bool does_in_vain(const KernelTemplate& kernel, const Configuration& configuration,
                  const Problem& problem, const DeviceInfo& device);

/// The form in which a record's candidate serves the problem; none if no form does. The values of
/// the record's candidate must be values of the template.
std::optional<Candidate> form_for(const Record& record, const Problem& problem,
                                  const DeviceInfo& device);

/// The expected time of a valid candidate with this plan, in microseconds.
using ExpectedUs = std::function<double(const Candidate&, const Plan&)>;

/// One for all candidates that differ only in what fit_to_size() sets. Its kernels are others where
/// it is 1 (all of k in one part) than where it is more.
Candidate family_of(Candidate candidate);

/// Retunes launch-time parameters for this size; needs no new image. Each parameter is changed by
/// one value at a time as long as the expected time decreases. `us`: the expected time of the
/// candidate, replaced by that of the new one. Returns whether the candidate has changed.
bool fit_to_size(Candidate& candidate, double& us, const Problem& problem, const DeviceInfo& device,
                 const ExpectedUs& expected_us);

/// The estimate for a record's own problem; none without a measurement or if its candidate is no
/// longer valid.
std::optional<Cost> own_cost(const Record& record, const DeviceInfo& device);

/// Measured time over own_cost(); 1 without an estimate. Limited to 1/4 and 4: an estimate that is
/// further off does not transfer to other sizes.
double measured_over_modelled(const Record& record, const std::optional<Cost>& own);

}  // namespace tilewise
