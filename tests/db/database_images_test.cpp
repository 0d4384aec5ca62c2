// Images, claims on them, and their text forms.
#include "db/base64.hpp"
#include "db/kernel_text.hpp"
#include "db/sqlite.hpp"
#include "samples.hpp"

namespace tilewise::database_images_test {
namespace {

using namespace samples;
using testing::HasSubstr;

TEST(Images, KeepEveryField) {
  Database db = Database::in_memory();
  const Image stored = image();
  db.put_image(stored);
  EXPECT_EQ(db.image(stored.kernel, stored.target, stored.launch_revision), stored);
}

TEST(Images, KeepEmptyBinaryAndLog) {
  Database db = Database::in_memory();
  Image stored = image(64, 0);
  stored.log.clear();
  stored.kernel.defines.clear();
  db.put_image(stored);
  EXPECT_EQ(db.image(stored.kernel, stored.target, stored.launch_revision), stored);
}

TEST(Images, AreFoundByTheWholeKey) {
  Database db = Database::in_memory();
  const Image stored = image();
  db.put_image(stored);
  EXPECT_FALSE(db.image(kernel(128), stored.target, stored.launch_revision));
  EXPECT_FALSE(db.image(stored.kernel, {9, 0, false}, stored.launch_revision));
  EXPECT_FALSE(db.image(stored.kernel, stored.target, "simt.2 plan.1"));
}

TEST(Images, AreReplaced) {
  Database db = Database::in_memory();
  db.put_image(image(64, 300));
  Image newer = image(64, 5);
  newer.source_hash = "new";
  db.put_image(newer);
  EXPECT_EQ(db.image(newer.kernel, newer.target, newer.launch_revision), newer);
  EXPECT_EQ(db.counts().images, 1);
}

TEST(Images, AreListedWithoutBinaries) {
  Database db = Database::in_memory();
  db.put_image(image(64));
  db.put_image(image(128));
  const auto listed = db.images();
  ASSERT_EQ(listed.size(), 2u);
  Image expected = image(128);
  expected.binary.clear();
  expected.log.clear();
  EXPECT_EQ(listed.front(), expected) << "in the order of their text";
}

TEST(Claims, AreHeldByOne) {
  const TemporaryFolder folder;
  Database one = Database::open(folder / "x.db"), two = Database::open(folder / "x.db");
  const Target target{9, 0, true};
  EXPECT_TRUE(one.claim_image(kernel(), target));
  EXPECT_FALSE(two.claim_image(kernel(), target));
  EXPECT_FALSE(one.claim_image(kernel(), target));
  EXPECT_TRUE(two.claim_image(kernel(128), target)) << "another kernel";
  EXPECT_TRUE(two.claim_image(kernel(), {8, 0, false})) << "another target";
  two.release_claim(kernel(), target);
  EXPECT_FALSE(two.claim_image(kernel(), target)) << "it was not two's to release";
  one.release_claim(kernel(), target);
  EXPECT_TRUE(two.claim_image(kernel(), target));
}

TEST(Claims, AreReleasedByTheImage) {
  const TemporaryFolder folder;
  Database one = Database::open(folder / "x.db"), two = Database::open(folder / "x.db");
  EXPECT_TRUE(one.claim_image(kernel(), {9, 0, true}));
  one.put_image(image());
  EXPECT_TRUE(two.claim_image(kernel(), {9, 0, true}));
}

TEST(Claims, AreTakenOverWhenStale) {
  const TemporaryFolder folder;
  Database one = Database::open(folder / "x.db"), two = Database::open(folder / "x.db");
  const Target target{9, 0, true};
  EXPECT_TRUE(one.claim_image(kernel(), target));
  usleep(20'000);
  EXPECT_FALSE(two.claim_image(kernel(), target, 60));
  EXPECT_TRUE(two.claim_image(kernel(), target, 0.01));
  one.release_claim(kernel(), target);
  EXPECT_FALSE(one.claim_image(kernel(), target, 60)) << "it is two's now";
}

// A killed tuner leaves its compilers' claims, for which the next tuner must not wait long.
TEST(Claims, OfWhoWasKilledHoldUpOthersForSecondsOnly) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database one = Database::open(path), two = Database::open(path);
  const Target target{9, 0, true};
  const auto age = [&](const char* seconds) {
    const Connection connection(path, Connection::Access::write);
    connection.execute(std::string("UPDATE claims SET since = since - ") + seconds);
  };
  EXPECT_TRUE(one.claim_image(kernel(), target));
  age("10");
  EXPECT_FALSE(two.claim_image(kernel(), target)) << "it may still be compiling";
  age("11");
  EXPECT_TRUE(two.claim_image(kernel(), target));
}

TEST(KernelText, ComesBack) {
  for (const KernelSpec& spec :
       {kernel(), KernelSpec{"pack.cu", "pack_a", {}}, KernelSpec{"a:b.cu", "x", {{"N", -5}}},
        KernelSpec{"s.cu", "s", {{"BIG", INT64_MAX}, {"SMALL", INT64_MIN}}}}) {
    EXPECT_EQ(parse_kernel(to_string(spec)), spec);
  }
}

TEST(KernelText, RefusesWhatIsNone) {
  for (const char* bad : {"", "simt", "simt.cu:simt TILE_M", "simt.cu:simt TILE_M=", "a:b X=1.5",
                          "a:b X=99999999999999999999", "a:b  X=1"}) {
    EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { parse_kernel(bad); }),
                HasSubstr("SOURCE:ENTRY"))
        << bad;
  }
}

TEST(Base64, KnowsTheStandardsExamples) {
  const std::pair<std::string, std::string> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : examples) {
    const std::vector<std::uint8_t> bytes(plain.begin(), plain.end());
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, KeepsEveryByteAtEveryLength) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes.push_back(static_cast<std::uint8_t>(255 - i));
  }
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* bad : {"Z", "Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Zm9!", "Zm 9", "Zm9\n"}) {
    EXPECT_THAT(error_of(ErrorKind::invalid_argument, [&] { from_base64(bad); }),
                HasSubstr("base64"))
        << bad;
  }
}

}  // namespace
}  // namespace tilewise::database_images_test
