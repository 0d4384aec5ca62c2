#include "drop_in/drop_in.hpp"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "device/cuda/cuda.hpp"
#include "device/fork.hpp"
#include "drop_in/signals.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::drop_in {
namespace {

// The most distinct problems that are kept; further ones are passed through.
constexpr std::size_t kMostEntries = 65'536;
// The number of a thread's last problems, which are found without a lock.
constexpr std::size_t kRemembered = 64;

struct Slot {
  const DropIn* owner = nullptr;
  Entry* entry = nullptr;
};
thread_local std::array<Slot, kRemembered> remembered;

}  // namespace

Settings settings_of_environment() {
  Settings settings;
  settings.on = environment_variable("TILEWISE_DROP_IN") != "0";
  settings.predict = environment_variable("TILEWISE_DROP_IN_PREDICT") == "1";
  settings.always = environment_variable("TILEWISE_DROP_IN_ALWAYS") == "1";
  settings.invariant = environment_variable("TILEWISE_DROP_IN_INVARIANT") == "1";
  settings.emulate = environment_variable("TILEWISE_DROP_IN_EMULATE") == "1";
  settings.report = environment_variable("TILEWISE_DROP_IN_REPORT");
  settings.record = environment_variable("TILEWISE_DROP_IN_RECORD");
  settings.device = environment_variable("TILEWISE_DROP_IN_DEVICE");
  return settings;
}

DropIn& DropIn::of_process() {
  static DropIn* const made = [] {
    auto* fresh = new DropIn(settings_of_environment());
    std::atexit([] { of_process().finish(); });
    return fresh;
  }();
  // Runs after the initialisation of `made`, which the function below waits for.
  static const bool has_signals = [] {
    const Settings& settings = made->settings_;
    if (!settings.record.empty() || !settings.report.empty())
      finish_on_signals([] { of_process().finish(); });
    return true;
  }();
  static_cast<void>(has_signals);
  return *made;
}

DropIn::DropIn(Settings settings)
    : settings_(std::move(settings)), generation_(fork_generation()) {}

bool DropIn::may_answer(const Gemm& gemm) {
  if (is_forked()) return refuses();  // its readers may be gone
  products_read_.call([this] { products_ = products_to_answer(settings_, database_); });
  return !products_ || products_->may_have(gemm);
}

int DropIn::current_device() const noexcept {
  return settings_.device.empty() ? cuda::device_of_current_primary_context() : 0;
}

OfDevice& DropIn::of_device(int device) {
  const auto [found, fresh] = devices_.try_emplace(device);
  if (fresh) {
    found->second.failed = true;  // until it is made
    const std::string which = settings_.device.empty() ? "current" : settings_.device;
    found->second.answerer = std::make_unique<Answerer>(which, settings_, database_);
    found->second.failed = false;
  }
  return found->second;
}

/// Null if the product is passed through, for the reason in `why`.
Entry* DropIn::entry_of(const Product& product, int device, Circumstances& circumstances,
                        Why& why) {
  const std::array<std::int64_t, 3> leading =
      settings_.record.empty()
          ? std::array<std::int64_t, 3>{}
          : std::array<std::int64_t, 3>{product.call.lda, product.call.ldb, product.call.ldc};
  Slot& slot = remembered[std::hash<Problem>{}(product.problem) % kRemembered];
  if (slot.owner == this && slot.entry->device == device && slot.entry->leading == leading &&
      slot.entry->problem == product.problem)
    return slot.entry;
  if (!circumstances.complete()) return why = Why::arguments, nullptr;
  const std::lock_guard lock(mutex_);
  const Key key{device, {product.problem, leading}};
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    if (entries_.size() >= kMostEntries) return why = Why::many, nullptr;
    OfDevice& there = of_device(device);
    if (there.failed) return why = Why::off, nullptr;
    if (there.answerer->device().capturing(circumstances.stream))
      return why = Why::capture, nullptr;
    auto made = std::make_unique<Entry>();
    made->problem = product.problem;
    made->leading = leading;
    made->device = device;
    made->there = &there;
    made->math = product.problem.math;
    if (!settings_.record.empty())
      made->decision.why = Why::recording;
    else
      made->decision = there.answerer->decide(product.problem);
    if (made->math == MathMode::emulated && made->decision.why == Why::untuned) {
      Problem strict = product.problem;
      strict.math = made->math = MathMode::strict;
      made->decision = there.answerer->decide(strict);
    }
    found = entries_.emplace(key, std::move(made)).first;
  }
  slot = {this, found->second.get()};
  return slot.entry;
}

DropIn::Outcome DropIn::not_answered(Why why, const Problem* problem,
                                     const char* details) noexcept {
  const std::uint64_t before = count(why);
  if (!settings_.on || !refuses()) return {};
  if (before == 0) say_refusal(why, problem, details);
  return {.refused = true};
}

void DropIn::say_refusal(Why why, const Problem* problem, const char* details) const noexcept {
  try {
    const std::string what = problem ? " (" + to_string(*problem) + ")" : "";
    std::cerr << "tilewise: TILEWISE_DROP_IN_INVARIANT=1 refuses a product of cuBLAS" + what +
                     ": " + std::string(to_string(why)) + (*details ? ": " : "") + details + "\n"
              << std::flush;
  } catch (...) {  // too little memory for a message
  }
}

DropIn::Outcome DropIn::consider(const Gemm& gemm, Circumstances& circumstances) noexcept {
  if (!settings_.on) return not_answered(Why::off);
  if (is_forked())
    return not_answered(Why::off, nullptr, "this process was forked from one that multiplied");
  if (gemm.m < 1 || gemm.n < 1 || gemm.k < 1 || gemm.batch < 1) {  // there are no sums
    count(Why::arguments);
    return {};
  }
  Product product;
  if (const Why why = product_of(gemm, circumstances.math, product); why != Why::none)
    return not_answered(why);
  if (Problem& problem = product.problem;
      settings_.emulate && !settings_.invariant && problem.math == MathMode::strict &&
      find_product_kind(problem.a.type, problem.c.type, MathMode::emulated))
    problem.math = MathMode::emulated;
  if (refuses()) set_invariant(product.problem);
  const auto pass = [&](Why why) { return not_answered(why, &product.problem); };
  const int device = current_device();
  if (device < 0) return pass(Why::context);
  try {
    Why why = Why::none;
    Entry* entry = entry_of(product, device, circumstances, why);
    if (!entry) return pass(why);
    product.problem.math = entry->math;
    why = entry->decision.why;
    if ((why == Why::none || why == Why::recording) && !circumstances.complete())
      return pass(Why::arguments);
    if (why == Why::none && !set_scalars(gemm, circumstances.scalars_on_host, product))
      why = Why::scalars;
    if (why == Why::none && !circumstances.all_multiprocessors && !refuses())
      why = Why::multiprocessors;
    // A graph with nodes that allocate cannot be cloned; cuBLAS has its workspace already. A batch
    // that shares an operand may be served as one product, whose workspace is not known here.
    const bool may_be_one =
        product.problem.batch > 1 && (product.call.stride_a == 0 || product.call.stride_b == 0);
    if (why == Why::none && !refuses() &&
        (may_be_one || entry->decision.workspace > circumstances.workspace_bytes) &&
        entry->there->answerer->device().capturing(circumstances.stream))
      why = Why::capture;
    if (why != Why::none) {
      entry->passed.fetch_add(1, kRelaxed);
      Outcome outcome = pass(why);
      outcome.timed = why == Why::recording ? entry : nullptr;
      return outcome;
    }
    product.call.stream = circumstances.stream;
    product.call.workspace = circumstances.workspace;
    product.call.workspace_bytes = circumstances.workspace_bytes;
    product.call.operands = {product.operands.data(), product.operand_count};
    if (entry->there->failed.load(kRelaxed)) return pass(Why::off);
    entry->there->answerer->multiply(product.problem, product.call);
    entry->answered.fetch_add(1, kRelaxed);
    return {.answered = true};
  } catch (const Error& error) {
    // The operands may overlap, for example, which cuBLAS may accept.
    if (error.kind() == ErrorKind::invalid_argument) return pass(Why::arguments);
    if (refuses() && error.kind() == ErrorKind::unsupported)
      return not_answered(Why::order, &product.problem, error.what());
    if (refuses() && error.kind() == ErrorKind::out_of_memory)
      return not_answered(Why::memory, &product.problem, error.what());
    fail(device, error.what());
  } catch (const std::exception& error) {
    fail(device, error.what());
  }
  return pass(Why::off);
}

void DropIn::fail(int device, const char* what) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    devices_[device].failed = true;
    if (std::exchange(said_, true)) return;
    std::cerr << (refuses() ? "tilewise: all products are refused from here on: "
                            : "tilewise: cuBLAS answers all products from here on: ")
              << what << std::endl;
  } catch (...) {  // too little memory for a message
  }
}

Samples::Sample* DropIn::begin_timing(Entry& entry, Stream stream) noexcept {
  try {
    Device& device = entry.there->answerer->device();
    return device.capturing(stream) ? nullptr : entry.samples.begin(device, stream);
  } catch (...) {  // this time is missing in the record
    return nullptr;
  }
}

void DropIn::end_timing(Entry& entry, Samples::Sample& sample, Stream stream) noexcept {
  try {
    entry.samples.end(sample, stream);
  } catch (...) {  // the same
  }
}

}  // namespace tilewise::drop_in
