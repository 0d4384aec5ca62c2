#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "matmul_fixture.hpp"

namespace tilewise {
namespace {

using testing::HasSubstr;

class CApiTest : public MatmulTest {
 protected:
  void make() { handle = make_handle(make_matmul(std::move(parts))); }
  ~CApiTest() override { tilewise_destroy(handle); }
  tilewise_matmul* handle = nullptr;
};

TEST_F(CApiTest, Multiplies) {
  make();
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
  float c[] = {10, 10, 10, 10};
  ASSERT_EQ(tilewise_prepare(handle, TILEWISE_NN, 2, 2, 3), TILEWISE_OK);
  ASSERT_EQ(tilewise_sgemm(handle, TILEWISE_NN, 2, 2, 3, 1, a, 3, b, 2, 1, c, 2, nullptr),
            TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_THAT(c, testing::ElementsAre(14, 15, 20, 21));
  ASSERT_EQ(tilewise_sgemm_host(handle, TILEWISE_NT, 2, 2, 3, 2, a, 3, a, 3, 0, c, 2), TILEWISE_OK);
  EXPECT_THAT(c, testing::ElementsAre(28, 64, 64, 154));
}

TEST_F(CApiTest, EveryFailureIsAStatusWithWords) {
  make();
  float x[4] = {};
  EXPECT_EQ(tilewise_sgemm(handle, TILEWISE_NN, -1, 1, 1, 1, x, 1, x, 1, 0, x, 1, nullptr),
            TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("m = -1"));
  EXPECT_EQ(tilewise_sgemm(nullptr, TILEWISE_NN, 1, 1, 1, 1, x, 1, x, 1, 0, x, 1, nullptr),
            TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("handle is null"));
  EXPECT_EQ(tilewise_create(nullptr, nullptr), TILEWISE_INVALID_ARGUMENT);
  EXPECT_EQ(tilewise_prepare(handle, TILEWISE_NN, 1, -2, 1), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("1x-2x1"));
  device->on_load = [](const Image&) { throw Error(ErrorKind::out_of_memory, "full"); };
  EXPECT_EQ(tilewise_prepare(handle, TILEWISE_NN, 1, 2, 1), TILEWISE_OUT_OF_MEMORY);
  device->on_load = [](const Image&) { throw std::runtime_error("a fault"); };
  EXPECT_EQ(tilewise_prepare(handle, TILEWISE_NN, 1, 2, 1), TILEWISE_INTERNAL_ERROR);
  EXPECT_STREQ(tilewise_last_error(), "a fault");
}

TEST_F(CApiTest, ExplainsAsJson) {
  parts.database = Database::in_memory();
  store(*parts.database, problem_of(64, 64, 64), "naive");
  make();
  size_t needed = 0;
  EXPECT_EQ(tilewise_explain(handle, TILEWISE_NN, 64, 64, 64, nullptr, 0, &needed),
            TILEWISE_INVALID_ARGUMENT);
  ASSERT_GT(needed, 1u);
  std::string text(needed, 'x');
  ASSERT_EQ(tilewise_explain(handle, TILEWISE_NN, 64, 64, 64, text.data(), text.size(), nullptr),
            TILEWISE_OK);
  EXPECT_EQ(text.back(), '\0');
  auto json = nlohmann::json::parse(text.c_str());
  EXPECT_EQ(json.at("match"), "exact");
  EXPECT_EQ(json.at("distance"), 0);
  EXPECT_TRUE(json.at("record").is_object());
  EXPECT_TRUE(json.at("stale").is_boolean());

  text.assign(100000, ' ');
  ASSERT_EQ(tilewise_explain(handle, TILEWISE_TT, 1, 2, 3, text.data(), text.size(), &needed),
            TILEWISE_OK);
  json = nlohmann::json::parse(text.c_str());
  EXPECT_EQ(json.at("match"), "default");
  EXPECT_TRUE(json.at("record").is_null());
  EXPECT_THAT(json.at("why").get<std::string>(), HasSubstr("autotune"));
  EXPECT_GT(json.at("predicted_us"), 0);
  EXPECT_THAT(json.at("why").get<std::string>(),
              HasSubstr("limited by " + json.at("limited_by").get<std::string>()));
}

TEST(CApi, CreateWithoutThatDeviceIsAStatus) {
  tilewise_options options = {};
  options.device = "9999";
  tilewise_matmul* handle = nullptr;
  EXPECT_EQ(tilewise_create(&options, &handle), TILEWISE_NO_DEVICE);
  EXPECT_EQ(handle, nullptr);
  EXPECT_STRNE(tilewise_last_error(), "");
  tilewise_destroy(nullptr);
}

TEST(CApi, TheHeaderIsC) {
  if (std::system("command -v cc >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "there is no C compiler named cc";
  const std::string file = testing::TempDir() + "tilewise_c_api.c";
  std::ofstream(file) << R"(#include "tilewise/matmul.h"
int main(void) {
  tilewise_options options = {0};
  tilewise_matmul* matmul = NULL;
  tilewise_status status = tilewise_create(&options, &matmul);
  if (status == TILEWISE_OK)
    status = tilewise_sgemm(matmul, TILEWISE_NN, 0, 0, 0, 1, NULL, 0, NULL, 0, 0, NULL, 0, NULL);
  tilewise_destroy(matmul);
  return status == TILEWISE_OK ? 0 : tilewise_last_error()[0];
})";
  const std::string command = "cc -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only -I'" +
                              std::string(TILEWISE_SOURCE_DIR) + "/include' '" + file + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace tilewise
