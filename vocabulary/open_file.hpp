#pragma once
#include <unistd.h>

namespace tilewise {

/// The descriptor of an open file, below 0 where opening failed. The destructor closes it.
class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  const int descriptor_;
};

}  // namespace tilewise
