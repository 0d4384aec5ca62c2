#include "tilewise/matmul.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "api/matmul_state.hpp"
#include "api/said_once.hpp"
#include "api/shipped_images.hpp"
#include "api/tuning_program.hpp"
#include "device/fork.hpp"
#include "device/machines.hpp"
#include "matmul/check_call.hpp"
#include "matmul/fastest.hpp"
#include "matmul/packed_contents.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/quantize.hpp"
#include "matmul/request.hpp"
#include "matmul/resolution.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/hash.hpp"
#include "vocabulary/once.hpp"
#include "vocabulary/own_errors.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise {
namespace {

/// A thread's cache of its last requests. A served call that it has takes no lock and changes no
/// reference count. An entry keeps its executable alive. Entries of a destroyed Matmul are never
/// found, because its id is not reused.
struct Remembered {
  std::uint64_t instance = 0;
  Request request;
  std::shared_ptr<const Executable> executable;
};
constexpr std::size_t kRemembered = 64;  // a power of two
using Memory = std::array<Remembered, kRemembered>;

/// Null until a request is remembered, and at the end of the thread. It is separate from its owner,
/// because each use of a thread_local with a destructor checks whether it is constructed.
constinit thread_local Memory* remembered = nullptr;
constinit thread_local bool thread_ends = false;  // true: nothing is remembered any more

struct MemoryOwner {
  std::unique_ptr<Memory> memory = std::make_unique<Memory>();
  ~MemoryOwner() {  // the destructor of another thread_local may still multiply
    remembered = nullptr;
    thread_ends = true;
  }
};
thread_local MemoryOwner memory_owner;

std::size_t slot_of(std::uint64_t instance, const Request& request) {
  return (std::hash<Request>{}(request) + instance) % kRemembered;
}

/// Null if the thread does not remember the request.
const Executable* recall(std::uint64_t instance, const Request& request) {
  if (!remembered) [[unlikely]]
    return nullptr;
  const Remembered& slot = (*remembered)[slot_of(instance, request)];
  return slot.instance == instance && slot.request == request ? slot.executable.get() : nullptr;
}

void remember(std::uint64_t instance, const Request& request,
              std::shared_ptr<const Executable> executable) {
  if (thread_ends) return;
  if (!remembered) remembered = memory_owner.memory.get();
  (*remembered)[slot_of(instance, request)] = {instance, request, std::move(executable)};
}

/// The packings of those packed operands of a call that are on this device.
GivenPackings given_in(const Call& call, const Device& device) {
  GivenPackings given;
  for (const PackedOperand* operand : {call.packed_a, call.packed_b}) {
    const PackedOperand::Contents* contents = operand ? operand->contents() : nullptr;
    if (contents && contents->packing && contents->device.get() == &device)
      (contents->role == StepRole::pack_a ? given.a : given.b) = contents->packing;
  }
  return given;
}

/// The sums over the rows of an epilogue where there is no row: zeros.
void clear_sums(Device& device, const Problem& problem, const Call& call) {
  for (std::size_t slot = 0; slot < call.operands.size(); ++slot) {
    const EpilogueSlot& form = problem.epilogue->operands[slot];
    if (form.use != EpilogueUse::summed) continue;
    const DType type = type_of(form, problem.c.type);
    auto* to = static_cast<std::byte*>(const_cast<void*>(call.operands[slot].data));
    const std::int64_t stride = call.operands[slot].stride;
    const bool follow = stride == problem.n;  // the sums of a product behind those before
    const std::int64_t runs = follow ? 1 : problem.batch;
    const std::int64_t run = follow ? problem.batch * problem.n : problem.n;
    for (std::int64_t nth = 0; nth < runs; ++nth)
      device.clear(to + bytes_of(type, nth * stride), bytes_of(type, run), call.stream);
  }
}

/// Whether the executable for a request is that of the product that the batch is.
bool is_of_product(const Executable& executable, const Request& request) {
  return request.product && executable.problem().batch == request.product->batch;
}

/// Launches `call`, or its form as one product if the executable is for that product.
void launch(const Executable& executable, const Normalized& asked, const Call& call) {
  executable.launch(is_of_product(executable, asked.request) ? *asked.of_product : call);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

constexpr DType kF32 = DType::f32;

}  // namespace

MatmulParts parts_for(std::unique_ptr<Device> device, const MatmulOptions& options,
                      std::optional<Database> opened) {
  MatmulParts parts;
  const Target target = device ? device->info().target : Target{};
  parts.device = std::move(device);
  // Absolute, because the cache is opened later, perhaps in another working folder.
  const auto path = absolute_path(default_database_path(options.database));
  const Trust trust = !options.trust_files.has_value() ? default_trust()
                      : *options.trust_files           ? Trust::anyone
                                                       : Trust::owner;
  if (!options.bundle.empty()) {
    const auto bundle = absolute_path(options.bundle);
    if (!is_there(bundle))
      throw Error(ErrorKind::database, "bundle " + bundle.string() +
                                           ": there is no such file; a name without a folder is "
                                           "looked for in the working folder, and `autotune "
                                           "bundle` makes the file");
    parts.bundle = Database::open(bundle, OpenMode::read_only, trust);
  }
  if (options.on_miss == OnMiss::tune) add_tuning(parts, options, path, trust);
  parts.database = opened ? std::move(opened) : Database::open_if_any(path, trust);
  if (!parts.database && !parts.bundle) {
    std::string note =
        (is_there(path) ? "nothing is stored in the database " : "there is no database ") +
        path.string() +
        ", so products are served by the portfolio of this version or by "
        "defaults; autotune makes one";
    if (options.warn || first_to_say(note)) parts.notes.push_back(std::move(note));
  }
  if (!target.host) parts.open_images = [target, trust] { return shipped_images(target, trust); };
  // The cache keeps compiled defaults between processes.
  parts.open_cache = [path, trust,
                      mode = options.compile_missing ? OpenMode::read_write : OpenMode::read_only] {
    const std::filesystem::path file = image_cache_path(path);
    const bool usable = mode == OpenMode::read_write || is_there(file);
    return usable ? std::make_unique<ImageCache>(file, mode, trust) : nullptr;
  };
  parts.load_compiler = [target, where = options.nvrtc] { return load_compiler(target, where); };
  parts.compile_missing = options.compile_missing;
  parts.portfolio = portfolio_for;
  if (options.host_memory_limit < 0)
    throw Error(ErrorKind::invalid_argument, "host_memory_limit is " +
                                                 std::to_string(options.host_memory_limit) +
                                                 " bytes; it is 0 (what is free) or more");
  parts.host.memory_limit = options.host_memory_limit;
  parts.on_miss = options.on_miss;
  parts.missed_list = options.missed_list.empty()
                          ? std::filesystem::path(path.string() + ".missed.csv")
                          : absolute_path(options.missed_list);
  parts.warn = options.warn;
  return parts;
}

Matmul::Matmul(MatmulOptions options) try
    : Matmul(std::make_unique<State>(parts_for(open_device(options.device), options))) {
} catch (...) {
  rethrow_as_error();
}
Matmul::Matmul(std::unique_ptr<State> state)
    : state_(std::move(state)), fork_generation_(fork_generation()), process_(getpid()) {}
Matmul::Matmul(Matmul&&) noexcept = default;

/// In a child process the parent's state is abandoned. Its threads do not exist there, so joining
/// them would never end, and its locks may be held.
Matmul::~Matmul() {
  if (is_of_parent()) (void)state_.release();
}

Matmul& Matmul::operator=(Matmul&& other) noexcept {
  if (is_of_parent()) (void)state_.release();
  state_ = std::move(other.state_);
  fork_generation_ = other.fork_generation_;
  process_ = other.process_;
  return *this;
}

bool Matmul::is_of_parent() const noexcept { return fork_generation_ != fork_generation(); }

void Matmul::check_process() const {
  if (!is_of_parent()) [[likely]]
    return;
  throw Error(ErrorKind::device, "this Matmul was made by process " + std::to_string(process_) +
                                     ", and process " + std::to_string(getpid()) +
                                     " is its child by fork(): the child must make its own");
}

Matmul make_matmul(MatmulParts parts) {
  return Matmul(std::make_unique<Matmul::State>(std::move(parts)));
}

Call Matmul::call_of(const void* a, std::int64_t lda, const void* b, std::int64_t ldb, void* c,
                     std::int64_t ldc, double alpha, double beta, Stream stream) {
  Call call;
  call.a = a, call.b = b, call.c = c;
  call.lda = lda, call.ldb = ldb, call.ldc = ldc;
  call.alpha = alpha, call.beta = beta;
  call.stream = stream;
  return call;
}

void Matmul::operator()(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                        const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                        float beta, float* c, std::int64_t ldc, Stream stream, MathMode math) {
  (*this)(typed_problem(layout, m, n, k, kF32, kF32, math),
          call_of(a, lda, b, ldb, c, ldc, alpha, beta, stream));
}

void Matmul::operator()(const Problem& problem, const Call& call) try {
  check_process();
  check_call(problem, call);
  if (is_grouped(problem) && state_->serving.device().info().target.host) [[unlikely]]
    check_group_rows(problem, call);
  if (problem.m == 0 && problem.epilogue) [[unlikely]]
    return clear_sums(state_->serving.device(), problem, call);
  if (!writes_c(problem, call)) return;
  const Normalized asked(problem, call);
  if (const Executable* known = recall(state_->serving.id(), asked.request)) [[likely]]
    return launch(*known, asked, call);
  // Not inlined, so that the code of a served call is short.
  const auto look_up = [&]() __attribute__((noinline)) {
    const std::shared_ptr<const Executable> found = state_->serving.executable(
        asked.request, call.stream, given_in(call, state_->serving.device()));
    // In a capture the batch may serve only because the product is not prepared yet, so it is not
    // remembered.
    if (!asked.request.product || is_of_product(*found, asked.request) ||
        !state_->serving.device().capturing(call.stream))
      remember(state_->serving.id(), asked.request, found);
    launch(*found, asked, call);
  };
  look_up();
} catch (...) {
  rethrow_as_error();
}

PackedOperand Matmul::pack(const Problem& problem, const Call& call, bool is_a) try {
  check_process();
  const StepRole role = is_a ? StepRole::pack_a : StepRole::pack_b;
  check_operand(problem, call, role);
  auto contents = std::make_unique<PackedOperand::Contents>();
  contents->role = role;
  contents->type = is_a ? problem.a.type : problem.b.type;
  contents->original = is_a ? call.a : call.b;
  contents->ld = is_a ? call.lda : call.ldb;
  contents->stride = is_a ? call.stride_a : call.stride_b;
  if (!is_empty(problem) && problem.k > 0) {
    Problem asked = problem;
    const Alignment seen = call_alignment(problem, call);
    (is_a ? asked.a.alignment : asked.b.alignment) = is_a ? seen.a : seen.b;
    check_alignment(asked);
    state_->serving.pack(asked, call, *contents);
  }
  return PackedOperand(std::move(contents));
} catch (...) {
  rethrow_as_error();
}

PackedOperand Matmul::pack_a(const Problem& problem, const void* a, std::int64_t lda,
                             std::int64_t stride_a, Stream stream) {
  return pack(problem, {.a = a, .lda = lda, .stride_a = stride_a, .stream = stream}, true);
}

PackedOperand Matmul::pack_b(const Problem& problem, const void* b, std::int64_t ldb,
                             std::int64_t stride_b, Stream stream) {
  return pack(problem, {.b = b, .ldb = ldb, .stride_b = stride_b, .stream = stream}, false);
}

void Matmul::quantize(const Quantization& asked) try {
  check_process();
  check_quantization(asked);
  if (asked.rows > 0 && asked.columns > 0) state_->serving.quantize(asked);
} catch (...) {
  rethrow_as_error();
}

MathMode Matmul::fastest_within(const Problem& problem, double accuracy) const try {
  check_process();
  check_problem(problem);
  check_alignment(problem);
  return tilewise::fastest_within(
      problem, accuracy, state_->serving.device().info(),
      [this](const Problem& asked) { return state_->serving.resolution(asked); });
} catch (...) {
  rethrow_as_error();
}

Match Matmul::explain(const Problem& problem) const try {
  const Resolution resolution = resolution_of(*this, problem);
  const Problem served = state_->serving.in_order(as_served(problem));
  Match match = match_of(resolution, served);
  if (const auto order =
          sum_order_of(resolution.candidate, served, state_->serving.device().info()))
    match.order = to_string(*order);
  return match;
} catch (...) {
  rethrow_as_error();
}

std::string Matmul::kept_order(const Problem& problem) const try {
  check_process();
  check_problem(problem);
  Problem asked = as_served(problem);
  set_invariant(asked, asked.k > 0);
  return asked.k > 0 ? order_text(state_->serving.in_order(asked)) : "exact";
} catch (...) {
  rethrow_as_error();
}

std::string Matmul::fingerprint(std::span<const Problem> problems) const try {
  std::set<std::string> lines;
  for (const Problem& problem : problems) {
    std::string order = kept_order(problem);
    lines.insert(to_string(order_key(problem)) + ": " + std::move(order));
  }
  std::string text = gpu_key(state_->serving.device().info());
  for (const std::string& line : lines) text += "\n" + line;
  return hash_text(text);
} catch (...) {
  rethrow_as_error();
}

Resolution resolution_of(const Matmul& matmul, const Problem& problem) {
  matmul.check_process();
  check_problem(problem);
  check_alignment(problem);
  return matmul.state_->serving.explain(as_served(problem));
}

void Matmul::prepare(const Problem& problem) try {
  check_process();
  check_problem(problem);
  check_alignment(problem);
  if (!is_empty(problem)) state_->serving.executable(Request(as_served(problem)), nullptr);
} catch (...) {
  rethrow_as_error();
}

void Matmul::prepare_range(const Problem& problem, std::int64_t last_m) try {
  check_process();
  const auto most = static_cast<std::int64_t>(kKeptChoices);
  if (last_m < problem.m || (problem.m >= 0 && last_m - problem.m >= most))
    throw Error(ErrorKind::invalid_argument, "last_m is " + std::to_string(last_m) +
                                                 "; from the first m, " +
                                                 std::to_string(problem.m) + ", a range has 1 to " +
                                                 std::to_string(most) + " sizes");
  Problem last = problem;
  last.m = last_m;
  for (const Problem& end : {problem, last}) {
    check_problem(end);
    check_alignment(end);
  }
  for (Problem one = problem; one.m <= last_m; ++one.m) {
    set_alignment(one, alignment_of(problem));
    if (one.a.transposed) one.a.alignment = std::min(one.a.alignment, natural_alignment(one).a);
    if (!is_empty(one)) state_->serving.keep_choice(as_served(one));
  }
} catch (...) {
  rethrow_as_error();
}

namespace {

/// The default instance of one process. A child makes its own without waiting for its parent's.
struct DefaultMatmul {
  const std::uint32_t of = fork_generation();
  Once once;
  std::optional<Matmul> made;
  std::atomic<Matmul*> ready{nullptr};
};

}  // namespace

Matmul& default_matmul() try {
  // Never destroyed, because the driver may be unloaded first at exit.
  static constinit std::atomic<DefaultMatmul*> current{nullptr};
  DefaultMatmul* mine = current.load(std::memory_order_acquire);
  while (!mine || mine->of != fork_generation()) {
    auto fresh = std::make_unique<DefaultMatmul>();
    if (current.compare_exchange_strong(mine, fresh.get())) mine = fresh.release();
  }
  if (Matmul* ready = mine->ready.load(std::memory_order_acquire)) return *ready;
  mine->once.call([mine] { mine->ready = &mine->made.emplace(); });
  return *mine->ready;
} catch (...) {
  rethrow_as_error();
}

void matmul(Layout layout, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
            const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
            float* c, std::int64_t ldc, Stream stream, MathMode math) {
  default_matmul()(layout, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream, math);
}

}  // namespace tilewise
