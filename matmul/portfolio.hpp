#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "matmul/corrections.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/record.hpp"

/// The portfolios that ship with the library (portfolios/*.json): configurations that were the
/// fastest on GPUs on which Tilewise was tuned. They serve problems that no measurement on this GPU
/// can serve.
namespace tilewise {

/// The records of the GPU's portfolio, otherwise those of all GPUs with its capability, otherwise
/// those of any GPU whose configurations are valid on this one; empty for the CPU. They have this
/// GPU's key and origin `shipped`. Times of another GPU are scaled by the cost model's ratio of the
/// two GPUs. Records of f16 serve bf16, too, and the reverse.
std::vector<Record> portfolio_for(const DeviceInfo& device);

/// The records of the portfolios of all GPUs with this capability, including its own, in the same
/// form.
std::vector<Record> portfolios_of_capability(const DeviceInfo& device);

/// The shipped corrections of the cost model for the GPU and the problem's types, or for those of
/// the other 16-bit float; none for a GPU that was not measured.
std::optional<Corrections> portfolio_corrections(const Problem& problem, const DeviceInfo& device);

/// Copies of the records that serve a second kind of product, with the problem of that kind:
/// records of f16 serve bf16 and the reverse, strict records of f32 and f64 serve emulated
/// products. Leaves out what `records` has. The copies have no id, which would be that of the
/// first kind's record.
std::vector<Record> records_of_other_kinds(std::span<const Record* const> records);

/// The keys of the GPUs of a target's capability that have a portfolio.
std::vector<std::string> portfolio_gpus(const Target& target);

/// "tilewise-0.1.0-sm_90a.images": the file of the portfolios' images for a target, which only this
/// version of the library reads.
std::string portfolio_images_name(const Target& target);

/// The contents of a portfolio's file.
struct Portfolio {
  std::vector<Record> records;  ///< records of one GPU
  /// Corrections::to_bytes() for each kind_text().
  std::map<std::string, std::vector<std::uint8_t>> corrections;
  std::string made_by;  ///< for readers: the commands that made it
};
/// Reads the text of a portfolio. Throws Error(invalid_argument).
Portfolio read_portfolio(const std::string& text);
/// Writes a portfolio as text: the problem, the candidate and the time of each record, and the
/// corrections. Records of one candidate and kind of products are one line, which has m, n, k, the
/// alignments of A, B and C, and the time of the second and further ones as "also". Throws
/// Error(invalid_argument) for records of several GPUs.
std::string portfolio_text(const Portfolio& portfolio);
/// Adds to a portfolio the records of an older one of the same GPU whose problem is not in it: of
/// each kind of products and layout those of its configurations and, while it has fewer than
/// `most`, of further ones. The last ones, which were added last, come first. Also adds the
/// corrections of kinds without any. Returns the number of added records. Throws
/// Error(invalid_argument) for portfolios of different GPUs.
std::size_t fill_from(Portfolio& portfolio, Portfolio older, std::size_t most);

}  // namespace tilewise
