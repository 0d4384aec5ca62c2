#pragma once
#include <cstddef>
#include <filesystem>
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

}  // namespace tilewise
