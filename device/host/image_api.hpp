// What a kernel compiled for the CPU and the program that runs it say to one another. Compiled into
// both, so it stands on nothing: no include, C++17.
#pragma once

namespace tilewise_host {

/// Raised when anything here changes: images of another revision are not loaded.
constexpr unsigned kImageRevision = 1;

struct Index {
  unsigned x, y, z;
};

/// What the threads of a block have in common.
struct Block {
  Index index, threads, grid;
  void* shared;
};

/// One thread as its kernel sees it.
struct Thread {
  Index index;
  const Block* block;
};

/// Where in a kernel something was asked for.
struct Site {
  const char* file;
  int line;
};

/// What a kernel calls.
struct Runtime {
  const Thread* (*thread)();
  void (*barrier)(Site site);
  void (*yield)(Site site);
  /// `bytes` are to be copied to `to`, of which `valid` come from `from` and the rest are zeros.
  void (*copy)(void* to, const void* from, unsigned bytes, unsigned valid);
  void (*copies_commit)();
  void (*copies_wait)(int pending);
};

/// What an image exports under the name tilewise_image.
struct Exports {
  unsigned revision;
  unsigned argument_bytes;
  const char* cpu;          ///< what it was compiled for: "x86-64 avx2 fma"
  const Runtime** runtime;  ///< to be filled in before run()
  void (*run)(const void* arguments);
};

}  // namespace tilewise_host
