#include "device/cuda/ptxas_log.hpp"

#include <cctype>
#include <cstdlib>
#include <string_view>

namespace tilewise::cuda {
namespace {

/// The number right before `words` in `text`; 0 when `text` lacks the words.
int number_before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return 0;
  std::size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) --begin;
  return std::atoi(std::string(text.substr(begin, at - begin)).c_str());
}

std::string_view line_with(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return {};
  const std::size_t newline = text.rfind('\n', at);
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

ResourceUsage usage_in_log(const std::string& log, const std::string& entry) {
  ResourceUsage usage;
  // The log has one part per kernel, which starts with this line.
  constexpr std::string_view kPart = "Compiling entry function '";
  const std::size_t begin = log.find(std::string(kPart) + entry + "'");
  if (begin == std::string::npos) return usage;
  std::string_view part = std::string_view(log).substr(begin);
  part = part.substr(0, part.find(kPart, kPart.size()));

  const std::string_view frame = line_with(part, " bytes stack frame");
  usage.stack_bytes = number_before(frame, " bytes stack frame");
  usage.spill_bytes =
      number_before(frame, " bytes spill stores") + number_before(frame, " bytes spill loads");
  const std::string_view used = line_with(part, " registers");
  usage.registers = number_before(used, " registers");
  usage.static_shared_bytes = number_before(used, " bytes smem");
  return usage;
}

std::string serialisation_in_log(const std::string& log) {
  for (const std::string_view words :
       {"wgmma.mma_async instructions are serialized", "warpgroup.wait is injected",
        "setmaxnreg' ignored", "setmaxnreg ignored"})
    if (const std::string_view line = line_with(log, words); !line.empty())
      return std::string(line);
  return "";
}

}  // namespace tilewise::cuda
