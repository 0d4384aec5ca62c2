#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Machine code as text, by NVIDIA's tools.
namespace tilewise::cli {

/// The path of nvdisasm or cuobjdump: at `named` (the program or its folder), otherwise on PATH, in
/// a CUDA toolkit, or in pip's wheels (of VIRTUAL_ENV, and of .tilewise next to the program).
/// Throws Error(unsupported) with the ways to install it.
std::string find_disassembler(const std::string& named);
/// The SASS of a cubin's kernel. Throws Error(io) with the tool's message.
std::string disassemble(const std::string& tool, const std::vector<std::uint8_t>& cubin);

/// Instructions by name without modifiers ("FFMA", "ld", "mma"), the most frequent first.
using InstructionMix = std::vector<std::pair<std::string, std::int64_t>>;
InstructionMix mix_of_sass(const std::string& text);
InstructionMix mix_of_ptx(const std::string& text);

}  // namespace tilewise::cli
