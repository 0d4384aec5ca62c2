#include "device/cuda/library.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "vocabulary/text.hpp"

namespace tilewise::cuda {
namespace fs = std::filesystem;
namespace {

std::string environment(const std::string& variable) {
  return variable.empty() ? "" : environment_variable(variable.c_str());
}

/// Existing paths that match, highest version first: cuda-12.10 before cuda-12.9.
std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> found;
  glob_t result{};
  if (glob(pattern.c_str(), 0, nullptr, &result) == 0) {
    found.assign(result.gl_pathv, result.gl_pathv + result.gl_pathc);
  }
  globfree(&result);
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    return strverscmp(a.c_str(), b.c_str()) > 0;
  });
  return found;
}

/// The folders of libraries below a root (toolkit, virtual environment, site-packages).
std::vector<std::string> library_folders(const std::string& root) {
  std::vector<std::string> folders{root, root + "/lib64", root + "/lib",
                                   root + "/targets/x86_64-linux/lib",
                                   root + "/targets/sbsa-linux/lib"};
  for (const char* wheels : {"/nvidia/*/lib", "/lib/python3*/site-packages/nvidia/*/lib",
                             "/lib/python3*/dist-packages/nvidia/*/lib"}) {
    for (std::string& folder : matches(root + wheels)) folders.push_back(std::move(folder));
  }
  return folders;
}

/// .tilewise next to the program or, in a build tree, in a folder above it.
std::vector<std::string> program_environments() {
  std::vector<std::string> roots;
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int level = 0; level < 5 && folder.has_relative_path(); ++level) {
    roots.push_back((folder / ".tilewise" / "venv").string());
    folder = folder.parent_path();
  }
  return roots;
}

std::vector<std::string> default_roots() {
  std::vector<std::string> roots;
  const auto add = [&roots](const std::string& root) {
    if (!root.empty() && std::find(roots.begin(), roots.end(), root) == roots.end()) {
      roots.push_back(root);
    }
  };
  add(environment("CUDA_HOME"));
  add(environment("CUDA_PATH"));
  add("/usr/local/cuda");
  for (const std::string& toolkit : matches("/usr/local/cuda-*")) add(toolkit);
  add("/opt/cuda");
  for (const std::string& root : program_environments()) add(root);
  add(environment("VIRTUAL_ENV"));
  add(environment("CONDA_PREFIX"));
  const std::string home = environment("HOME");
  if (!home.empty()) add(home + "/.local");
  add("/usr/local");
  add("/usr");
  return roots;
}

/// "libnvrtc.so.13.0.88" -> 13, "libnvrtc.so" -> 0.
int major_in(const std::string& file) {
  const std::size_t at = file.rfind(".so.");
  return at == std::string::npos ? 0 : std::atoi(file.c_str() + at + 4);
}

void add_folder(const LibraryQuery& query, const std::string& folder, LibrarySearch& search) {
  for (const int major : query.majors) {
    const std::string file = folder + "/" + query.stem + ".so." + std::to_string(major);
    std::error_code error;
    const bool known = std::any_of(
        search.candidates.begin(), search.candidates.end(),
        [&](const auto& other) { return fs::equivalent(other.path, file, error) && !error; });
    if (!known && fs::exists(file, error)) search.candidates.push_back({file, major});
  }
}

void add_root(const LibraryQuery& query, const std::string& root, LibrarySearch& search) {
  search.places.push_back(root);
  for (const std::string& folder : library_folders(root)) add_folder(query, folder, search);
}

}  // namespace

Library Library::open(const std::string& path, std::string& why) {
  Library library;
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    library.handle_ = std::shared_ptr<void>(handle, [](void* opened) { dlclose(opened); });
  } else {
    const char* words = dlerror();
    why = words ? words : "cannot open " + path;
  }
  return library;
}

void* Library::find(const char* symbol) const {
  return handle_ ? dlsym(handle_.get(), symbol) : nullptr;
}

LibrarySearch find_library(const LibraryQuery& query, int driver_major) {
  LibrarySearch search;
  const std::string named = query.named.empty() ? environment(query.variable) : query.named;
  if (!named.empty()) {
    std::error_code error;
    if (fs::is_directory(named, error)) {
      add_root(query, named, search);
    } else {
      search.places.push_back(named);
      if (fs::exists(named, error)) {
        search.candidates.push_back({fs::absolute(named, error).string(), major_in(named)});
      }
    }
  } else {
    search.places.push_back("the loader's path");
    for (const int major : query.majors) {
      search.candidates.push_back({query.stem + ".so." + std::to_string(major), major});
    }
    for (const std::string& root : default_roots()) add_root(query, root, search);
  }
  std::stable_sort(search.candidates.begin(), search.candidates.end(),
                   [driver_major](const LibraryCandidate& a, const LibraryCandidate& b) {
                     const bool a_above = driver_major > 0 && a.major > driver_major;
                     const bool b_above = driver_major > 0 && b.major > driver_major;
                     return a_above != b_above ? b_above : a.major > b.major;
                   });
  return search;
}

Library open_with_neighbours(const LibraryCandidate& candidate,
                             const std::vector<std::string>& neighbours, std::string& why) {
  const fs::path path = candidate.path;
  if (path.has_parent_path()) {
    const std::string major = candidate.major > 0 ? std::to_string(candidate.major) : "";
    for (const std::string& stem : neighbours) {
      const std::string pattern = (path.parent_path() / (stem + ".so." + major + "*")).string();
      // A neighbour that fails to open is ignored: the library itself may still load.
      std::string ignored;
      for (const std::string& file : matches(pattern)) Library::open(file, ignored);
    }
  }
  return Library::open(candidate.path, why);
}

}  // namespace tilewise::cuda
