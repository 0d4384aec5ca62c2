#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "matmul/image_store.hpp"
#include "tilewise/match.hpp"

/// Bundles: one file with the records that serve a list of problems, to ship with a program.
namespace tilewise {

/// How a bundle serves one of its problems on one of its GPUs.
struct BundledProblem {
  std::string gpu;
  Problem problem;
  MatchKind kind = MatchKind::default_;
  double us = 0;        ///< measured (exact match) or expected; 0: not known
  std::string why_not;  ///< reason why it is not in the bundle; empty: it is
};

struct BundleResult {
  std::vector<BundledProblem> problems;
  std::size_t records = 0;
  std::size_t images = 0;
  std::size_t compiled = 0;  ///< images compiled for the bundle
  std::uintmax_t bytes = 0;
};

struct BundleOptions {
  std::vector<std::string> gpus;  ///< keys
  std::vector<Problem> problems;
  /// Also includes all records that serve other sizes of the same types on the measuring machine.
  bool other_sizes = false;
};

/// Writes a bundle to `path`, replacing an existing file. The bundle is a database with the
/// records, corrections and images that serve the problems on GPUs with these keys, chosen as
/// `matmul` would choose them, without losing records, searches and baselines. Compiles images that
/// `images` has not stored. A failure leaves an existing file unchanged. Throws Error(database),
/// and Error(invalid_argument) without a GPU or a problem, or where `path` is the database itself.
BundleResult write_bundle(const Database& from, const ImageStore& images,
                          const BundleOptions& options, const std::filesystem::path& path);

/// A kernel that a portfolio serves with.
struct PortfolioKernel {
  KernelSpec kernel;
  std::string launch_revision;
  auto operator<=>(const PortfolioKernel&) const = default;
};
/// The kernels that serve where nothing is stored, each once, on the GPUs of a target's capability
/// that have a portfolio: of random products of each layout and of the kinds of kind_name() (empty:
/// all). Half of them have n and k of the portfolio's records, an eighth is aligned, an eighth are
/// batches, and the others have any sizes. `products`: of each layout and kind.
std::vector<PortfolioKernel> portfolio_kernels(const Target& target,
                                               const std::vector<std::string>& kinds = {},
                                               int products = 3000);

struct PortfolioImages {
  std::size_t images = 0, compiled = 0;
  std::vector<std::string> failed;  ///< kernels that do not compile, with the compiler's log
  std::uintmax_t bytes = 0;
  bool packed = false;  ///< without libzstd the file is not compressed
};
/// Writes the images of these kernels to `path`, which replaces an existing file: a database
/// without records, which the library finds next to it (api/shipped_images.hpp). Compiles on
/// `threads` threads (0: all cores). `done` is called after each kernel, and while the
/// images are compressed, by several threads then; where it returns false, nothing is written. A
/// failure leaves an existing file unchanged.
PortfolioImages write_portfolio_images(const ImageStore& images, const Target& target,
                                       const std::vector<PortfolioKernel>& kernels,
                                       const std::filesystem::path& path, int threads,
                                       const std::function<bool(std::size_t)>& done);

}  // namespace tilewise
