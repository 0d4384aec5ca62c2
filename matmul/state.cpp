#include "matmul/state.hpp"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <utility>

#include "matmul/build.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/stored_corrections.hpp"
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

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// "stored for nn 1024x1024x1024 ... (record 7)", "simt's default".
std::string described(const Resolution& resolution) {
  if (!resolution.record) return resolution.candidate.kernel_template + "'s default";
  if (resolution.record->id == 0)
    return (resolution.record->environment.date.empty() ? "the portfolio's configuration for "
                                                        : "the bundle's record for ") +
           to_string(resolution.record->problem);
  return "record " + std::to_string(resolution.record->id) + ", the winner for " +
         to_string(resolution.record->problem) + ",";
}

constexpr std::uint64_t kWithoutMaps = 0x7f4a7c159e3779b9;  // in place of a key of packings

bool has_maps_of_call(const Plan& plan) {
  return std::any_of(plan.tensor_maps.begin(), plan.tensor_maps.end(),
                     [](const TensorMapRecipe& recipe) {
                       return recipe.stride.kind != Argument::Kind::integer64;
                     });
}

constexpr int kMostFailedSearches = 3;  // in a row: then the cause is not one problem

}  // namespace

Matmul::State::State(MatmulParts parts)
    : device_(std::move(parts.device)),
      database_(std::move(parts.database)),
      bundle_(std::move(parts.bundle)),
      parts_(std::move(parts)),
      id_(next_id()) {
  if (!parts_.warn)
    parts_.warn = [](const std::string& line) { std::cerr << "tilewise: " + line + "\n"; };
  for (const std::string& note : parts_.notes) warn_once(note);
  if (bundle_) check_bundle();
  if (parts_.on_miss == OnMiss::record) missed_.emplace(parts_.missed_list);
}

std::shared_ptr<const Executable> Matmul::State::executable(const Problem& problem, Stream stream,
                                                            const GivenPackings& given) {
  const Asked asked(problem, given.key());
  if (auto found = executables_.find(asked)) return found;
  const MayLoad may_load = device_->capturing(stream) ? MayLoad::no : MayLoad::yes;
  if (may_load == MayLoad::no && !given.none()) return executable(problem, stream);
  if (may_load == MayLoad::yes) tune(problem);
  const std::lock_guard making(make_mutex_);
  if (auto found = executables_.find(asked)) return found;
  std::shared_ptr<const Executable> made = given.none() || prepared_.contains(problem)
                                               ? make(problem, may_load)
                                               : make(problem, may_load, given, nullptr);
  executables_.add(asked, made);
  return made;
}

void Matmul::State::prepare(const Problem& problem) {
  const std::lock_guard making(make_mutex_);
  if (prepared_.contains(problem)) return;
  Resolution served;
  make(problem, MayLoad::yes, {}, &served);
  if (prepared_.size() >= kPrepared) return;
  auto& shared = prepared_resolutions_[served.candidate];
  if (!shared) shared = std::make_shared<const Resolution>(std::move(served));
  prepared_[problem] = shared;
}

/// By the prepared choice where there is one.
std::shared_ptr<const Executable> Matmul::State::make(const Problem& problem, MayLoad may_load) {
  if (const auto known = prepared_.find(problem); known != prepared_.end())
    if (Attempt tried = attempt(problem, *known->second, may_load); tried.executable)
      return std::move(tried.executable);
  return make(problem, may_load, {}, nullptr);
}

/// Tries resolutions, best first, until one loads. A failed one is not tried again in this process.
/// It is quarantined in the database only after another has loaded: before, the device may be at
/// fault. `served`: the resolution that loaded.
std::shared_ptr<const Executable> Matmul::State::make(const Problem& problem, MayLoad may_load,
                                                      const GivenPackings& given,
                                                      Resolution* served) {
  std::vector<std::pair<Resolution, Attempt>> failures;
  for (;;) {
    Resolution resolution;
    try {
      resolution = resolve(*(failures.empty() ? stored_for(problem) : stored()), problem, given);
      if (is_missed(problem, resolution))
        meet_miss(problem, failures.empty() ? "" : failures.front().second.why_not);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unsupported) give_up(problem);
      throw;
    }
    Attempt tried = attempt(problem, resolution, may_load);
    if (tried.executable) {
      for (const auto& [failed, failure] : failures) {
        warn_once(described(failed) + " is set aside: " + failure.why_not);
        // Another form of a record's candidate says nothing of the record.
        if (failed.record && failed.record->candidate == failed.candidate && failure.broken)
          quarantine(*failed.record, failure.why_not);
      }
      if (resolution.stale) warn_once(described(resolution) + " is stale: " + resolution.why);
      if (served) *served = std::move(resolution);
      return std::move(tried.executable);
    }
    refuse(problem, tried);
    failures.emplace_back(std::move(resolution), std::move(tried));
  }
}

/// A batch by pointers is served by what was tuned for the batch with strides.
bool Matmul::State::is_missed(const Problem& problem, const Resolution& resolution) {
  Problem tuned = problem;
  tuned.pointers = false;
  return resolution.kind != MatchKind::exact && !(problem.pointers && stored()->has_winner(tuned));
}

/// What OnMiss says of a problem that was not tuned, or whose record failed (`why_not`).
void Matmul::State::meet_miss(const Problem& problem, const std::string& why_not) {
  if (parts_.on_miss == OnMiss::error) {
    const std::string what = to_string(problem) + " on " + device_->info().name;
    throw Error(ErrorKind::not_found,
                (why_not.empty() ? "nothing was tuned for " + what
                                 : "what was tuned for " + what + " cannot be served: " + why_not) +
                    ", and on_miss is error; to tune it: autotune" + tune_options(problem));
  }
  if (!missed_) return;
  if (const std::string why = missed_->add(problem); !why.empty())
    warn_once("problems that were not tuned are not written to " + parts_.missed_list.string() +
              " any more: " + why);
}

Matmul::State::Attempt Matmul::State::attempt(const Problem& problem, const Resolution& resolution,
                                              MayLoad may_load) {
  Plan plan = plan_of(resolution.candidate, problem, device_->info());
  const std::string revision = launch_revision(find_template(resolution.candidate.kernel_template));
  Attempt attempt;
  attempt.seconds_to_compile = seconds_to_compile(resolution);
  std::map<KernelSpec, std::shared_ptr<LoadedKernel>> kernels;
  for (const auto& [spec, need] : kernel_needs(plan)) {
    LoadedKernel* kernel = loaded(spec, need);
    if (!kernel && may_load == MayLoad::no)
      throw Error(ErrorKind::invalid_argument,
                  "the first product of " + to_string(problem) +
                      " cannot be captured, since its kernel is not loaded yet: call prepare() "
                      "with this problem (its alignment included) before the capture begins");
    if (!kernel) kernel = load(spec, need, revision, attempt);
    if (!kernel) {
      attempt.failed = spec;
      return attempt;
    }
    kernels[spec] = {std::shared_ptr<void>(), kernel};  // owned by loaded_
  }
  attempt.executable =
      std::make_shared<const Executable>(*device_, problem, std::move(plan), kernels);
  return attempt;
}

/// Null when it is not loaded for that need.
LoadedKernel* Matmul::State::loaded(const KernelSpec& kernel, const KernelNeed& need) const {
  const auto known = loaded_.find(kernel);
  if (known == loaded_.end() || known->second.need.shared_bytes < need.shared_bytes ||
      known->second.need.cluster_blocks < need.cluster_blocks)
    return nullptr;
  return known->second.kernels.back().get();
}

/// Where the kernel is loaded for a smaller need, both stay loaded: captured graphs may have the
/// first.
LoadedKernel* Matmul::State::load(const KernelSpec& kernel, const KernelNeed& asked,
                                  const std::string& launch_revision, Attempt& attempt) {
  KernelNeed need = asked;
  if (const auto known = loaded_.find(kernel); known != loaded_.end()) {
    need.shared_bytes = std::max(need.shared_bytes, known->second.need.shared_bytes);
    need.cluster_blocks = std::max(need.cluster_blocks, known->second.need.cluster_blocks);
  }
  const ImageStore::Made found = image(kernel, launch_revision, attempt);
  if (!found.image) return nullptr;
  std::string why;
  std::unique_ptr<LoadedKernel> made = try_load(*found.image, need, why);
  if (!made && !found.compiled) made = load_anew(kernel, need, launch_revision, why);
  if (!made) {
    attempt.why_not = "the image of " + to_string(kernel) + " does not load: " + why;
    attempt.broken = true;
    return nullptr;
  }
  Loaded& loaded = loaded_[kernel];
  loaded.kernels.push_back(std::move(made));
  loaded.need = need;
  return loaded.kernels.back().get();
}

/// Null when the device refuses the image.
std::unique_ptr<LoadedKernel> Matmul::State::try_load(const Image& image, const KernelNeed& need,
                                                      std::string& why_not) {
  try {
    return device_->load(image, need.shared_bytes, need.cluster_blocks);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    why_not = error.what();
    return nullptr;
  }
}

/// Compiles a replacement for a stored image that does not load. If the replacement loads, the
/// stored image is at fault and is set aside.
std::unique_ptr<LoadedKernel> Matmul::State::load_anew(const KernelSpec& kernel,
                                                       const KernelNeed& need,
                                                       const std::string& launch_revision,
                                                       const std::string& why) {
  if (!compiler()) return nullptr;
  const Target& target = device_->info().target;
  const ImageStore::Made made =
      ImageStore(nullptr, cache(), compiler()).make_anew(kernel, target, launch_revision);
  std::string again;
  std::unique_ptr<LoadedKernel> loaded = made.image ? try_load(*made.image, need, again) : nullptr;
  if (!loaded) return nullptr;
  warn_once("the stored image of " + to_string(kernel) +
            " does not load and was compiled anew: " + why);
  write_to_database([&](Database& database) {
    database.refuse_image(kernel, target, launch_revision, "it does not load: " + why);
  });
  return loaded;
}

/// Expected seconds of a kernel's compile: the compile time of the record's kernels together, else
/// a usual value.
double Matmul::State::seconds_to_compile(const Resolution& resolution) const {
  constexpr double kUsual = 0.3, kUsualOnCpu = 1;
  if (resolution.record && resolution.record->compile_ms > 0)
    return resolution.record->compile_ms / 1000;
  return device_->info().target.host ? kUsualOnCpu : kUsual;
}

/// From the database, else from the cache, which is opened at its first use. Damage is reported
/// once and marked in the database.
std::optional<Image> Matmul::State::stored_image(const KernelSpec& kernel,
                                                 const std::string& launch_revision) {
  const Target& target = device_->info().target;
  if (database_) {
    const std::size_t known = database_->warnings().size();
    if (auto found =
            ImageStore(&*database_, nullptr, nullptr).stored(kernel, target, launch_revision))
      return found;
    const std::vector<std::string> warnings = database_->warnings();
    for (std::size_t i = known; i < warnings.size(); ++i) warn_once(warnings[i]);
    // A read-only connection leaves a damaged image; a writable one sets it aside.
    if (warnings.size() > known)
      write_to_database(
          [&](Database& database) { database.image(kernel, target, launch_revision); });
  }
  if (bundle_) {
    auto found = ImageStore(&*bundle_, nullptr, nullptr).stored(kernel, target, launch_revision);
    for (const std::string& warning : bundle_->warnings()) warn_once(warning);
    if (found) return found;
  }
  if (!cache()) return std::nullopt;
  auto found = ImageStore(nullptr, cache(), nullptr).stored(kernel, target, launch_revision);
  for (const std::string& warning : cache()->warnings()) warn_once(warning);
  return found;
}

/// Stored, else compiled. The compiler is loaded at its first use.
ImageStore::Made Matmul::State::image(const KernelSpec& kernel, const std::string& launch_revision,
                                      Attempt& attempt) {
  const Target& target = device_->info().target;
  ImageStore::Made made;
  made.image = stored_image(kernel, launch_revision);
  if (made.image) return made;
  if (!compiler()) {
    attempt.why_not = "no image of " + to_string(kernel) + " for " + to_string(target) +
                      " is stored, and " + no_compiler_;
    return made;
  }
  // Waiting for another process is limited to the expected compile time.
  const Patience patience{attempt.seconds_to_compile};
  made = ImageStore(database_ ? &*database_ : nullptr, cache(), compiler())
             .make(kernel, target, launch_revision, patience);
  if (!made.image) {
    attempt.why_not = to_string(kernel) + " does not compile: " + first_line(made.log);
    attempt.broken = true;
  }
  return made;
}

Resolution Matmul::State::resolution(const Problem& problem) {
  return resolve(*stored_for(problem), problem);
}

/// What is stored comes first, then the portfolio, then a default.
Resolution Matmul::State::resolve(const Resolver& stored, const Problem& problem,
                                  const GivenPackings& given) {
  const auto portfolio = [this]() -> const Resolver* {
    if (!parts_.portfolio) return nullptr;
    portfolio_once_.call([this] {
      portfolio_.emplace(std::vector<Winner>{}, device_->info(), "",
                         parts_.portfolio(device_->info()), [this](const Problem& kind) {
                           std::optional<Corrections> own = corrections(kind);
                           return own ? std::move(own)
                                      : portfolio_corrections(kind, device_->info());
                         });
    });
    return &*portfolio_;
  };
  return tilewise::resolve(stored, portfolio, problem, refused(), given);
}

void Matmul::State::pack(const Problem& problem, const Call& call,
                         PackedOperand::Contents& contents) {
  if (device_->capturing(call.stream))
    throw Error(ErrorKind::invalid_argument,
                "an operand cannot be packed inside a stream capture: pack it before, and capture "
                "the products that use it");
  const std::shared_ptr<const Executable> packer = executable(problem, call.stream);
  const Packing* packing = packer->packing(contents.role);
  if (!packing) return;
  contents.device = device_;
  contents.memory = DeviceBuffer(*device_, packing->bytes);
  packer->pack(contents.role, call, contents.memory.data());
  device_->synchronize(call.stream);
  contents.packing = *packing;
  GivenPackings alone;
  (contents.role == StepRole::pack_a ? alone.a : alone.b) = *packing;
  contents.packing_key = alone.key();
}

Resolution Matmul::State::explain(const Problem& problem) {
  const std::shared_ptr<const Resolver> known = stored_with_compiler();
  Resolution resolution = resolve(*known, problem);
  if (resolution.kind == MatchKind::predicted)
    if (const std::string off = known->how_far_off(problem); !off.empty())
      resolution.why += "; " + off;
  return resolution;
}

void Matmul::State::refuse(const Problem& problem, const Attempt& attempt) {
  const std::lock_guard lock(refusals_mutex_);
  refusals_.emplace(attempt.failed, Refusal{problem, attempt.why_not});
}

RefusedKernels Matmul::State::refused() const {
  const std::lock_guard lock(refusals_mutex_);
  RefusedKernels kernels;
  for (const auto& [kernel, refusal] : refusals_) kernels.insert(kernel);
  return kernels;
}

/// Marks the record, so that the next process does not try it. On a database that cannot be written
/// the record stays unmarked.
void Matmul::State::quarantine(const Record& record, const std::string& why) {
  const std::string failed =
      write_to_database([&](Database& database) { database.quarantine(record.id, why); });
  if (!failed.empty())
    warn_once("record " + std::to_string(record.id) +
              " could not be marked in the database: " + failed);
}

/// Writes through a second connection where the database is open read-only. Returns "" or the
/// failure.
template <class Write>
std::string Matmul::State::write_to_database(Write write) {
  if (!database_) return "";
  try {
    if (database_->read_only()) {
      Database writable =
          Database::open(database_->path(), OpenMode::read_write, database_->trust());
      write(writable);
    } else {
      write(*database_);
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Throws with the remedy when every candidate for a problem has failed; returns when none was
/// tried.
void Matmul::State::give_up(const Problem& problem) const {
  const std::lock_guard lock(refusals_mutex_);
  for (const auto& [kernel, refusal] : refusals_)
    if (same_types(refusal.problem, problem))
      throw Error(ErrorKind::compiler,
                  "no kernel for " + to_string(problem) + " can be served: " + refusal.why_not +
                      ". Tune it where there is a compiler (autotune" + tune_options(problem) +
                      "), or let calls compile: leave compile_missing on and install " +
                      (device_->info().target.host
                           ? "a C++ compiler (TILEWISE_CXX names it)"
                           : "NVRTC (a CUDA toolkit, or pip install nvidia-cuda-nvrtc; "
                             "TILEWISE_NVRTC names it where it is not found by itself)"));
}

ImageCache* Matmul::State::cache() {
  cache_once_.call([this] {
    if (parts_.open_cache) cache_ = parts_.open_cache();
  });
  return cache_.get();
}

const Compiler* Matmul::State::compiler() {
  compiler_once_.call([this] {
    no_compiler_ = parts_.compile_missing ? "there is no compiler" : "compile_missing is off";
    if (!parts_.compile_missing || !parts_.load_compiler) return;
    try {
      compiler_ = parts_.load_compiler();
    } catch (const Error& error) {
      no_compiler_ += std::string(": ") + error.what();
    }
  });
  return compiler_.get();
}

void Matmul::State::warn_once(const std::string& line) {
  const std::lock_guard lock(warn_mutex_);
  if (warned_.insert(line).second) parts_.warn(line);
}

// What a Matmul reads of a database and a bundle --------------------------------------------------

void Matmul::State::check_bundle() {
  const std::vector<std::string> known = bundle_->gpus();
  const std::string gpu = gpu_key(device_->info());
  if (std::find(known.begin(), known.end(), gpu) != known.end()) return;
  std::string gpus;
  for (const std::string& other : known) gpus += (gpus.empty() ? "" : ", ") + other;
  warn_once("the bundle " + bundle_->path().string() + " has nothing for " + gpu +
            "; it has: " + (gpus.empty() ? "nothing" : gpus));
}

/// Adds what the bundle has for this GPU, behind what the database has: of two for one problem the
/// first serves. Its records have no id, since none of this database is theirs.
void Matmul::State::read_bundle(std::vector<Winner>& winners, std::vector<Record>& general) {
  const std::string gpu = gpu_key(device_->info());
  std::vector<Winner> shipped = bundle_->winners(gpu);
  for (Winner& winner : shipped) {
    winner.record.id = 0;
    winners.push_back(std::move(winner));
  }
  std::vector<Record> others = bundle_->general(gpu);
  for (Record& record : others) {
    record.id = 0;
    general.push_back(std::move(record));
  }
  for (const std::string& warning : bundle_->warnings()) warn_once(warning);
}

/// Reads winners and general records, once more after a search. A file that cannot be read serves
/// nothing.
void Matmul::State::read_stored() {
  std::vector<Winner> winners;
  std::vector<Record> general;
  const auto try_to = [this](auto read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::database) throw;
      warn_once(std::string("winners cannot be read: ") + error.what());
    }
  };
  if (database_)
    try_to([&] {
      winners = database_->winners(gpu_key(device_->info()));
      general = database_->general(gpu_key(device_->info()));
      for (const std::string& line : database_->warnings()) warn_once(line);  // damaged winners
    });
  if (bundle_) try_to([&] { read_bundle(winners, general); });
  auto read =
      std::make_shared<const Resolver>(std::move(winners), device_->info(), "", std::move(general),
                                       [this](const Problem& kind) { return corrections(kind); });
  for (const std::string& note : read->notes()) warn_once(note);
  const std::lock_guard lock(stored_mutex_);
  stored_ = std::move(read);
}

std::shared_ptr<const Resolver> Matmul::State::read_before() const {
  const std::lock_guard lock(stored_mutex_);
  return stored_;
}

/// As read last; read at the first need. The resolver stays as it is while the pointer is held.
std::shared_ptr<const Resolver> Matmul::State::stored() {
  if (auto known = read_before()) return known;
  const std::lock_guard reading(read_mutex_);
  if (!read_before()) read_stored();
  return read_before();
}

/// What resolves a problem: its own winner alone, where it has a valid one. A thousand winners take
/// some 20 ms to read, which the first product of a process need not wait for.
std::shared_ptr<const Resolver> Matmul::State::stored_for(const Problem& problem) {
  if (auto known = read_before()) return known;
  for (const std::optional<Database>* from : {&database_, &bundle_}) try {
      if (!*from) continue;
      std::optional<Winner> own = (*from)->winner(problem, gpu_key(device_->info()));
      for (const std::string& line : (*from)->warnings()) warn_once(line);  // a damaged winner
      if (!own) continue;
      if (from == &bundle_) own->record.id = 0;
      std::vector<Winner> winners;
      winners.push_back(*std::move(own));
      auto alone = std::make_shared<const Resolver>(std::move(winners), device_->info());
      for (const std::string& note : alone->notes()) warn_once(note);
      if (alone->has_winner(problem)) return alone;
    } catch (const Error&) {  // reading all says what is damaged
      break;
    }
  return stored();
}

/// The same with staleness, where there is a compiler: the source hash depends on it.
std::shared_ptr<const Resolver> Matmul::State::stored_with_compiler() {
  const Compiler* known = compiler();
  auto current = stored();
  if (!known) return current;
  const std::lock_guard lock(informed_mutex_);
  if (informed_of_ != current) {
    informed_ = std::make_shared<const Resolver>(current->with_compiler(known->identity()));
    informed_of_ = std::move(current);
  }
  return informed_;
}

/// Of the database, else of the bundle.
std::optional<Corrections> Matmul::State::corrections(const Problem& kind) {
  for (const std::optional<Database>* from : {&database_, &bundle_}) try {
      if (!*from) continue;
      if (auto found = load_corrections(**from, kind, device_->info())) return found;
    } catch (const Error& error) {
      warn_once(std::string("corrections of the cost model are not used: ") + error.what());
    }
  return std::nullopt;
}

// Products whose rows or matrices lie too far apart for tensor maps -------------------------------

void Matmul::State::multiply_far(const Problem& problem, const Call& call,
                                 const GivenPackings& given) {
  std::shared_ptr<const Executable> served = executable(problem, call.stream, given);
  // Row classes need no alignment beyond an element's.
  if (!served->encodes(call)) served = without_maps(problem, call.stream);
  served->launch(call);
}

/// prepare() loads the problem's own kernel, not this one.
void Matmul::State::require_loaded(const Plan& plan, const Problem& problem) const {
  for (const auto& [spec, need] : kernel_needs(plan))
    if (!loaded(spec, need))
      throw Error(ErrorKind::invalid_argument,
                  to_string(problem) +
                      " with rows or matrices this far apart cannot be captured, since its kernel "
                      "is not loaded yet: multiply once before the capture, with the same leading "
                      "dimensions and strides");
}

/// The first default whose tensor maps, if any, have strides of its own.
std::shared_ptr<const Executable> Matmul::State::without_maps(const Problem& problem,
                                                              Stream stream) {
  const Asked asked(problem, kWithoutMaps);
  if (auto found = executables_.find(asked)) return found;
  const MayLoad may_load = device_->capturing(stream) ? MayLoad::no : MayLoad::yes;
  const std::lock_guard making(make_mutex_);
  if (auto found = executables_.find(asked)) return found;
  const Resolver defaults({}, device_->info());
  RefusedKernels refused = this->refused();
  for (;;) {
    const Resolution resolution = defaults.resolve(problem, refused);
    const Plan plan = plan_of(resolution.candidate, problem, device_->info());
    if (has_maps_of_call(plan)) {
      refused.insert(multiply_step(plan)->kernel);
      continue;
    }
    if (may_load == MayLoad::no) require_loaded(plan, problem);
    Attempt tried = attempt(problem, resolution, may_load);
    if (tried.executable) {
      executables_.add(asked, tried.executable);
      return std::move(tried.executable);
    }
    refuse(problem, tried);
    refused.insert(tried.failed);
  }
}

// Batches that are one product: which of the two forms serves -------------------------------------

/// A batch that was prepared stays as it is, and its own record comes before a prediction for the
/// product.
bool Matmul::State::serves_folded(const Problem& product, const Problem& batch) {
  if (executables_.find(Asked(batch)) && !executables_.find(Asked(product))) return false;
  const std::shared_ptr<const Resolver> known = stored();
  return known->has_winner(product) || !known->has_winner(batch);
}

/// Where one form cannot be served (nothing compiles, nothing is loaded in a capture), the other
/// may be.
std::shared_ptr<const Executable> Matmul::State::either(const Problem& first, const Problem& second,
                                                        Stream stream) {
  try {
    return executable(first, stream);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::device || error.kind() == ErrorKind::out_of_memory) throw;
    return executable(second, stream);
  }
}

std::shared_ptr<const Executable> Matmul::State::folded(const Problem& product,
                                                        const Problem& batch, Stream stream) {
  const Asked asked(product, std::hash<Problem>{}(batch) | 1);
  const auto found = executables_.find(asked);
  if (found && (found->problem() == product || found->problem() == batch)) return found;
  auto made = serves_folded(product, batch) ? either(product, batch, stream)
                                            : either(batch, product, stream);
  if (device_->capturing(stream)) return made;  // what is loaded now does not decide for later
  const std::lock_guard making(make_mutex_);
  if (!executables_.find(asked)) executables_.add(asked, made);
  return made;
}

// OnMiss::tune: a search before the first product of a problem ------------------------------------

/// Called without make_mutex_: products of other problems are made during a search.
void Matmul::State::tune(const Problem& problem) {
  if (!parts_.tune || problem.k == 0) return;
  Problem searched = problem;
  searched.pointers = false;  // served by what was tuned for batches with strides
  if (!is_to_be_tuned(searched)) return;
  {
    const std::lock_guard making(make_mutex_);
    if (prepared_.contains(problem)) return;
  }
  (void)resolution(searched);  // throws where the device does no such product
  const std::lock_guard turn(search_mutex_);
  if (!is_to_be_tuned(searched)) return;
  const std::string why_not = search_for(searched);
  bool last = false;
  {
    const std::lock_guard lock(searched_mutex_);
    searched_.insert(searched);
    failed_searches_ = why_not.empty() ? 0 : failed_searches_ + 1;
    last = failed_searches_ == kMostFailedSearches;
  }
  if (!why_not.empty())
    warn_once(to_string(searched) +
              " could not be tuned, and is served as by on_miss = serve: " + why_not);
  if (last)
    warn_once(std::to_string(kMostFailedSearches) +
              " searches in a row failed: no further problem is tuned by this Matmul");
}

/// Whether nothing was tuned for it, and no search was made.
bool Matmul::State::is_to_be_tuned(const Problem& problem) {
  if (stored()->has_winner(problem)) return false;
  const std::lock_guard lock(searched_mutex_);
  return failed_searches_ < kMostFailedSearches && !searched_.contains(problem);
}

/// Returns "" when the problem has a winner, else why it has none.
std::string Matmul::State::search_for(const Problem& problem) {
  try {
    read_stored();  // another process may have tuned it
    if (stored()->has_winner(problem)) return "";
    const std::string why_not = parts_.tune(problem, device_->info());
    read_stored();
    if (stored()->has_winner(problem)) return "";
    return why_not.empty() ? "the search found no winner" : why_not;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace tilewise
