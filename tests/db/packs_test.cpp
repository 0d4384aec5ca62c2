// Images that are compressed together.
#include "db/packs.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "db/seal.hpp"
#include "db/sqlite.hpp"
#include "db/zstd.hpp"
#include "samples.hpp"

namespace tilewise::packs_test {
namespace {

using namespace samples;
using testing::HasSubstr;

std::vector<std::uint8_t> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

/// A file of images that have most of their bytes in common, in two packs.
struct Packs : testing::Test {
  void SetUp() override {
    if (!has_zstd()) GTEST_SKIP() << "libzstd.so.1 cannot be loaded";
    const std::vector<std::uint8_t> common = random_bytes(20'000, 1);
    Database database = Database::open(path);
    for (int i = 0; i < 80; ++i) {
      Image image = samples::image(16 + i);
      image.binary = random_bytes(static_cast<std::size_t>(10 + i), 100 + static_cast<unsigned>(i));
      image.binary.insert(image.binary.end(), common.begin(), common.end());
      database.put_image(image);
      images.push_back(std::move(image));
    }
  }
  std::optional<Image> read(const Database& database, const Image& image) const {
    return database.image(image.kernel, image.target, image.launch_revision);
  }
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "images";
  std::vector<Image> images;
};

TEST_F(Packs, AreReadBack) {
  EXPECT_FALSE(Database::open(path).has_packs());
  ASSERT_EQ(pack_images(path, 2), PackResult::done);
  seal(path);
  EXPECT_LT(std::filesystem::file_size(path), 80 * 20'000 / 5);
  const Database packed = Database::open(path, OpenMode::read_only);
  EXPECT_TRUE(packed.has_packs());
  EXPECT_EQ(packed.counts().images, 80);
  for (const Image& image : images) EXPECT_EQ(read(packed, image), image);
  EXPECT_EQ(read(packed, images.front()), images.front()) << "of the first pack again";
}

// Each call makes packs of its own; a connection keeps some of them unpacked.
TEST_F(Packs, OfAnyNumberAreReadInAnyOrder) {
  ASSERT_EQ(pack_images(path, 1), PackResult::done);
  for (int i = 0; i < 6; ++i) {
    Image later = samples::image(1000 + i);
    later.binary = random_bytes(5000, 200 + static_cast<unsigned>(i));
    Database::open(path).put_image(later);
    images.push_back(std::move(later));
    ASSERT_EQ(pack_images(path, 1), PackResult::done);
  }
  const Database database = Database::open(path, OpenMode::read_only);
  std::mt19937 random(5);
  for (int round = 0; round < 3; ++round) {
    std::shuffle(images.begin(), images.end(), random);
    for (const Image& image : images) ASSERT_EQ(read(database, image), image);
  }
}

TEST_F(Packs, AnImageMayBeAddedAndPackedLater) {
  ASSERT_EQ(pack_images(path, 1), PackResult::done);
  Image later = samples::image(512);
  Image anew = images[3];
  anew.binary = random_bytes(50, 9);
  {
    Database database = Database::open(path);
    database.put_image(later);
    database.put_image(anew);
  }
  for (int round = 0; round < 2; ++round) {
    {
      const Database database = Database::open(path);
      EXPECT_EQ(read(database, later), later);
      EXPECT_EQ(read(database, anew), anew);
      EXPECT_EQ(read(database, images[4]), images[4]);
    }
    ASSERT_EQ(pack_images(path, 1), PackResult::done);
  }
}

TEST_F(Packs, DamageIsFoundAndNotLoaded) {
  ASSERT_EQ(pack_images(path, 1), PackResult::done);
  {
    const Connection connection(path, Connection::Access::write);
    EXPECT_EQ(connection.integer("SELECT count(*) FROM packs"), 2);
    connection.execute(
        "UPDATE packs SET data = CAST(substr(data, 1, 99) || x'00' || substr(data, 101) AS BLOB) "
        "WHERE id = 1");
    connection.execute("DELETE FROM packs WHERE id = 2");
  }
  const Database database = Database::open(path, OpenMode::read_only);
  EXPECT_FALSE(read(database, images.front()));
  EXPECT_FALSE(read(database, images.back()));
  ASSERT_FALSE(database.warnings().empty());
  EXPECT_THAT(database.warnings().front(), HasSubstr("damaged"));
  EXPECT_EQ(database.check().size(), 80u);
}

TEST_F(Packs, AreExportedWhole) {
  ASSERT_EQ(pack_images(path, 1), PackResult::done);
  Database other = Database::in_memory();
  {
    const Database packed = Database::open(path, OpenMode::read_only);
    const std::vector<StoredImage> stored = packed.stored_images();
    ASSERT_EQ(stored.size(), images.size());
    for (const StoredImage& one : stored) other.put_image(one.image);
  }
  for (const Image& image : images) EXPECT_EQ(read(other, image), image);
}

TEST(Zstd, RefusesWhatIsNoneAndWhatIsTooLarge) {
  if (!has_zstd()) GTEST_SKIP() << "libzstd.so.1 cannot be loaded";
  const std::vector<std::uint8_t> bytes(100'000, 7);
  std::vector<std::uint8_t> compressed = zstd_compressed(bytes, 3);
  EXPECT_EQ(zstd_decompressed(compressed, bytes.size()), bytes);
  EXPECT_FALSE(zstd_decompressed(compressed, bytes.size() - 1));
  compressed.resize(compressed.size() - 1);
  EXPECT_FALSE(zstd_decompressed(compressed, bytes.size()));
  EXPECT_FALSE(zstd_decompressed({}, 100));
  EXPECT_FALSE(zstd_decompressed(random_bytes(100, 1), 1000));
}

}  // namespace
}  // namespace tilewise::packs_test
