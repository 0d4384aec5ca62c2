#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tilewise::host {

/// The processor as a target of kernels: "x86-64 avx2 fma", "x86-64", "aarch64", "other".
std::string_view processor();
/// Whether an image for `cpu` runs on this processor.
bool runs_here(std::string_view cpu);

struct MemoryFacts {
  std::int64_t total_bytes = 0, free_bytes = 0;
};
MemoryFacts memory_facts();

}  // namespace tilewise::host
