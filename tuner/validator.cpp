#include "tuner/validator.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace tilewise {
namespace {

constexpr double kInfinitelyWrong = 1e30;  // finite, so that JSON and SQL can hold it

double finite(double value) { return value <= kInfinitelyWrong ? value : kInfinitelyWrong; }

struct Placements {
  Placement a, b, c;
  explicit Placements(const Problem& p)
      : a(guarded_placement(rows_a(p), min_lda(p), bytes_of(p.a), p.alignment.a)),
        b(guarded_placement(rows_b(p), min_ldb(p), bytes_of(p.b), p.alignment.b)),
        c(guarded_placement(p.m, p.n, bytes_of(p.c), p.alignment.c)) {}
};

std::string run_name(DataSet set, const Scalars& scalars, bool on_device) {
  char text[96];
  std::snprintf(text, sizeof text, "%s data, alpha %g, beta %g%s",
                set == DataSet::exact ? "exact" : "bounded", scalars.alpha, scalars.beta,
                on_device ? " (read on the device)" : "");
  return text;
}

}  // namespace

std::int64_t Validator::resident_bytes(const Problem& problem) {
  const Placements places(problem);
  return 2 * (places.a.bytes + places.b.bytes + places.c.bytes) + places.c.bytes;
}

std::int64_t Validator::minimal_bytes(const Problem& problem) {
  const Placements places(problem);
  return places.a.bytes + places.b.bytes + places.c.bytes;
}

Validator::Validator(Device& device, Stream stream, std::shared_ptr<const Reference> reference,
                     bool resident)
    : device_(device), stream_(stream), reference_(std::move(reference)), resident_(resident) {
  const Placements places(reference_->problem());
  for (std::size_t set = 0; set < (resident ? 2U : 1U); ++set) {
    inputs_[set].a = DeviceMatrix(device, places.a);
    inputs_[set].b = DeviceMatrix(device, places.b);
    if (resident) inputs_[set].c0 = DeviceMatrix(device, places.c);
  }
  c_ = DeviceMatrix(device, places.c);
  scalars_ = DeviceBuffer(device, 256);
  staging_ = HostBuffer(
      device, std::max({places.c.bytes, staging_bytes_for(places.a), staging_bytes_for(places.b)}));
  reload();
}

// Brings fresh copies of everything, or has the next run do so.
void Validator::reload() {
  loaded_ = -1;
  if (!resident_) return;
  for (const DataSet set : {DataSet::exact, DataSet::bounded}) {
    upload(device_, stream_, staging_, inputs(set).a, reference_->a(set));
    upload(device_, stream_, staging_, inputs(set).b, reference_->b(set));
    upload(device_, stream_, staging_, inputs(set).c0, reference_->c0(set));
  }
}

void Validator::load(DataSet set) {
  if (resident_ || loaded_ == static_cast<int>(set)) return;
  upload(device_, stream_, staging_, inputs(set).a, reference_->a(set));
  upload(device_, stream_, staging_, inputs(set).b, reference_->b(set));
  loaded_ = static_cast<int>(set);
}

// C is poison where beta is 0 and C0 elsewhere; around it there is always poison.
void Validator::prepare_c(DataSet set, const Scalars& scalars) {
  const Placement& place = c_.placement();
  if (scalars.beta == 0) {
    device_.fill32(c_.allocation(), kPoison, place.bytes / 4, stream_);
  } else if (resident_) {
    device_.copy_on_device(c_.allocation(), inputs(set).c0.allocation(), place.bytes, stream_);
  } else {
    upload(device_, stream_, staging_, c_, reference_->c0(set));
  }
}

Call Validator::call_for(DataSet set, const Scalars& scalars, bool scalars_on_device) {
  Call call;
  call.a = inputs(set).a.data();
  call.b = inputs(set).b.data();
  call.c = c_.data();
  call.lda = inputs(set).a.placement().ld;
  call.ldb = inputs(set).b.placement().ld;
  call.ldc = c_.placement().ld;
  call.alpha = scalars.alpha;
  call.beta = scalars.beta;
  call.stream = stream_;
  if (scalars_on_device) {
    const float values[2] = {static_cast<float>(scalars.alpha), static_cast<float>(scalars.beta)};
    std::memcpy(staging_.data(), values, sizeof values);
    device_.copy_to_device(scalars_.data(), staging_.data(), sizeof values, stream_);
    device_.synchronize(stream_);
    call.alpha_device = scalars_.data();
    call.beta_device = static_cast<float*>(scalars_.data()) + 1;
    call.alpha = call.beta = 9;  // not to be used
  }
  return call;
}

bool Validator::run(const Enqueue& enqueue, DataSet set, int index, Verdict& verdict) {
  const Scalars scalars = Reference::scalars(set, index);
  const bool on_device = set == DataSet::bounded && index == 1;
  load(set);
  prepare_c(set, scalars);
  enqueue(call_for(set, scalars, on_device));
  const Placement& place = c_.placement();
  device_.copy_to_host(staging_.data(), c_.allocation(), place.bytes, stream_);
  device_.synchronize(stream_);

  const Comparison found =
      reference_->compare(set, scalars, staging_.data() + place.before, place.ld);
  verdict.error_ratio = std::max(verdict.error_ratio, finite(found.error_ratio));
  if (set == DataSet::bounded && index == 0) verdict.normwise_error = finite(found.normwise_error);
  if (!found.ok) {
    verdict.outcome = Outcome::wrong_result;
    verdict.detail = found.worst + "; " + run_name(set, scalars, on_device);
    return false;
  }
  if (const GuardCheck guard = broken_guard(place, staging_.data()); guard.found) {
    verdict.outcome = Outcome::wrong_result;
    verdict.detail = "wrote outside C, " + std::to_string(guard.offset) +
                     " bytes from its first element; " + run_name(set, scalars, on_device);
    return false;
  }
  return true;
}

bool Validator::inputs_unchanged(DataSet set, Verdict& verdict) {
  const Inputs& in = inputs(set);
  const bool a = unchanged(device_, stream_, staging_, in.a, reference_->a(set));
  const bool b = unchanged(device_, stream_, staging_, in.b, reference_->b(set));
  if (a && b) return true;
  verdict.outcome = Outcome::wrong_result;
  verdict.detail = std::string("changed its input ") + (a ? "B" : "A");
  return false;
}

Verdict Validator::validate(const Enqueue& enqueue) {
  Verdict verdict;
  for (const DataSet set : {DataSet::exact, DataSet::bounded}) {
    bool right = true;
    for (int index = 0; index < 2 && right; ++index) right = run(enqueue, set, index, verdict);
    if (!inputs_unchanged(set, verdict) || !right) {
      reload();  // whoever writes what is wrong may have written where it should not
      return verdict;
    }
  }
  return verdict;
}

Call Validator::timing_call() {
  load(DataSet::bounded);
  prepare_c(DataSet::bounded, Reference::scalars(DataSet::bounded, 1));
  device_.synchronize(stream_);
  return call_for(DataSet::bounded, {1, 0}, false);
}

}  // namespace tilewise
