#include "device/cpu/shared_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace tilewise::cpu {
namespace {

constexpr std::size_t kTileAlignment = 1024;  // for swizzled tiles
constexpr std::byte kPoison{0xFF}, kGuard{0xA5};
#if defined(TILEWISE_CHECK_ADDRESS)
constexpr std::size_t kGuardBytes = 0;
#else
constexpr std::size_t kGuardBytes = 1024;
#endif

std::size_t first_damage(const std::byte* guard) {
  std::size_t i = 0;
  while (i < kGuardBytes && guard[i] == kGuard) ++i;
  return i;
}

}  // namespace

void SharedMemory::Free::operator()(std::byte* memory) const { std::free(memory); }

void SharedMemory::prepare(std::size_t bytes) {
  if (!memory_ || bytes != bytes_) {
    memory_.reset();
    void* made = nullptr;
    if (posix_memalign(&made, kTileAlignment, bytes + 2 * kGuardBytes) != 0) throw std::bad_alloc();
    memory_.reset(static_cast<std::byte*>(made));
    data_ = memory_.get() + kGuardBytes;
    bytes_ = bytes;
    std::memset(memory_.get(), static_cast<int>(kGuard), kGuardBytes);
  }
  std::memset(data_, static_cast<int>(kPoison), bytes_);
  std::memset(data_ + bytes_, static_cast<int>(kGuard), kGuardBytes);
}

std::string SharedMemory::damage() const {
  const auto describe = [this](const std::string& where) {
    return "wrote " + where + " of its " + std::to_string(bytes_) + " bytes of shared memory";
  };
  if (const std::size_t at = first_damage(data_ + bytes_); at < kGuardBytes)
    return describe(std::to_string(at) + " bytes past the end");
  if (first_damage(memory_.get()) < kGuardBytes) return describe("before the beginning");
  return "";
}

}  // namespace tilewise::cpu
