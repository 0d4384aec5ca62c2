#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace tilewise::cpu {

/// A block's shared memory: exactly as large as in the launch, filled with a canary before each
/// block, between guard zones that detect writes past its ends. (An address sanitizer's own guard
/// zones, which are better, replace them.)
class SharedMemory {
 public:
  /// Sets every byte to 0xFF: a NaN as a float, far out of range as an offset.
  void prepare(std::size_t bytes);
  void* data() const { return data_; }
  /// Empty, or the overwritten byte past an end.
  std::string damage() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tilewise::cpu
