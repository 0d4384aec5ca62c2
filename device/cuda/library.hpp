#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tilewise::cuda {

/// A shared library opened at run time. Its code stays mapped after the last owner (RTLD_NODELETE):
/// NVIDIA's libraries leave thread-local data and exit handlers.
class Library {
 public:
  Library() = default;
  /// Empty when it cannot be opened; `why` then has the loader's message.
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

/// A library's name and versions, and the user's choice of file or folder.
struct LibraryQuery {
  std::string stem;         ///< "libnvrtc"
  std::vector<int> majors;  ///< usable versions, newest first
  std::string named;        ///< the user's file or folder; empty: search
  std::string variable;     ///< environment variable with a file or folder: "TILEWISE_NVRTC"
};

struct LibraryCandidate {
  std::string path;  ///< without a slash: found by the loader
  int major = 0;     ///< 0 when the file's name has none
};

struct LibrarySearch {
  std::vector<LibraryCandidate> candidates;  ///< best first
  std::vector<std::string> places;           ///< every place searched, for the error message
};

/// Candidates for a library: `named`, otherwise the variable's file or folder (then nothing else),
/// otherwise the loader's path, CUDA_HOME and CUDA_PATH, /usr/local/cuda*, and pip's NVIDIA wheels
/// in .tilewise/venv next to the program, the active environment, the user's and the system's
/// Python. Order: newest major first, within a major by place; majors above `driver_major` (0: no
/// driver) last, since the driver refuses their output.
LibrarySearch find_library(const LibraryQuery& query, int driver_major);

/// Opens a candidate after its `neighbours` (stems such as "libnvrtc-builtins") from the same
/// folder, which a library in a wheel does not find itself.
Library open_with_neighbours(const LibraryCandidate& candidate,
                             const std::vector<std::string>& neighbours, std::string& why);

}  // namespace tilewise::cuda
