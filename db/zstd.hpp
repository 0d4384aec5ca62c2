#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tilewise {

// Zstandard (RFC 8878) by libzstd.so.1, which is loaded when it is first needed. dpkg and rpm need
// it, so that most machines have it. Thread-safe.

/// Whether the library can be loaded.
bool has_zstd();
/// Throws Error(unsupported) without the library.
std::vector<std::uint8_t> zstd_compressed(std::span<const std::uint8_t> bytes, int level);
/// Empty without the library, for damaged bytes, and for those of more than `most` bytes.
std::optional<std::vector<std::uint8_t>> zstd_decompressed(std::span<const std::uint8_t> bytes,
                                                           std::size_t most);

}  // namespace tilewise
