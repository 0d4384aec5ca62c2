#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "matmul/corrections.hpp"
#include "vocabulary/device_info.hpp"
#include "vocabulary/record.hpp"

/// The portfolios that ship with the library (portfolios/*.json): configurations that were the
/// fastest on GPUs where Tilewise was tuned. They serve where nothing measured on this GPU can.
namespace tilewise {

/// The records of the GPU's portfolio, else those of all GPUs with its capability; empty without
/// any, and for the CPU. They have this GPU's key and origin `shipped`; the times of another GPU
/// are scaled by the cost model's ratio of the two GPUs.
std::vector<Record> portfolio_for(const DeviceInfo& device);

/// The records of the portfolios of all GPUs with this one's capability, its own too, in the same
/// form.
std::vector<Record> portfolios_of_capability(const DeviceInfo& device);

/// The corrections of the cost model that ship for the GPU and the problem's types; none for
/// another GPU than those that were measured.
std::optional<Corrections> portfolio_corrections(const Problem& problem, const DeviceInfo& device);

/// What a portfolio's file holds.
struct Portfolio {
  std::vector<Record> records;  ///< of one GPU
  /// By kind_text(): Corrections::to_bytes().
  std::map<std::string, std::vector<std::uint8_t>> corrections;
};
/// The portfolio of a text. Throws Error(invalid_argument).
Portfolio read_portfolio(const std::string& text);
/// The text of a portfolio: the problem, the candidate and the time of each record, and the
/// corrections. `made_by`: how, for readers. Throws Error(invalid_argument) for records of several
/// GPUs.
std::string portfolio_text(const Portfolio& portfolio, const std::string& made_by);

}  // namespace tilewise
