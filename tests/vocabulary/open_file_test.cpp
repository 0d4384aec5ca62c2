#include "vocabulary/open_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace tilewise {
namespace {

TEST(OpenFile, ClosesItsDescriptor) {
  int descriptor = -1;
  {
    const OpenFile file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file.is_open());
    descriptor = file.descriptor();
    EXPECT_GE(fcntl(descriptor, F_GETFD), 0);
  }
  EXPECT_LT(fcntl(descriptor, F_GETFD), 0);
}

TEST(OpenFile, IsNotOpenWhereOpeningFailed) {
  EXPECT_FALSE(OpenFile(open("/nowhere/none", O_RDONLY | O_CLOEXEC)).is_open());
}

}  // namespace
}  // namespace tilewise
