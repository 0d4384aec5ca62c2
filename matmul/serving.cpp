#include "matmul/serving.hpp"

#include <atomic>
#include <utility>
#include <vector>

#include "matmul/packed_contents.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/plan.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// "record 7, the winner for nn 1024x1024x1024 ...,", "simt's default".
std::string described(const Resolution& resolution) {
  if (!resolution.record) return resolution.candidate.kernel_template + "'s default";
  if (resolution.record->id == 0)
    return (resolution.record->environment.date.empty() ? "the portfolio's configuration for "
                                                        : "the bundle's record for ") +
           to_string(resolution.record->problem);
  return "record " + std::to_string(resolution.record->id) + ", the winner for " +
         to_string(resolution.record->problem) + ",";
}

std::string compiler_remedy(const DeviceInfo& device) {
  return std::string("leave compile_missing on and install ") +
         (device.target.host ? "a C++ compiler (TILEWISE_CXX names it)"
                             : "NVRTC (a CUDA toolkit, or pip install nvidia-cuda-nvrtc; "
                               "TILEWISE_NVRTC names it where it is not found by itself)");
}

Request without_packings(Request request) {
  request.packed_a = request.packed_b = 0;
  return request;
}

/// The plan of an emulated product, whose workspace takes at most a quarter of the memory: of what
/// is free now, if that is enough.
Plan plan_within_free_memory(const Candidate& candidate, const Problem& problem,
                             const Device& device) {
  DeviceInfo info = device.info();
  if (info.memory_bytes > 0) info.memory_bytes = device.free_memory();
  const bool valid =
      is_valid(find_template(candidate.kernel_template), problem, candidate.configuration, info);
  return plan_of(candidate, problem, valid ? info : device.info());
}

[[noreturn]] void throw_not_loaded(const Request& request) {
  throw Error(ErrorKind::invalid_argument,
              request.far
                  ? to_string(request.problem) +
                        " with rows or matrices this far apart cannot be captured, since its "
                        "kernel is not loaded yet: multiply once before the capture, with the same "
                        "leading dimensions and strides"
                  : "the first product of " + to_string(request.problem) +
                        " cannot be captured, since its kernel is not loaded yet: call prepare() "
                        "with this problem (its alignment included) before the capture begins");
}

}  // namespace

Serving::Serving(ServingParts parts)
    : device_(std::move(parts.device)),
      warnings_(std::move(parts.warn)),
      stores_(parts, device_->info(), warnings_),
      winners_(stores_, device_->info(), std::move(parts.portfolio), warnings_),
      orders_(stores_, device_->info(), warnings_),
      searches_(winners_, device_->info(), std::move(parts.tune), warnings_),
      counted_(*device_),
      kernels_(*device_, stores_, warnings_),
      on_miss_(parts.on_miss),
      id_(next_id()) {
  for (const std::string& note : parts.notes) warnings_.once(note);
  if (on_miss_ == OnMiss::record) missed_.emplace(parts.missed_list);
}

Resolution Serving::explain(const Problem& problem) {
  const Problem served = orders_.in_order(problem);
  Resolution resolution = winners_.explain(served, {kernels_.refused()});
  if (problem.math == MathMode::emulated) resolution.counts = counted_.read(served);
  return resolution;
}

std::shared_ptr<const Executable> Serving::executable(const Request& request, Stream stream,
                                                      const GivenPackings& given) {
  if (auto found = executables_.find(request)) return found;
  if (request.problem.order == kept_order()) return in_kept_order(request, stream, given);
  if (request.product) return product_or_batch(request, stream);
  const MayLoad may_load = device_->capturing(stream) ? MayLoad::no : MayLoad::yes;
  if (may_load == MayLoad::no && !given.none())
    return executable(without_packings(request), stream);
  if (may_load == MayLoad::yes) search_if_due(request.problem);
  const std::lock_guard making(make_mutex_);
  if (auto found = executables_.find(request)) return found;
  auto made = make(request, given, may_load);
  executables_.add(request, made);
  return made;
}

/// The executable of the same request in the order that is kept for it.
std::shared_ptr<const Executable> Serving::in_kept_order(const Request& request, Stream stream,
                                                         const GivenPackings& given) {
  Request ordered = request;
  ordered.problem = orders_.in_order(request.problem);
  if (ordered.product) ordered.product->order = ordered.problem.order;
  auto made = executable(ordered, stream, given);
  if (device_->capturing(stream)) return made;  // a choice in a capture is not kept
  const std::lock_guard making(make_mutex_);
  if (!has_executable(request)) executables_.add(request, made);
  return made;
}

/// Serves a batch that is one product by one of its two forms. A batch that was prepared stays a
/// batch, and its own record comes before a prediction for the product. If one form cannot be
/// served (the kernel does not compile, or is not loaded in a capture), the other is tried.
std::shared_ptr<const Executable> Serving::product_or_batch(const Request& request, Stream stream) {
  const Request product(*request.product);
  Request batch = request;
  batch.product.reset();
  const bool batch_is_made = has_executable(batch) && !has_executable(product);
  const bool product_first =
      !batch_is_made && (winners_.has(product.problem) || !winners_.has(batch.problem));
  std::shared_ptr<const Executable> made;
  try {
    made = executable(product_first ? product : batch, stream);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::device || error.kind() == ErrorKind::out_of_memory) throw;
    made = executable(product_first ? batch : product, stream);
  }
  if (device_->capturing(stream)) return made;  // a choice in a capture is not kept
  const std::lock_guard making(make_mutex_);
  if (!has_executable(request)) executables_.add(request, made);
  return made;
}

void Serving::keep_choice(const Problem& asked) {
  const Problem problem = orders_.in_order(asked);
  const std::lock_guard making(make_mutex_);
  if (kept_.contains(problem)) return;
  Resolution served;
  make(Request(problem), {}, MayLoad::yes, &served);
  if (kept_.size() >= kKeptChoices) return;
  auto& shared = kept_resolutions_[served.candidate];
  if (!shared) shared = std::make_shared<const Resolution>(std::move(served));
  kept_[problem] = shared;
}

/// The prepared resolution for a request; null if there is none that serves it.
const Resolution* Serving::kept(const Request& request) const {
  const auto known = kept_.find(request.problem);
  if (known == kept_.end()) return nullptr;
  const Resolution& choice = *known->second;
  const bool serves = !request.far || !has_maps_of_call(plan_of(choice.candidate, request.problem,
                                                                device_->info()));
  return serves ? &choice : nullptr;
}

/// Uses the kept resolution if there is one. Otherwise tries resolutions, best first, until one
/// loads. A failed one is not tried again in this process. It is quarantined in the database only
/// after another has loaded: before that, the device may be at fault. `served`: the resolution that
/// loaded.
std::shared_ptr<const Executable> Serving::make(const Request& request, const GivenPackings& given,
                                                MayLoad may_load, Resolution* served) {
  const Problem& problem = request.problem;
  if (const Resolution* choice = kept(request))
    if (Attempt tried = attempt(request, *choice, may_load); tried.executable)
      return std::move(tried.executable);
  std::vector<std::pair<Resolution, Attempt>> failures;
  for (;;) {
    Resolution resolution;
    try {
      resolution = winners_.resolve(problem, {kernels_.refused(), given, request.far});
      if (is_missed(request, resolution))
        meet_miss(problem, failures.empty() ? "" : failures.front().second.why_not);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unsupported) give_up(problem);
      throw;
    }
    Attempt tried = attempt(request, resolution, may_load);
    if (tried.executable) {
      for (const auto& [failed, failure] : failures) {
        warnings_.once(described(failed) + " is set aside: " + failure.why_not);
        // A failure of another form of the candidate does not count against the record, nor does
        // one with another epilogue.
        if (failed.record && failed.record->candidate == failed.candidate &&
            failed.record->problem.epilogue == problem.epilogue && failure.broken)
          quarantine(*failed.record, failure.why_not);
      }
      if (resolution.stale) warnings_.once(described(resolution) + " is stale: " + resolution.why);
      if (served) *served = std::move(resolution);
      return std::move(tried.executable);
    }
    kernels_.refuse(tried.failed, problem, tried.why_not);
    failures.emplace_back(std::move(resolution), std::move(tried));
  }
}

Serving::Attempt Serving::attempt(const Request& request, const Resolution& resolution,
                                  MayLoad may_load) {
  const bool emulated = request.problem.math == MathMode::emulated;
  Plan plan = emulated ? plan_within_free_memory(resolution.candidate, request.problem, *device_)
                       : plan_of(resolution.candidate, request.problem, device_->info());
  const std::string revision = launch_revision(find_template(resolution.candidate.kernel_template));
  Attempt attempt;
  std::map<KernelSpec, std::shared_ptr<LoadedKernel>> kernels;
  for (const auto& [spec, need] : kernel_needs(plan)) {
    LoadedKernel* kernel = kernels_.loaded(spec, need);
    if (!kernel && may_load == MayLoad::no) throw_not_loaded(request);
    if (!kernel) {
      KernelTable::Loading loading =
          kernels_.load(spec, need, revision, seconds_to_compile(resolution));
      kernel = loading.kernel;
      if (!kernel) {
        attempt.failed = spec;
        attempt.why_not = std::move(loading.why_not);
        attempt.broken = loading.broken;
        return attempt;
      }
    }
    kernels[spec] = {std::shared_ptr<void>(), kernel};  // owned by kernels_
  }
  attempt.executable =
      std::make_shared<const Executable>(*device_, request.problem, std::move(plan), kernels,
                                         emulated ? counted_.counts_of(request.problem) : nullptr);
  return attempt;
}

/// Expected compile time of a kernel in seconds: the compile time of all of the record's kernels,
/// otherwise a typical value.
double Serving::seconds_to_compile(const Resolution& resolution) const {
  constexpr double kUsual = 0.3, kUsualOnCpu = 1;
  if (resolution.record && resolution.record->compile_ms > 0)
    return resolution.record->compile_ms / 1000;
  return device_->info().target.host ? kUsualOnCpu : kUsual;
}

/// Whether nothing tuned serves the request. A batch by pointers is served by kernels tuned for the
/// batch with strides, and products grouped by counts by those of tuned_as(). With far strides, a
/// tuned kernel may be unable to serve.
bool Serving::is_missed(const Request& request, const Resolution& resolution) {
  if (resolution.kind == MatchKind::exact) return false;
  const bool by_counts = request.problem.grouping == Grouping::counts;
  Problem tuned = tuned_as(request.problem);
  tuned.pointers = false;
  return !((request.problem.pointers || by_counts || request.far) && winners_.has(tuned));
}

/// Applies OnMiss to a problem that was not tuned, or whose record failed (`why_not`).
void Serving::meet_miss(const Problem& problem, const std::string& why_not) {
  if (on_miss_ == OnMiss::error) {
    const std::string what = to_string(problem) + " on " + device_->info().name;
    throw Error(ErrorKind::not_found,
                (why_not.empty() ? "nothing was tuned for " + what
                                 : "what was tuned for " + what + " cannot be served: " + why_not) +
                    ", and on_miss is error; to tune it: autotune" + tune_options(problem));
  }
  if (!missed_) return;
  if (const std::string why = missed_->add(tuned_as(problem)); !why.empty())
    warnings_.once("problems that were not tuned are not written to " + missed_->path().string() +
                   " any more: " + why);
}

/// Searches without holding make_mutex_, so that products of other problems can be made meanwhile.
void Serving::search_if_due(const Problem& problem) {
  const Problem tuned = tuned_as(problem);
  if (!searches_.is_due(tuned)) return;
  {
    const std::lock_guard making(make_mutex_);
    if (kept_.contains(problem)) return;
  }
  searches_.search_for(tuned);
}

/// Marks the record so that the next process does not try it. In a database that cannot be written,
/// the record stays unmarked.
void Serving::quarantine(const Record& record, const std::string& why) {
  const std::string failed =
      stores_.write([&](Database& database) { database.quarantine(record.id, why); });
  if (!failed.empty())
    warnings_.once("record " + std::to_string(record.id) +
                   " could not be marked in the database: " + failed);
}

/// Throws with the remedy if every candidate for a problem has failed; returns if none was tried.
void Serving::give_up(const Problem& problem) const {
  const std::string why_not = kernels_.refusal_for(problem);
  if (why_not.empty()) return;
  throw Error(ErrorKind::compiler,
              "no kernel for " + to_string(problem) + " can be served: " + why_not +
                  ". Tune it where there is a compiler (autotune" + tune_options(problem) +
                  "), or let calls compile: " + compiler_remedy(device_->info()));
}

void Serving::pack(const Problem& problem, const Call& call, PackedOperand::Contents& contents) {
  if (device_->capturing(call.stream))
    throw Error(ErrorKind::invalid_argument,
                "an operand cannot be packed inside a stream capture: pack it before, and capture "
                "the products that use it");
  const std::shared_ptr<const Executable> packer = executable(Request(problem), call.stream);
  const Packing* packing = packer->packing(contents.role);
  if (!packing) return;
  contents.device = device_;
  contents.memory = DeviceBuffer(*device_, packing->bytes);
  packer->pack(contents.role, call, contents.memory.data());
  device_->synchronize(call.stream);
  contents.packing = *packing;
  contents.packing_key = key_of(*packing);
}

void Serving::quantize(const Quantization& asked) {
  const QuantizeLaunch launch = quantize_launch(asked);
  std::atomic<const LoadedKernel*>& kept = quantizing_.at(launch.number);
  const LoadedKernel* kernel = kept.load(std::memory_order_acquire);
  if (!kernel) {
    if (device_->capturing(asked.stream))
      throw Error(ErrorKind::invalid_argument,
                  "the first quantization of " + std::string(to_string(asked.from)) + " to " +
                      std::string(to_string(asked.to)) +
                      " cannot be captured, since its kernel is not loaded yet: quantize once "
                      "before the capture begins");
    const std::lock_guard making(make_mutex_);
    const KernelSpec spec = quantize_kernel(asked, launch);
    kernel = kernels_.loaded(spec, {});
    if (!kernel) {
      constexpr double kSeconds = 1;  // to compile
      const KernelTable::Loading loading = kernels_.load(spec, {}, "", kSeconds);
      if (!loading.kernel)
        throw Error(ErrorKind::compiler, "no matrix can be quantized: " + loading.why_not + "; " +
                                             compiler_remedy(device_->info()));
      kernel = loading.kernel;
    }
    kept.store(kernel, std::memory_order_release);
  }
  device_->launch(*kernel, launch.shape, &launch.arguments, asked.stream);
}

}  // namespace tilewise
