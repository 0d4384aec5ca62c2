#include "db/zstd.hpp"

#include <dlfcn.h>

#include "tilewise/error.hpp"

namespace tilewise {
namespace {

/// The functions of zstd.h that are used; all are of its stable interface.
struct Zstd {
  std::size_t (*compress_bound)(std::size_t) = nullptr;
  std::size_t (*compress)(void*, std::size_t, const void*, std::size_t, int) = nullptr;
  std::size_t (*decompress)(void*, std::size_t, const void*, std::size_t) = nullptr;
  unsigned long long (*content_size)(const void*, std::size_t) = nullptr;
  unsigned (*is_error)(std::size_t) = nullptr;
  bool loaded = false;
};

// What ZSTD_getFrameContentSize() returns where it has no answer; both are above any size.
constexpr unsigned long long kNoSize = 0ULL - 2;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Zstd load() {
  Zstd zstd;
  void* const library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  zstd.loaded = library && find(library, "ZSTD_compressBound", zstd.compress_bound) &&
                find(library, "ZSTD_compress", zstd.compress) &&
                find(library, "ZSTD_decompress", zstd.decompress) &&
                find(library, "ZSTD_getFrameContentSize", zstd.content_size) &&
                find(library, "ZSTD_isError", zstd.is_error);
  return zstd;
}

const Zstd& zstd() {
  static const Zstd loaded = load();
  return loaded;
}

}  // namespace

bool has_zstd() { return zstd().loaded; }

std::vector<std::uint8_t> zstd_compressed(std::span<const std::uint8_t> bytes, int level) {
  if (!has_zstd()) throw Error(ErrorKind::unsupported, "libzstd.so.1 cannot be loaded");
  std::vector<std::uint8_t> compressed(zstd().compress_bound(bytes.size()));
  const std::size_t size =
      zstd().compress(compressed.data(), compressed.size(), bytes.data(), bytes.size(), level);
  if (zstd().is_error(size)) throw Error(ErrorKind::out_of_memory, "libzstd compresses nothing");
  compressed.resize(size);
  return compressed;
}

std::optional<std::vector<std::uint8_t>> zstd_decompressed(std::span<const std::uint8_t> bytes,
                                                           std::size_t most) {
  if (!has_zstd()) return std::nullopt;
  const unsigned long long size = zstd().content_size(bytes.data(), bytes.size());
  if (size >= kNoSize || size > most) return std::nullopt;
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(size));
  const std::size_t made =
      zstd().decompress(whole.data(), whole.size(), bytes.data(), bytes.size());
  if (zstd().is_error(made) || made != whole.size()) return std::nullopt;
  return whole;
}

}  // namespace tilewise
