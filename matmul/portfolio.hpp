#pragma once
#include <string>
#include <vector>

#include "vocabulary/device_info.hpp"
#include "vocabulary/record.hpp"

/// The portfolios that ship with the library (portfolios/*.json): configurations that were the
/// fastest on GPUs where Tilewise was tuned. They serve where nothing measured on this GPU can.
namespace tilewise {

/// The records of the GPU's portfolio, else those of all GPUs with its capability; empty without
/// any, and for the CPU. They have this GPU's key and origin `shipped`; the times of another GPU
/// are scaled by the cost model's ratio of the two GPUs.
std::vector<Record> portfolio_for(const DeviceInfo& device);

/// The records of a portfolio's text. Throws Error(invalid_argument).
std::vector<Record> read_portfolio(const std::string& text);
/// The text of a portfolio: the problem, the candidate and the time of each record, whose GPU is
/// the same for all. `made_by`: how, for readers.
std::string portfolio_text(const std::vector<Record>& records, const std::string& made_by);

}  // namespace tilewise
