#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tilewise::cuda {

/// A shared library opened at run time. Its code stays mapped after the last owner has gone
/// (RTLD_NODELETE): NVIDIA's libraries leave thread-local data and exit handlers behind.
class Library {
 public:
  Library() = default;
  /// Empty when it cannot be opened; `why` then has the loader's words.
  static Library open(const std::string& path, std::string& why);
  explicit operator bool() const { return handle_ != nullptr; }
  /// Null when the library has no such symbol.
  void* find(const char* symbol) const;

  /// Sets `function` to a symbol of that type; false when there is none.
  template <typename Function>
  bool get(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(find(symbol));
    return function != nullptr;
  }

 private:
  std::shared_ptr<void> handle_;
};

/// Which library to look for, and where the user said it is.
struct LibraryQuery {
  std::string stem;         ///< "libnvrtc"
  std::vector<int> majors;  ///< versions that can be used, newest first
  std::string named;        ///< a file or folder the user named; empty searches
  std::string variable;     ///< environment variable that names a file or folder: "TILEWISE_NVRTC"
};

struct LibraryCandidate {
  std::string path;  ///< without a slash: left to the loader
  int major = 0;     ///< 0 when the file's name does not say
};

struct LibrarySearch {
  std::vector<LibraryCandidate> candidates;  ///< best first
  std::vector<std::string> places;           ///< everywhere that was looked, for the error message
};

/// Where a library may be: the file or folder that is named (by option, else by the variable;
/// nothing else then), or the loader's path, CUDA_HOME and CUDA_PATH, /usr/local/cuda*, and pip's
/// NVIDIA wheels in .tilewise/venv beside the program, the active environment, the user's and the
/// system's Python. Newest major first; those above `driver_major` (0: no driver) last, since the
/// driver refuses what they make. Within a major, the order of the places counts.
LibrarySearch find_library(const LibraryQuery& query, int driver_major);

/// Opens a candidate after the libraries it needs from its own folder: a library in a wheel does
/// not find its neighbours by itself. `neighbours` are stems such as "libnvrtc-builtins".
Library open_with_neighbours(const LibraryCandidate& candidate,
                             const std::vector<std::string>& neighbours, std::string& why);

/// "a, b, c".
std::string join(const std::vector<std::string>& items, const std::string& separator = ", ");

}  // namespace tilewise::cuda
