#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace tilewise::host {

/// A block's shared memory: as large as the launch asks for and no larger, poisoned before each
/// block, between guard zones that show who wrote past it. (An address sanitizer's own zones are
/// better, so in its executable there are none.)
class SharedMemory {
 public:
  /// Every byte is 0xFF afterwards: as a float a NaN, as an offset far outside.
  void prepare(std::size_t bytes);
  void* data() const { return data_; }
  /// Empty, or which byte past an end was written.
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
