#include "api/shipped_images.hpp"

#include <dlfcn.h>

#include "db/zstd.hpp"
#include "matmul/portfolio.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

namespace fs = std::filesystem;

fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || !info.dli_fname) return {};
  // For a program glibc gives argv[0], which may have no folder.
  const char* const named = info.dli_fname[0] == '/' ? info.dli_fname : "/proc/self/exe";
  std::error_code ignored;
  const fs::path file = fs::canonical(named, ignored);
  return file.parent_path();
}

std::vector<fs::path> image_folders(const fs::path& own) {
  if (own.empty()) return {};
  std::vector<fs::path> folders{own, own / "tilewise"};
  if (own.filename() == "bin") folders.push_back(own.parent_path());
  return folders;
}

std::optional<Database> shipped_images(const Target& target, Trust trust) {
  for (const fs::path& folder : image_folders(own_folder()))
    if (auto found = Database::open_if_any(folder / portfolio_images_name(target), trust)) {
      if (found->has_packs() && !has_zstd())
        throw Error(ErrorKind::unsupported,
                    found->path().string() + " is compressed, and libzstd.so.1 cannot be loaded");
      return found;
    }
  return std::nullopt;
}

}  // namespace tilewise
