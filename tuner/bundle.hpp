#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "matmul/image_store.hpp"
#include "tilewise/match.hpp"
#include "vocabulary/record.hpp"

/// Bundles: what serves a list of problems, in one file to ship with a program.
namespace tilewise {

/// How a bundle serves one of its problems on one of its GPUs.
struct BundledProblem {
  std::string gpu;
  Problem problem;
  MatchKind kind = MatchKind::default_;
  double us = 0;        ///< as measured (exact), or as expected; 0: not known
  std::string why_not;  ///< not empty: it is not in the bundle
};

struct BundleResult {
  std::vector<BundledProblem> problems;
  std::size_t records = 0;
  std::size_t images = 0;
  std::size_t compiled = 0;  ///< of the images
  std::uintmax_t bytes = 0;
};

struct BundleOptions {
  std::vector<std::string> gpus;  ///< keys
  std::vector<Problem> problems;
  /// Also all that serves other sizes of the same types, as on the machine where it was measured.
  bool other_sizes = false;
};

/// Writes a bundle to `path`, in place of a file that is there: a database with the records,
/// corrections and images that serve the problems on GPUs with these keys, chosen as `matmul` would
/// there, without losing records, searches and baselines. Images that `images` has not stored are
/// compiled. A failure leaves the file that was there. Throws Error(database), and
/// Error(invalid_argument) without a GPU or a problem, or where `path` is the database itself.
BundleResult write_bundle(const Database& from, const ImageStore& images,
                          const BundleOptions& options, const std::filesystem::path& path);

}  // namespace tilewise
