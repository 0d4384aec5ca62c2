#include "tuner/evaluate/validator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>

#include "tilewise/error.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/decimal.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise {
namespace {

constexpr double kInfinitelyWrong = 1e30;  // finite, so that JSON and SQL can hold it

double finite(double value) { return value <= kInfinitelyWrong ? value : kInfinitelyWrong; }

struct Placements {
  Placement a, b, c;
  explicit Placements(const Problem& p)
      : a(guarded_placement(rows_a(p), min_lda(p), p.a, matrices_a(p))),
        b(guarded_placement(rows_b(p), min_ldb(p), p.b, matrices_b(p))),
        c(guarded_placement(p.m, p.n, p.c, matrices_c(p))) {}
};

std::vector<Placement> all_placements(const Problem& problem) {
  std::vector<Placement> all = ExtraOperands::placements(problem, ExtraOperands::Kind::guarded);
  const Placements places(problem);
  all.insert(all.end(), {places.a, places.b, places.c});
  return all;
}

bool is_result(const Problem& problem, std::size_t slot) {
  return problem.epilogue->operands[slot].use != EpilogueUse::read;
}

// Whether C is all that is written.
bool only_c(const Problem& problem) {
  for (std::size_t slot = 0; problem.epilogue && slot < problem.epilogue->operands.size(); ++slot)
    if (is_result(problem, slot)) return false;
  return true;
}

constexpr std::string_view kSetNames[] = {"exact", "bounded", "scaled"};

// Whether alpha and beta are read from device memory: in the second run of bounded data.
bool on_device(DataSet set, int index) { return set == DataSet::bounded && index == 1; }

std::string run_name(DataSet set, const Scalars& scalars, bool scalars_on_device) {
  return std::string(kSetNames[static_cast<std::size_t>(set)]) + " data, alpha " +
         in_digits(scalars.alpha, 6) + ", beta " + in_digits(scalars.beta, 6) +
         (scalars_on_device ? " (read on the device)" : "");
}

// Checks the rows of a piece matrix by matrix, because of the gaps between matrices.
void check_rows(ResultCheck& check, const Placement& place, const Piece& piece,
                const std::byte* copy) {
  const std::int64_t end = piece.first_row + piece.rows;
  for (std::int64_t row = piece.first_row; row < end;) {
    const std::int64_t next = std::min(end, (row / place.rows + 1) * place.rows);
    check.rows(row, next - row, copy + place.offset_of(row) - place.offset_of(piece.first_row),
               place.ld);
    row = next;
  }
}

std::string number(double value) { return in_exponent_form(value, 2); }

}  // namespace

std::int64_t Validator::resident_bytes(const Problem& problem) {
  const Placements places(problem);
  const auto sets = static_cast<std::int64_t>(data_sets(problem).size());
  return sets * (places.a.bytes + places.b.bytes + places.c.bytes) + 2 * places.c.bytes +
         2 * ExtraOperands::bytes(problem, ExtraOperands::Kind::guarded);
}

std::int64_t Validator::minimal_bytes(const Problem& problem) {
  const Placements places(problem);
  return places.a.bytes + places.b.bytes + places.c.bytes +
         ExtraOperands::bytes(problem, ExtraOperands::Kind::guarded);
}

Validator::Validator(Device& device, Stream stream, std::shared_ptr<const Reference> reference,
                     bool resident, std::int64_t spare_bytes)
    : device_(device),
      stream_(stream),
      copies_(device),
      reference_(std::move(reference)),
      resident_(resident),
      staging_(device, all_placements(reference_->problem())) {
  const Problem& problem = reference_->problem();
  const Placements places(problem);
  for (const DataSet set : data_sets(problem)) {
    runs_.insert(runs_.end(), {{set, 0}, {set, 1}});
    if (!resident && !inputs_.empty()) continue;
    Inputs& inputs = inputs_.emplace_back();
    inputs.a = DeviceMatrix(device, places.a);
    inputs.b = DeviceMatrix(device, places.b);
    if (resident) inputs.c0 = DeviceMatrix(device, places.c);
  }
  for (int c = 0; c < (resident ? 2 : 1); ++c) {
    c_.emplace_back(device, places.c);
    operands_.emplace_back(device, problem, ExtraOperands::Kind::guarded);
    done_.push_back(device.create_event());
  }
  load_scalars();
  if (resident) use_spare(spare_bytes);
  reload();
}

// A device that cannot compare leaves all comparisons to the host, and so does an epilogue that
// writes more than C.
void Validator::use_spare(std::int64_t bytes) {
  if (!only_c(reference_->problem())) return;
  if (!device_.known_equal(scalars_.data(), scalars_.data(), scalars_.bytes(), stream_)) return;
  known_.emplace(device_, runs_.size(), bytes);
}

bool Validator::give_back_spare() {
  const bool any = known_.has_value();
  known_.reset();
  return any;
}

// Uploads alpha and beta of the bounded data, in the accumulator's type.
void Validator::load_scalars() {
  const Scalars scalars = reference_->scalars(DataSet::bounded, 1);
  const DType type = reference_->problem().accumulator;
  std::array<std::byte, 2 * sizeof(double)> values{};  // zeroed: the whole buffer is compared
  from_double(type, scalars.alpha, values.data());
  from_double(type, scalars.beta, values.data() + bytes_of(type));
  scalars_ = DeviceBuffer(device_, values.size());
  device_.copy_to_device(scalars_.data(), values.data(), values.size(), stream_);
  device_.synchronize(stream_);
}

// Uploads all data again; when not resident, the next run does.
void Validator::reload() {
  loaded_ = -1;
  if (known_) known_->forget_all();
  for (const ExtraOperands& operands : operands_)
    operands.upload(staging_, stream_, reference_->problem(), reference_->seed());
  if (!resident_) return;
  for (const DataSet set : data_sets(reference_->problem())) {
    upload_inputs(set);
    staging_.upload(stream_, inputs(set).c0, reference_->data(set, DataOf::c0));
  }
}

void Validator::load(DataSet set) {
  if (resident_ || loaded_ == static_cast<int>(set)) return;
  upload_inputs(set);
  loaded_ = static_cast<int>(set);
}

void Validator::upload_inputs(DataSet set) {
  Inputs& to = inputs(set);
  staging_.upload(stream_, to.a, reference_->data(set, DataOf::a));
  staging_.upload(stream_, to.b, reference_->data(set, DataOf::b));
  to.a_sum = checksum_of(to.a);
  to.b_sum = checksum_of(to.b);
}

// Of the whole allocation; none where the device has no checksums.
std::optional<std::uint64_t> Validator::checksum_of(const DeviceMatrix& matrix) {
  if (!sum_.data()) sum_ = DeviceBuffer(device_, sizeof(std::uint64_t));
  device_.clear(sum_.data(), sum_.bytes(), copies_.get());
  if (!device_.add_checksum(matrix.allocation(), matrix.placement().bytes, sum_.data(),
                            copies_.get()))
    return std::nullopt;
  std::uint64_t sum = 0;
  device_.copy_to_host(&sum, sum_.data(), sizeof sum, copies_.get());
  device_.synchronize(copies_.get());
  return sum;
}

// What an epilogue writes holds canaries. C holds canaries where beta is 0, otherwise C0; its
// guards always hold canaries.
void Validator::prepare_c(const Run& run, std::size_t number) {
  const DeviceMatrix& c = c_of(number);
  operands_of(number).clear_results(device_, stream_);
  const Placement& place = c.placement();
  if (reference_->scalars(run.set, run.index).beta == 0) {
    device_.fill32(c.allocation(), canary_word(place.element_bytes), place.bytes / 4, stream_);
  } else if (resident_) {
    device_.copy_on_device(c.allocation(), inputs(run.set).c0.allocation(), place.bytes, stream_);
  } else {
    staging_.upload(stream_, c, reference_->data(run.set, DataOf::c0));
  }
}

Call Validator::call_for(const Run& run, std::size_t number) {
  const Scalars scalars = reference_->scalars(run.set, run.index);
  Call call = call_on(inputs(run.set).a, inputs(run.set).b, c_of(number), stream_);
  operands_of(number).bind(call);
  call.alpha = scalars.alpha;
  call.beta = scalars.beta;
  if (on_device(run.set, run.index)) {
    call.alpha_device = scalars_.data();
    call.beta_device =
        static_cast<std::byte*>(scalars_.data()) + bytes_of(reference_->problem().accumulator);
    call.alpha = call.beta = 9;  // must not be used
  }
  return call;
}

void Validator::start(const Enqueue& enqueue, std::size_t number) {
  const Run& run = runs_[number];
  load(run.set);
  prepare_c(run, number);
  enqueue(call_for(run, number));
  done_[number % done_.size()]->record(stream_);
}

// Waits for a run and judges it.
bool Validator::judge(std::size_t number, Verdict& verdict) {
  done_[number % done_.size()]->wait();
  const auto add = [&](const Judgement& judgement) {
    verdict.error_ratio = std::max(verdict.error_ratio, judgement.error_ratio);
    if (runs_[number].set == DataSet::bounded && runs_[number].index == 0) {
      verdict.normwise_error = judgement.normwise_error;
    }
  };
  if (known_) {
    if (const auto judgement = known_->find(number, c_of(number), copies_.get())) {
      add(*judgement);
      return true;
    }
  }
  const DeviceMatrix* held = known_ ? known_->hold(number, c_of(number), copies_.get()) : nullptr;
  Judgement judgement;
  const bool right =
      compare(runs_[number], held ? *held : c_of(number), operands_of(number), judgement, verdict);
  add(judgement);
  if (right && held) known_->accept_copy(number, judgement);
  return right;
}

// Compares C with the reference and checks the guards, piece by piece as they are downloaded.
bool Validator::compare(const Run& run, const DeviceMatrix& c, const ExtraOperands& operands,
                        Judgement& judgement, Verdict& verdict) {
  const Scalars scalars = reference_->scalars(run.set, run.index);
  const Placement& place = c.placement();
  ResultCheck check(*reference_, run.set, scalars);
  std::mutex mutex;
  GuardCheck guard;  // the lowest offset
  staging_.download(copies_.get(), c, [&](const Piece& piece, const std::byte* copy) {
    check_rows(check, place, piece, copy);
    const GuardCheck found = broken_guard(place, piece, copy);
    const std::lock_guard lock(mutex);
    if (found.found && (!guard.found || found.offset < guard.offset)) guard = found;
  });

  const Comparison found = check.finish();
  judgement = {finite(found.error_ratio), finite(found.normwise_error)};
  if (found.ok && !guard.found) return compare_operands(run, operands, judgement, verdict);
  verdict.outcome = Outcome::wrong_result;
  verdict.detail = (found.ok ? "wrote outside C, " + std::to_string(guard.offset) +
                                   " bytes from its first element"
                             : found.worst) +
                   "; " + run_name(run.set, scalars, on_device(run.set, run.index));
  return false;
}

// Compares what the epilogue writes besides C, and checks that it changes no operand that it reads.
bool Validator::compare_operands(const Run& run, const ExtraOperands& operands,
                                 Judgement& judgement, Verdict& verdict) {
  const Problem& problem = reference_->problem();
  const Scalars scalars = reference_->scalars(run.set, run.index);
  for (std::size_t slot = 0; problem.epilogue && slot < problem.epilogue->operands.size(); ++slot) {
    const DeviceMatrix& matrix = operands.matrix(slot);
    std::string wrong;
    if (!is_result(problem, slot)) {
      if (!staging_.unchanged(copies_.get(), matrix, reference_->operand_data(slot)))
        wrong = "changed what it reads: p" + std::to_string(slot);
    } else {
      ResultCheck check(*reference_, run.set, scalars, slot);
      std::atomic<bool> outside{false};
      std::vector<std::byte> sums;  // judged by all threads, not by that of a piece
      const Placement& place = matrix.placement();
      const bool summed = problem.epilogue->operands[slot].use == EpilogueUse::summed;
      if (summed) sums.resize(static_cast<std::size_t>(place.extent()));
      staging_.download(copies_.get(), matrix, [&](const Piece& piece, const std::byte* copy) {
        if (broken_guard(place, piece, copy).found) outside = true;
        if (!summed) return check_rows(check, place, piece, copy);
        if (piece.rows > 0)
          std::copy(copy, copy + piece.bytes, sums.begin() + (piece.offset - place.before));
      });
      for (std::int64_t row = 0; summed && row < place.all_rows(); ++row)
        check.rows(row, 1, sums.data() + place.offset_of(row), place.ld);
      const Comparison found = check.finish();
      judgement.error_ratio = std::max(judgement.error_ratio, finite(found.error_ratio));
      if (!found.ok) wrong = found.worst;
      if (found.ok && outside) wrong = "wrote outside p" + std::to_string(slot);
    }
    if (wrong.empty()) continue;
    verdict.outcome = Outcome::wrong_result;
    verdict.detail = wrong + "; " + run_name(run.set, scalars, on_device(run.set, run.index));
    return false;
  }
  return true;
}

bool Validator::inputs_unchanged(DataSet set, Verdict& verdict) {
  const Inputs& in = inputs(set);
  const auto unchanged = [&](const DeviceMatrix& matrix, const std::optional<std::uint64_t>& sum,
                             DataOf of) {
    return (sum && checksum_of(matrix) == sum) ||
           staging_.unchanged(copies_.get(), matrix, reference_->data(set, of));
  };
  const bool a = unchanged(in.a, in.a_sum, DataOf::a), b = unchanged(in.b, in.b_sum, DataOf::b);
  if (a && b) return true;
  verdict.outcome = Outcome::wrong_result;
  verdict.detail = std::string("changed its input ") + (a ? "B" : "A");
  return false;
}

Verdict Validator::validate(const Enqueue& enqueue) {
  Verdict verdict;
  std::size_t started = 0;
  for (std::size_t number = 0; number < runs_.size(); ++number) {
    while (started < std::min(runs_.size(), number + c_.size())) start(enqueue, started++);
    const bool right = judge(number, verdict);
    const bool last_of_set = runs_[number].index == 1;
    if (right && !last_of_set) continue;
    if (!right) device_.synchronize(stream_);  // the next run may be under way
    if (inputs_unchanged(runs_[number].set, verdict) && right) continue;
    reload();  // a wrong kernel may have written outside C
    return verdict;
  }
  if (const double strict = reference_->strict_f32_error(); strict > 0) {
    verdict.detail = "strict f32 has a norm-wise error of " + number(strict) + " on the same data";
  }
  return verdict;
}

// The calls of observe(): two operand sets, one C.
std::vector<Call> Validator::calls_in_turns() {
  load(DataSet::bounded);
  std::vector<Call> calls{call_for({DataSet::bounded, 0}, 0)};
  if (resident_) {
    calls.push_back(call_for({DataSet::exact, 0}, 0));
  } else {
    calls.push_back(calls.front());
    calls.back().alpha = -1;
  }
  return calls;
}

// The first launch of observe() on a set, judged by the reference if it has the result.
bool Validator::launch_first(const Enqueue& enqueue, const Call& call, std::size_t set,
                             Verdict& verdict) {
  const DataSet data = resident_ && set == 1 ? DataSet::exact : DataSet::bounded;
  const auto run = std::find_if(runs_.begin(), runs_.end(),
                                [&](const Run& one) { return one.set == data && one.index == 0; });
  const auto number = static_cast<std::size_t>(run - runs_.begin());
  prepare_c(*run, 0);
  enqueue(call);
  device_.synchronize(stream_);
  if (call.alpha != reference_->scalars(data, 0).alpha) return true;
  Judgement judgement;
  return (known_ && known_->find(number, c_.front(), copies_.get())) ||
         compare(*run, c_.front(), operands_.front(), judgement, verdict);
}

Verdict Validator::observe(const Enqueue& enqueue, double seconds, std::int64_t& launches) {
  Verdict verdict;
  const DeviceMatrix& c = c_.front();
  std::vector<Repetition::Range> written = operands_.front().results();
  written.push_back({c.allocation(), c.placement().bytes});
  Repetition repetition(device_, stream_, calls_in_turns(), std::move(written));
  for (std::size_t set = 0; set < repetition.calls().size(); ++set) {
    ++launches;
    if (!launch_first(enqueue, repetition.calls()[set], set, verdict)) {
      reload();
      return verdict;
    }
    repetition.expect(set);
  }
  RepetitionLimits limits;
  limits.seconds = seconds;
  const Repeated found = repetition.run(enqueue, limits);
  launches += found.launches;
  if (found.wrong == 0) return verdict;
  reload();  // a wrong kernel may have written outside C
  verdict.outcome = Outcome::wrong_result;
  verdict.detail =
      "not the same each time: launch " + std::to_string(found.first_wrong) +
      (resident_ ? " on " + std::string(kSetNames[found.wrong_set == 0 ? 1 : 0]) + " data" : "") +
      " left other bits in C or around it than the first one";
  return verdict;
}

Call Validator::timing_call() {
  load(DataSet::bounded);
  prepare_c({DataSet::bounded, 1}, 0);
  device_.synchronize(stream_);
  return call_for({DataSet::bounded, 0}, 0);
}

}  // namespace tilewise
