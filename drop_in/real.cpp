#include "drop_in/real.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace tilewise::drop_in {
namespace {

/// The paths of loaded libraries named libcublas.so or libcublasLt.so, with any version.
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* to) {
        const char* slash = std::strrchr(object->dlpi_name, '/');
        const std::string file = slash ? slash + 1 : object->dlpi_name;
        if (file.starts_with("libcublas.so") || file.starts_with("libcublasLt.so"))
          static_cast<std::vector<std::string>*>(to)->push_back(object->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

void* find_in(const std::string& path, int flags, const char* name) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | flags);
  return library ? dlsym(library, name) : nullptr;  // kept open: never unloaded
}

}  // namespace

void* find_real(const char* name) {
  if (void* found = dlsym(RTLD_NEXT, name)) return found;
  if (const char* named = std::getenv("TILEWISE_CUBLAS"); named && *named)
    if (void* found = find_in(named, 0, name)) return found;
  for (const std::string& path : loaded_libraries())
    if (void* found = find_in(path, RTLD_NOLOAD, name)) return found;
  return nullptr;
}

}  // namespace tilewise::drop_in
