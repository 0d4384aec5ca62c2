#include "tuner/validator.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
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
  std::array<Placement, 3> all() const { return {a, b, c}; }
};

// alpha and beta are read there in one run: the second with bounded data.
bool on_device(DataSet set, int index) { return set == DataSet::bounded && index == 1; }

std::string run_name(DataSet set, const Scalars& scalars, bool scalars_on_device) {
  char text[96];
  std::snprintf(text, sizeof text, "%s data, alpha %g, beta %g%s",
                set == DataSet::exact ? "exact" : "bounded", scalars.alpha, scalars.beta,
                scalars_on_device ? " (read on the device)" : "");
  return text;
}

}  // namespace

std::int64_t Validator::resident_bytes(const Problem& problem) {
  const Placements places(problem);
  return 2 * (places.a.bytes + places.b.bytes + places.c.bytes) + 2 * places.c.bytes;
}

std::int64_t Validator::minimal_bytes(const Problem& problem) {
  const Placements places(problem);
  return places.a.bytes + places.b.bytes + places.c.bytes;
}

Validator::Validator(Device& device, Stream stream, std::shared_ptr<const Reference> reference,
                     bool resident)
    : device_(device),
      stream_(stream),
      copies_(device),
      reference_(std::move(reference)),
      resident_(resident),
      staging_(device, Placements(reference_->problem()).all()) {
  const Placements places(reference_->problem());
  for (std::size_t set = 0; set < (resident ? 2U : 1U); ++set) {
    inputs_[set].a = DeviceMatrix(device, places.a);
    inputs_[set].b = DeviceMatrix(device, places.b);
    if (resident) inputs_[set].c0 = DeviceMatrix(device, places.c);
    c_.emplace_back(device, places.c);
    done_.push_back(device.create_event());
  }
  const Scalars scalars = Reference::scalars(DataSet::bounded, 1);
  const float values[2] = {static_cast<float>(scalars.alpha), static_cast<float>(scalars.beta)};
  scalars_ = DeviceBuffer(device, 256);
  device_.copy_to_device(scalars_.data(), values, sizeof values, stream_);
  device_.synchronize(stream_);
  reload();
}

// Brings fresh copies of everything, or has the next run do so.
void Validator::reload() {
  loaded_ = -1;
  if (!resident_) return;
  for (const DataSet set : {DataSet::exact, DataSet::bounded}) {
    upload_inputs(set);
    staging_.upload(stream_, inputs(set).c0, reference_->data(set, Operand::c0));
  }
}

void Validator::load(DataSet set) {
  if (resident_ || loaded_ == static_cast<int>(set)) return;
  upload_inputs(set);
  loaded_ = static_cast<int>(set);
}

void Validator::upload_inputs(DataSet set) {
  staging_.upload(stream_, inputs(set).a, reference_->data(set, Operand::a));
  staging_.upload(stream_, inputs(set).b, reference_->data(set, Operand::b));
}

// C is poison where beta is 0 and C0 elsewhere; around it there is always poison.
void Validator::prepare_c(const Run& run, const DeviceMatrix& c) {
  const Placement& place = c.placement();
  if (Reference::scalars(run.set, run.index).beta == 0) {
    device_.fill32(c.allocation(), kPoison, place.bytes / 4, stream_);
  } else if (resident_) {
    device_.copy_on_device(c.allocation(), inputs(run.set).c0.allocation(), place.bytes, stream_);
  } else {
    staging_.upload(stream_, c, reference_->data(run.set, Operand::c0));
  }
}

Call Validator::call_for(const Run& run, const DeviceMatrix& c) {
  const Scalars scalars = Reference::scalars(run.set, run.index);
  Call call;
  call.a = inputs(run.set).a.data();
  call.b = inputs(run.set).b.data();
  call.c = c.data();
  call.lda = inputs(run.set).a.placement().ld;
  call.ldb = inputs(run.set).b.placement().ld;
  call.ldc = c.placement().ld;
  call.alpha = scalars.alpha;
  call.beta = scalars.beta;
  call.stream = stream_;
  if (on_device(run.set, run.index)) {
    call.alpha_device = scalars_.data();
    call.beta_device = static_cast<float*>(scalars_.data()) + 1;
    call.alpha = call.beta = 9;  // not to be used
  }
  return call;
}

void Validator::start(const Enqueue& enqueue, std::size_t number) {
  const Run& run = kRuns[number];
  load(run.set);
  prepare_c(run, c_of(number));
  enqueue(call_for(run, c_of(number)));
  done_[number % done_.size()]->record(stream_);
}

// Waits for a run; its C and what lies around it are compared as they arrive.
bool Validator::judge(std::size_t number, Verdict& verdict) {
  const Run& run = kRuns[number];
  const Scalars scalars = Reference::scalars(run.set, run.index);
  const Placement& place = c_of(number).placement();
  done_[number % done_.size()]->wait();
  ResultCheck check(*reference_, run.set, scalars);
  std::mutex mutex;
  GuardCheck guard;  // the first that is broken
  staging_.download(copies_.get(), c_of(number), [&](const Piece& piece, const std::byte* copy) {
    if (piece.rows > 0) check.rows(piece.first_row, piece.rows, copy, place.ld);
    const GuardCheck found = broken_guard(place, piece, copy);
    const std::lock_guard lock(mutex);
    if (found.found && (!guard.found || found.offset < guard.offset)) guard = found;
  });

  const Comparison found = check.finish();
  verdict.error_ratio = std::max(verdict.error_ratio, finite(found.error_ratio));
  if (run.set == DataSet::bounded && run.index == 0) {
    verdict.normwise_error = finite(found.normwise_error);
  }
  if (found.ok && !guard.found) return true;
  verdict.outcome = Outcome::wrong_result;
  verdict.detail = (found.ok ? "wrote outside C, " + std::to_string(guard.offset) +
                                   " bytes from its first element"
                             : found.worst) +
                   "; " + run_name(run.set, scalars, on_device(run.set, run.index));
  return false;
}

bool Validator::inputs_unchanged(DataSet set, Verdict& verdict) {
  const Inputs& in = inputs(set);
  const bool a = staging_.unchanged(copies_.get(), in.a, reference_->data(set, Operand::a));
  const bool b = staging_.unchanged(copies_.get(), in.b, reference_->data(set, Operand::b));
  if (a && b) return true;
  verdict.outcome = Outcome::wrong_result;
  verdict.detail = std::string("changed its input ") + (a ? "B" : "A");
  return false;
}

Verdict Validator::validate(const Enqueue& enqueue) {
  Verdict verdict;
  std::size_t started = 0;
  for (std::size_t number = 0; number < kRuns.size(); ++number) {
    while (started < std::min(kRuns.size(), number + c_.size())) start(enqueue, started++);
    const bool right = judge(number, verdict);
    const bool last_of_set = kRuns[number].index == 1;
    if (right && !last_of_set) continue;
    if (!right) device_.synchronize(stream_);  // the next run may be under way
    if (inputs_unchanged(kRuns[number].set, verdict) && right) continue;
    reload();  // whoever writes what is wrong may have written where it should not
    break;
  }
  return verdict;
}

Call Validator::timing_call() {
  load(DataSet::bounded);
  prepare_c({DataSet::bounded, 1}, c_.front());
  device_.synchronize(stream_);
  return call_for({DataSet::bounded, 0}, c_.front());
}

}  // namespace tilewise
