#include "matmul/image_store.hpp"

#include <limits>
#include <thread>

#include "matmul_fixture.hpp"
#include "templates/sources.hpp"
#include "tests/db/damage.hpp"

namespace tilewise::image_store_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kRevision = "naive.1 plan.2";

class ImageStoreTest : public testing::Test {
 protected:
  ImageStoreTest() {
    Problem problem;
    problem.m = problem.n = problem.k = 8;
    const KernelTemplate& naive = find_template("naive");
    const DeviceInfo info = nominal_device(target);
    kernel =
        naive.plan(problem, naive.default_configuration(problem, info), info).steps.back().kernel;
  }

  Image image_of(const std::string& hash, std::uint8_t mark) const {
    Image image;
    image.kernel = kernel;
    image.target = target;
    image.launch_revision = kRevision;
    image.source_hash = hash;
    image.binary = {mark};
    return image;
  }

  const Target target = parse_target("sm_90a");
  KernelSpec kernel;
  Database database = Database::in_memory();
  ImageCache cache;
  std::atomic<int> compiles{0};
  FakeCompiler compiler{&compiles};
};

TEST_F(ImageStoreTest, LooksInTheDatabaseThenInTheCache) {
  const ImageStore store(&database, &cache, nullptr);
  EXPECT_FALSE(store.stored(kernel, target, kRevision));
  cache.put(image_of("old", 1));
  EXPECT_EQ(store.stored(kernel, target, kRevision)->binary.front(), 1);
  database.put_image(image_of("new", 2));
  EXPECT_EQ(store.stored(kernel, target, kRevision)->binary.front(), 2);
  EXPECT_EQ(store.stored(kernel, target, kRevision, "old")->binary.front(), 1);
  EXPECT_FALSE(store.stored(kernel, target, kRevision, "other"));
  EXPECT_FALSE(store.stored(kernel, target, "naive.2 plan.2"));
  EXPECT_FALSE(store.stored(kernel, parse_target("sm_80"), kRevision));
  EXPECT_FALSE(ImageStore(nullptr, nullptr, nullptr).stored(kernel, target, kRevision));
}

TEST_F(ImageStoreTest, CompilesOnceAndKeepsIt) {
  const ImageStore store(&database, &cache, &compiler);
  const ImageStore::Made first = store.make(kernel, target, kRevision);
  ASSERT_TRUE(first.image);
  EXPECT_TRUE(first.compiled);
  EXPECT_EQ(first.image->source_hash, source_hash(kernel, compiler.identity()));
  EXPECT_EQ(first.image->launch_revision, kRevision);
  const ImageStore::Made second = store.make(kernel, target, kRevision);
  EXPECT_FALSE(second.compiled);
  EXPECT_EQ(second.image->binary, first.image->binary);
  EXPECT_EQ(compiles, 1);
  EXPECT_EQ(database.counts().images, 0) << "the database is for winners and finalists";
  EXPECT_EQ(cache.counts()->images, 1);
}

TEST_F(ImageStoreTest, AnImageOfAnotherSourceIsCompiledAgain) {
  cache.put(image_of("old", 9));
  const ImageStore store(&database, &cache, &compiler);
  EXPECT_TRUE(store.make(kernel, target, kRevision).compiled);
  EXPECT_NE(store.stored(kernel, target, kRevision)->source_hash, "old");
}

TEST_F(ImageStoreTest, ARefusedSourceIsDataAndLeavesNoClaim) {
  FakeCompiler refusing(&compiles, kernel.source);
  const ImageStore store(&database, &cache, &refusing);
  for (int i = 1; i <= 2; ++i) {
    const ImageStore::Made made = store.make(kernel, target, kRevision);
    EXPECT_FALSE(made.image);
    EXPECT_THAT(made.log, HasSubstr("error: refused"));
    EXPECT_EQ(compiles, i);
  }
}

TEST_F(ImageStoreTest, WithoutACompilerOnlyWhatIsStoredCanBeHad) {
  const ImageStore store(&database, &cache, nullptr);
  EXPECT_THROW(store.make(kernel, target, kRevision), Error);
  database.put_image(image_of("any", 3));
  EXPECT_FALSE(store.make(kernel, target, kRevision).compiled);
}

TEST_F(ImageStoreTest, WaitsForWhoeverCompilesTheSame) {
  ASSERT_EQ(cache.claim(kernel, target), ImageCache::Claim::held);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cache.put(image_of(source_hash(kernel, compiler.identity()), 7));
  });
  const ImageStore::Made made =
      ImageStore(&database, &cache, &compiler).make(kernel, target, kRevision);
  other.join();
  EXPECT_FALSE(made.compiled);
  EXPECT_EQ(made.image->binary.front(), 7);
  EXPECT_EQ(compiles, 0);
}

TEST_F(ImageStoreTest, ThreadsCompileOnceBetweenThem) {
  const ImageStore store(&database, &cache, &compiler);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_TRUE(store.make(kernel, target, kRevision).image); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiles, 1);
}

TEST_F(ImageStoreTest, StoppedEndsTheWaitWithoutCompiling) {
  ASSERT_EQ(cache.claim(kernel, target), ImageCache::Claim::held);
  const ImageStore store(&database, &cache, &compiler);
  int polls = 0;
  const ImageStore::Made made =
      store.make(kernel, target, kRevision, {.stopped = [&] { return ++polls == 3; }});
  EXPECT_TRUE(made.stopped);
  EXPECT_FALSE(made.image);
  EXPECT_FALSE(made.compiled);
  EXPECT_THAT(made.log, HasSubstr("when the search ended"));
  EXPECT_EQ(compiles, 0);
  cache.release_claim(kernel, target);
  const ImageStore::Made next =
      store.make(kernel, target, kRevision, {.stopped = [] { return true; }});
  EXPECT_TRUE(next.compiled) << "where nothing is waited for, nothing is stopped";
}

TEST_F(ImageStoreTest, PatienceThatIsOverCompilesBesideTheOther) {
  const ImageStore store(&database, &cache, &compiler);
  for (const double seconds : {0.0, 0.05, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    SCOPED_TRACE(seconds);
    ImageCache fresh;
    ASSERT_EQ(fresh.claim(kernel, target), ImageCache::Claim::held);
    compiles = 0;
    const ImageStore::Made made =
        ImageStore(&database, &fresh, &compiler).make(kernel, target, kRevision, {seconds});
    EXPECT_TRUE(made.compiled);
    EXPECT_FALSE(made.stopped);
    EXPECT_EQ(compiles, 1);
    EXPECT_TRUE(fresh.image(kernel, target, kRevision)) << "for the other, too";
  }
}

TEST_F(ImageStoreTest, AClaimThatIsReleasedWithoutAnImageIsTakenOver) {
  ASSERT_EQ(cache.claim(kernel, target), ImageCache::Claim::held);
  int polls = 0;
  const auto release = [&] {
    if (++polls == 2) cache.release_claim(kernel, target);
    return false;
  };
  EXPECT_TRUE(ImageStore(&database, &cache, &compiler)
                  .make(kernel, target, kRevision, {.stopped = release})
                  .compiled);
  EXPECT_EQ(compiles, 1);
}

TEST_F(ImageStoreTest, WhatCannotBeKeptIsMadeAllTheSame) {
  const samples::TemporaryFolder folder;
  { ImageCache made(folder / "images.db"); }
  ImageCache reading(folder / "images.db", OpenMode::read_only);
  const ImageStore::Made made =
      ImageStore(&database, &reading, &compiler).make(kernel, target, kRevision);
  EXPECT_TRUE(made.image);
  EXPECT_THAT(made.log, AllOf(HasSubstr("not kept"), HasSubstr("can only be read")));
}

/// A cache file that two objects have open, as two processes would have.
class SharedStoreTest : public ImageStoreTest {
 protected:
  void age(int seconds) const {
    samples::change(path, "UPDATE claims SET since = since - " + std::to_string(seconds));
  }
  const samples::TemporaryFolder folder;
  const std::filesystem::path path = folder / "images.db";
  ImageCache mine{path}, theirs{path};
};

TEST_F(SharedStoreTest, AHolderThatRenewsIsWaitedFor) {
  ASSERT_EQ(theirs.claim(kernel, target), ImageCache::Claim::held);
  int polls = 0;
  const auto time_passes = [&] {
    age(15);
    if (++polls < 4) theirs.renew_claim(kernel, target);
    if (polls == 4) theirs.put(image_of(source_hash(kernel, compiler.identity()), 7));
    return false;
  };
  const ImageStore::Made made = ImageStore(nullptr, &mine, &compiler)
                                    .make(kernel, target, kRevision, {.stopped = time_passes});
  EXPECT_FALSE(made.compiled) << "60 s have passed, but never 20 without a renewal";
  ASSERT_TRUE(made.image);
  EXPECT_EQ(made.image->binary.front(), 7);
}

TEST_F(SharedStoreTest, AHolderThatDoesNotRenewIsNot) {
  ASSERT_EQ(theirs.claim(kernel, target), ImageCache::Claim::held);
  int polls = 0;
  const auto time_passes = [&] {
    age(8);
    return ++polls == 10;
  };
  EXPECT_TRUE(ImageStore(nullptr, &mine, &compiler)
                  .make(kernel, target, kRevision, {.stopped = time_passes})
                  .compiled);
  EXPECT_EQ(polls, 3) << "24 s";
}

TEST_F(SharedStoreTest, AHolderThatWasKilledIsNotWaitedFor) {
  EXPECT_EQ(samples::in_child([&] {
              ImageCache own(path);
              return own.claim(kernel, target) == ImageCache::Claim::held ? 0 : 1;
            }),
            0);
  int polls = 0;
  const auto count = [&] { return ++polls == 5; };
  EXPECT_TRUE(ImageStore(nullptr, &mine, &compiler)
                  .make(kernel, target, kRevision, {.stopped = count})
                  .compiled);
  EXPECT_EQ(polls, 0);
}

TEST_F(SharedStoreTest, ADamagedImageIsCompiledAgain) {
  const ImageStore store(nullptr, &mine, &compiler);
  EXPECT_TRUE(store.make(kernel, target, kRevision).compiled);
  samples::change(path, "UPDATE images SET binary = x'010204'");
  EXPECT_TRUE(store.make(kernel, target, kRevision).compiled);
  EXPECT_FALSE(store.make(kernel, target, kRevision).compiled);
  EXPECT_THAT(mine.warnings(), testing::ElementsAre(HasSubstr("is damaged")));
}

TEST_F(ImageStoreTest, NoCacheIsNoObstacle) {
  const ImageStore::Made made =
      ImageStore(nullptr, nullptr, &compiler).make(kernel, target, kRevision);
  EXPECT_TRUE(made.image);
  EXPECT_TRUE(made.compiled);
}

}  // namespace
}  // namespace tilewise::image_store_test
