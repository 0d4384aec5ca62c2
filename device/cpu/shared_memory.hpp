#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace tilewise::host {

/// A block's shared memory: exactly as large as the launch's, filled with a canary before each
/// block, between guard zones that detect writes past its ends. (Without guard zones under an
/// address sanitizer, which has better ones.)
class SharedMemory {
 public:
  /// Sets every byte to 0xFF: as a float a NaN, as an offset far outside.
  void prepare(std::size_t bytes);
  void* data() const { return data_; }
  /// Empty, or the byte past an end that was written.
  std::string damage() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tilewise::host
