#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "templates/cost_model.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/record.hpp"

/// How a stored record serves a problem of another size, and how long that is expected to take.
namespace tilewise {

/// Kernels whose image is missing or broken.
using RefusedKernels = std::set<KernelSpec>;

/// Packed operands that a call has: a plan with such a packing does not pack that operand.
struct GivenPackings {
  std::optional<Packing> a, b;
  bool none() const { return !a && !b; }
  bool has(const Packing& packing) const { return packing == a || packing == b; }
};
/// Not 0. Different packings have different keys but by chance.
std::uint64_t key_of(const Packing& packing);

/// What a choice depends on beside the problem.
struct Conditions {
  RefusedKernels refused = {};  ///< no candidate with such a kernel serves
  GivenPackings given = {};     ///< expected times are without the packing of these operands
  /// No plan serves whose tensor maps have strides of the call.
  bool far = false;
};

/// The cost model's estimate of a valid candidate, without the pack steps whose operands are all
/// given.
Cost cost_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device,
             const GivenPackings& given = {});
Cost cost_of(const Plan& plan, const DeviceInfo& device, const GivenPackings& given);

/// Whether the conditions rule out a valid candidate.
bool is_ruled_out(const Conditions& conditions, const Candidate& candidate, const Problem& problem,
                  const DeviceInfo& device);
/// Whether a tensor map of the plan has a stride of the call.
bool has_maps_of_call(const Plan& plan);

/// Of the template and all values.
std::size_t hash_of(const Candidate& candidate);

/// The form of a record's candidate, whose values are the template's, that serves the problem; none
/// where nothing of it does.
std::optional<Candidate> form_for(const Record& record, const Problem& problem,
                                  const DeviceInfo& device);

/// The time that is expected of a valid candidate with this plan, in microseconds.
using ExpectedUs = std::function<double(const Candidate&, const Plan&)>;

/// Chooses the parameters that follow from the size anew, as far as no other image is needed: each
/// is changed by one value as long as the expected time decreases. `us`: that time of the
/// candidate, which becomes that of the chosen one. Returns whether it is another candidate.
bool fit_to_size(Candidate& candidate, double& us, const Problem& problem, const DeviceInfo& device,
                 const ExpectedUs& expected_us);

/// The estimate for a record's own problem; none without a measurement, and where its candidate is
/// not valid any more.
std::optional<Cost> own_cost(const Record& record, const DeviceInfo& device);

/// Measured time over its own_cost(); 1 without an estimate. Between 1/4 and 4: a model that is far
/// off there says little of other sizes.
double measured_over_modelled(const Record& record, const std::optional<Cost>& own);

}  // namespace tilewise
