#include "tuner/bundle.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "db/packs.hpp"
#include "db/seal.hpp"
#include "matmul/executable.hpp"
#include "matmul/kept_orders.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "tuner/search/search_memory.hpp"
#include "vocabulary/problem_text.hpp"
#include "vocabulary/rounding.hpp"
#include "vocabulary/thread_pool.hpp"

namespace tilewise {
namespace {

/// Writes the part of one GPU.
class Bundling {
 public:
  Bundling(const Database& from, const ImageStore& images, Database& to, const std::string& gpu,
           BundleResult& result)
      : from_(from),
        images_(images),
        to_(to),
        gpu_(gpu),
        device_(nominal_from_key(gpu)),
        result_(result) {
    if (const auto facts = from.device(gpu)) to.put(*facts);
  }

  void add(const std::vector<Problem>& problems, bool other_sizes) {
    const Resolver stored(
        from_.winners(gpu_), device_, "", from_.general(gpu_),
        [this](const Problem& kind) { return load_corrections(from_, kind, device_); });
    const Resolver portfolio({}, device_, "", portfolio_for(device_), [this](const Problem& kind) {
      return own_or_shipped_corrections(from_, kind, device_);
    });
    for (const Problem& asked : problems) {
      BundledProblem bundled{gpu_, asked, MatchKind::default_, 0, ""};
      try {
        const Problem problem = bundled.problem = in_kept_order(asked, device_, &from_);
        if (asked.order) put_order(asked, problem);
        const Resolution resolution = resolve_with_portfolio(
            stored, [&portfolio] { return &portfolio; }, problem);
        bundled.kind = resolution.kind;
        bundled.us = resolution.kind == MatchKind::exact && resolution.record->measurement
                         ? resolution.record->measurement->median_us
                         : resolution.predicted_us;
        add(resolution, problem);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::database) throw;
        bundled.why_not = error.what();
      }
      result_.problems.push_back(std::move(bundled));
    }
    std::map<std::string, Problem> kinds;
    for (const Problem& problem : problems) kinds.emplace(kind_text(problem), problem);
    for (const auto& [kind, problem] : kinds) {
      if (other_sizes) {
        add_others(problem);
        for (const KeptOrder& order : from_.orders(gpu_))
          if (same_types(order.problem, problem)) to_.put(order);
      }
      if (const auto corrections = from_.corrections(gpu_, kind)) to_.put(*corrections);
    }
  }

 private:
  /// Stores the order that is kept for the problem's key, else that of `problem` if it was left
  /// open.
  void put_order(const Problem& asked, const Problem& problem) {
    const Problem key = order_key(asked);
    if (const auto kept = from_.order(key, gpu_))
      to_.put(*kept);
    else if (asked.order == kept_order())
      to_.put(KeptOrder{key, gpu_, order_text(problem), now_text()});
  }

  void add(const Resolution& resolution, const Problem& problem) {
    std::int64_t id = 0;
    if (resolution.record && resolution.record->id != 0) {
      const auto winner = from_.winner(resolution.record->problem, gpu_);
      const bool wins = winner && winner->record.id == resolution.record->id;
      id = put(*resolution.record, wins ? &*winner : nullptr);
    }
    put_images(resolution.candidate, problem, id);
  }

  void add_others(const Problem& kind) {
    for (const Winner& winner : from_.winners(gpu_))
      if (winner.quarantined.empty() && same_types(winner.record.problem, kind))
        add_other(winner.record, &winner);
    for (const Record& record : from_.general(gpu_))
      if (same_types(record.problem, kind)) add_other(record, nullptr);
  }

  void add_other(const Record& record, const Winner* wins) {
    const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
    if (!kernel ||
        !rejection(*kernel, record.problem, record.candidate.configuration, device_).empty())
      return;
    put_images(record.candidate, record.problem, put(record, wins));
  }

  /// Stores the record and returns its id in the bundle. `wins` is the winner that has this record;
  /// null for a general record.
  std::int64_t put(Record record, const Winner* wins) {
    const auto [known, fresh] = ids_.emplace(record.id, 0);
    if (!fresh) return known->second;
    record.id = 0;
    record.origin = Origin::shipped;
    const std::int64_t id = known->second = to_.add(record);
    wins ? to_.set_winner(id, wins->objective) : to_.set_general(id);
    ++result_.records;
    return id;
  }

  void put_images(const Candidate& candidate, const Problem& problem, std::int64_t id) {
    const Plan plan = plan_of(candidate, problem, device_);
    const std::string revision = launch_revision(find_template(candidate.kernel_template));
    for (const auto& [kernel, need] : kernel_needs(plan)) {
      if (there_.contains(kernel)) continue;
      const ImageStore::Made made = images_.make(kernel, device_.target, revision);
      if (!made.image)
        throw Error(ErrorKind::compiler, to_string(kernel) + " does not compile: " + made.log);
      to_.put_image(*made.image, id);
      there_.insert(kernel);
      ++result_.images;
      result_.compiled += made.compiled;
    }
  }

  const Database& from_;
  const ImageStore& images_;
  Database& to_;
  const std::string gpu_;
  const DeviceInfo device_;
  BundleResult& result_;
  std::map<std::int64_t, std::int64_t> ids_;  // record id here -> id in the bundle
  std::set<KernelSpec> there_;
};

/// Removes an unfinished file.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path path) : path_(std::move(path)) { remove(); }
  ~Unfinished() { remove(); }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  void remove() const {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"})
      std::filesystem::remove(path_.string() + suffix, ignored);
  }
  std::filesystem::path path_;
};

/// Draws products of one kind and layout: with n and k of a portfolio's record, which are sizes of
/// programs, or with any sizes.
class DrawnProducts {
 public:
  DrawnProducts(const ProductKind& kind, Layout layout, const std::vector<Record>& records)
      : kind_(kind), layout_(layout) {
    for (const Record& record : records) matrices_.insert({record.problem.n, record.problem.k});
  }

  Problem next() {
    const int turn = drawn_++ % 8;
    const std::int64_t m = size(16384);
    if (turn >= 4 && !matrices_.empty()) {
      const auto at = std::uniform_int_distribution<std::size_t>(0, matrices_.size() - 1)(random_);
      const auto& [n, k] = *std::next(matrices_.begin(), static_cast<std::ptrdiff_t>(at));
      return problem(turn % 2 == 0 ? aligned(m) : m, n, k, 1);
    }
    const std::int64_t n = size(65536), k = size(16384), batch = turn == 1 ? 1 + size(64) : 1;
    if (turn >= 2) return problem(m, n, k, batch);
    return problem(aligned(m), round_up(n, std::int64_t{64}), round_up(k, std::int64_t{64}), batch);
  }

 private:
  std::int64_t size(double most) {
    std::uniform_real_distribution<double> logarithm(0, std::log(most));
    return static_cast<std::int64_t>(std::exp(logarithm(random_)));
  }
  /// m where it is the length of A's rows in memory.
  std::int64_t aligned(std::int64_t m) const {
    return a_transposed(layout_) ? round_up(m, std::int64_t{16}) : m;
  }
  Problem problem(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) const {
    return typed_problem(layout_, m, n, k, kind_.a, kind_.b, kind_.c, kind_.math, batch);
  }

  const ProductKind& kind_;
  const Layout layout_;
  std::set<std::pair<std::int64_t, std::int64_t>> matrices_;  // n and k
  std::mt19937_64 random_{1};
  int drawn_ = 0;
};

/// Of products of one kind and layout on one GPU that has measured nothing.
std::set<PortfolioKernel> kernels_that_serve(const std::string& gpu, const ProductKind& kind,
                                             Layout layout, int products) {
  const DeviceInfo device = nominal_from_key(gpu);
  const std::vector<Record> records = portfolio_for(device);
  const Resolver none({}, device), portfolio({}, device, "", records, [&](const Problem&of) {
    return portfolio_corrections(of, device);
  });
  DrawnProducts drawn(kind, layout, records);
  std::set<PortfolioKernel> found;
  for (int i = 0; i < products; ++i) {
    const Problem problem = drawn.next();
    try {
      const Resolution served = resolve_with_portfolio(
          none, [&] { return &portfolio; }, problem);
      for (const auto& [kernel, need] : kernel_needs(plan_of(served.candidate, problem, device)))
        found.insert({kernel, launch_revision(find_template(served.candidate.kernel_template))});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      return found;  // not a kind of this GPU
    }
  }
  return found;
}

void finish(const Unfinished& unfinished, const std::filesystem::path& path) {
  seal(unfinished.path());
  std::error_code error;
  std::filesystem::rename(unfinished.path(), path, error);
  if (error) throw Error(ErrorKind::io, "cannot write '" + path.string() + "': " + error.message());
}

}  // namespace

BundleResult write_bundle(const Database& from, const ImageStore& images,
                          const BundleOptions& options, const std::filesystem::path& path) {
  if (options.gpus.empty() || options.problems.empty())
    throw Error(ErrorKind::invalid_argument, "a bundle takes a GPU and a problem at least");
  std::error_code absent;
  if (std::filesystem::equivalent(from.path(), path, absent))
    throw Error(ErrorKind::invalid_argument,
                "'" + path.string() +
                    "' is the database that the bundle is made of, and would be replaced by it; "
                    "name another file");
  BundleResult result;
  const Unfinished unfinished(path.string() + ".part");
  {
    Database to = Database::open(unfinished.path());
    for (const std::string& gpu : options.gpus)
      Bundling(from, images, to, gpu, result).add(options.problems, options.other_sizes);
  }
  finish(unfinished, path);
  result.bytes = std::filesystem::file_size(path);
  return result;
}

std::vector<PortfolioKernel> portfolio_kernels(const Target& target,
                                               const std::vector<std::string>& kinds,
                                               int products) {
  struct Part {
    std::string gpu;
    const ProductKind* kind;
    Layout layout;
  };
  std::vector<Part> parts;
  for (const std::string& gpu : portfolio_gpus(target))
    for (const ProductKind& kind : product_kinds())
      for (const Layout layout : {Layout::nn, Layout::nt, Layout::tn, Layout::tt})
        if (kinds.empty() || std::find(kinds.begin(), kinds.end(), kind_name(kind)) != kinds.end())
          parts.push_back({gpu, &kind, layout});
  std::set<PortfolioKernel> found;
  std::mutex mutex;
  parallel_for(std::ssize(parts), 0, [&](std::int64_t index, int) {
    const Part& part = parts[static_cast<std::size_t>(index)];
    const std::set<PortfolioKernel> some =
        kernels_that_serve(part.gpu, *part.kind, part.layout, products);
    const std::lock_guard lock(mutex);
    found.insert(some.begin(), some.end());
  });
  return {found.begin(), found.end()};
}

PortfolioImages write_portfolio_images(const ImageStore& images, const Target& target,
                                       const std::vector<PortfolioKernel>& kernels,
                                       const std::filesystem::path& path, int threads,
                                       const std::function<bool(std::size_t)>& done) {
  PortfolioImages result;
  const Unfinished unfinished(path.string() + ".part");
  bool stopped = false;
  {
    Database to = Database::open(unfinished.path());
    std::mutex mutex;
    std::size_t finished = 0;
    parallel_for(std::ssize(kernels), threads, [&](std::int64_t index, int) {
      {
        const std::lock_guard lock(mutex);
        if (stopped) return;
      }
      const PortfolioKernel& one = kernels[static_cast<std::size_t>(index)];
      const ImageStore::Made made = images.make(one.kernel, target, one.launch_revision);
      const std::lock_guard lock(mutex);
      if (made.image) {
        to.put_image(*made.image);
        ++result.images;
        result.compiled += made.compiled;
      } else {
        result.failed.push_back(to_string(one.kernel) + ": " + made.log);
      }
      stopped = !done(++finished) || stopped;
    });
  }
  if (stopped) return result;
  const PackResult packed =
      pack_images(unfinished.path(), threads, [&] { return done(kernels.size()); });
  if (packed == PackResult::stopped) return result;
  result.packed = packed == PackResult::done;
  finish(unfinished, path);
  result.bytes = std::filesystem::file_size(path);
  return result;
}

}  // namespace tilewise
