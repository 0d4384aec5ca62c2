#pragma once
#include <atomic>

namespace tilewise::drop_in {

/// The address of a function of cuBLAS or cublasLt in the library that the process uses: the one
/// after this library in the loader's order, otherwise the file in TILEWISE_CUBLAS, otherwise a
/// loaded library of that name (a program that loads it at run time has it outside of that order).
/// Null if there is none.
void* find_real(const char* name);

/// A function of the real library, which is found at its first use. Thread-safe.
template <class Function>
class Real {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}
  /// Null if there is none; then the next call searches again.
  Function* get() {
    void* known = found_.load(std::memory_order_acquire);
    if (!known) [[unlikely]] {
      known = find_real(name_);
      found_.store(known, std::memory_order_release);
    }
    return reinterpret_cast<Function*>(known);
  }
  const char* name() const { return name_; }

 private:
  const char* name_;
  std::atomic<void*> found_{nullptr};
};

}  // namespace tilewise::drop_in
