#include "tilewise/version.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tilewise::version_test {
namespace {

TEST(Version, IsTheProjects) {
  EXPECT_EQ(kVersionText, TILEWISE_PROJECT_VERSION) << "see CMakeLists.txt and tilewise/version.h";
  EXPECT_EQ(version_text(), kVersionText);
  EXPECT_EQ(version(), kVersion);
}

TEST(Version, NumberAndTextAgree) {
  EXPECT_EQ(std::to_string(kVersion / 10000) + "." + std::to_string(kVersion / 100 % 100) + "." +
                std::to_string(kVersion % 100),
            kVersionText);
}

}  // namespace
}  // namespace tilewise::version_test
