#include "device/kept_workspaces.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace tilewise::kept_workspaces_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Fake memory: addresses that are never read.
struct Memory {
  std::mutex mutex;
  std::set<void*> live;
  std::int64_t last_bytes = 0;
  int allocations = 0;
  bool full = false;

  KeptWorkspaces workspaces{[this](std::int64_t bytes) { return allocate(bytes); },
                            [this](void* memory) { free(memory); }};

  void* allocate(std::int64_t bytes) {
    const std::lock_guard lock(mutex);
    if (full) return nullptr;
    last_bytes = bytes;
    void* made = reinterpret_cast<void*>(static_cast<std::uintptr_t>(++allocations) << 32);
    live.insert(made);
    return made;
  }
  void free(void* memory) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(live.erase(memory), 1u) << "freed twice, or never allocated";
  }
  /// Takes and returns a workspace; null if take() returns none.
  void* used(std::uint64_t stream, std::int64_t bytes) {
    KeptWorkspaces::Kept* kept = workspaces.take(stream, bytes);
    if (!kept) return nullptr;
    void* data = kept->data();
    workspaces.give_back(*kept);
    return data;
  }
};

TEST(KeptWorkspaces, AStreamHasTheSameMemoryAgainWithoutAnAllocation) {
  Memory memory;
  void* first = memory.used(1, 1000);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(memory.used(1, 1000), first);
  EXPECT_EQ(memory.used(1, 10), first);
  EXPECT_EQ(memory.allocations, 1);
}

TEST(KeptWorkspaces, StreamsDoNotShare) {
  Memory memory;
  // 1 and 65 have the same first slot.
  std::set<void*> all;
  for (const std::uint64_t stream : {1u, 2u, 65u, 129u}) all.insert(memory.used(stream, 100));
  EXPECT_EQ(all.size(), 4u);
  EXPECT_FALSE(all.contains(nullptr));
  EXPECT_TRUE(all.contains(memory.used(65, 100)));
  EXPECT_EQ(memory.allocations, 4);
}

TEST(KeptWorkspaces, WhatIsTakenIsNotGivenToAnother) {
  Memory memory;
  KeptWorkspaces::Kept* kept = memory.workspaces.take(7, 100);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(memory.workspaces.take(7, 100), nullptr);
  EXPECT_NE(memory.used(8, 100), nullptr);
  memory.workspaces.give_back(*kept);
  EXPECT_EQ(memory.used(7, 100), kept->data());
}

TEST(KeptWorkspaces, ALargerOneLeavesTheSmallerToLaunchesThatUseIt) {
  Memory memory;
  void* small = memory.used(1, 100);
  EXPECT_EQ(memory.last_bytes, KeptWorkspaces::kLeastBytes);
  void* large = memory.used(1, 3 * kMiB);
  EXPECT_EQ(memory.last_bytes, 4 * kMiB);
  EXPECT_NE(large, small);
  EXPECT_TRUE(memory.live.contains(small));
  EXPECT_EQ(memory.used(1, 100), large);
  EXPECT_EQ(memory.workspaces.total_bytes(), KeptWorkspaces::kLeastBytes + 4 * kMiB);
}

TEST(KeptWorkspaces, BoundsAreKept) {
  Memory memory;
  EXPECT_EQ(memory.used(1, KeptWorkspaces::kMostBytes + 1), nullptr);
  int streams = 0;
  while (memory.used(static_cast<std::uint64_t>(streams) + 1, KeptWorkspaces::kMostBytes))
    ++streams;
  EXPECT_EQ(streams, KeptWorkspaces::kMostTotal / KeptWorkspaces::kMostBytes);
  EXPECT_EQ(memory.workspaces.total_bytes(), KeptWorkspaces::kMostTotal);
  // A stream's workspace stays usable.
  EXPECT_NE(memory.used(1, 100), nullptr);
}

TEST(KeptWorkspaces, OnlySoManyStreams) {
  Memory memory;
  for (std::uint64_t stream = 1; stream <= KeptWorkspaces::kMostStreams; ++stream)
    EXPECT_NE(memory.used(stream, 1), nullptr) << stream;
  EXPECT_EQ(memory.used(KeptWorkspaces::kMostStreams + 1, 1), nullptr);
  EXPECT_NE(memory.used(KeptWorkspaces::kMostStreams, 1), nullptr);
}

TEST(KeptWorkspaces, StreamsThatAreGoneMakePlace) {
  Memory memory;
  std::uint64_t stream = 0;
  const auto served = [&] { return memory.used(++stream, 1) != nullptr; };
  const auto refuse = [&] {
    for (std::uint64_t i = 0; i < KeptWorkspaces::kMostRefusals; ++i) EXPECT_FALSE(served());
  };
  for (std::size_t i = 0; i < KeptWorkspaces::kMostStreams; ++i) EXPECT_TRUE(served());
  refuse();
  EXPECT_EQ(memory.live.size(), KeptWorkspaces::kMostStreams) << "all were used before";
  void* const in_use = memory.used(1, 1);
  KeptWorkspaces::Kept* taken = memory.workspaces.take(2, 1);
  ASSERT_NE(taken, nullptr);
  refuse();
  EXPECT_EQ(memory.live, (std::set<void*>{in_use, taken->data()})) << "used meanwhile, or taken";
  for (std::size_t i = 2; i < KeptWorkspaces::kMostStreams; ++i) EXPECT_TRUE(served());
  EXPECT_EQ(memory.used(1, 1), in_use);
  memory.workspaces.give_back(*taken);
  EXPECT_EQ(memory.used(2, 1), taken->data());
}

TEST(KeptWorkspaces, WithoutMemoryTheCallerAllocatesAndALaterCallTriesAgain) {
  Memory memory;
  memory.full = true;
  EXPECT_EQ(memory.used(1, 100), nullptr);
  EXPECT_EQ(memory.workspaces.total_bytes(), 0);
  memory.full = false;
  EXPECT_NE(memory.used(1, 100), nullptr);
}

TEST(KeptWorkspaces, IdleOnesAreFreedAndTakenOnesAreNot) {
  Memory memory;
  memory.used(1, 100), memory.used(1, kMiB);
  KeptWorkspaces::Kept* kept = memory.workspaces.take(2, 100);
  ASSERT_NE(kept, nullptr);
  memory.workspaces.free_idle();
  EXPECT_EQ(memory.live, std::set<void*>{kept->data()});
  EXPECT_EQ(memory.workspaces.total_bytes(), KeptWorkspaces::kLeastBytes);
  memory.workspaces.give_back(*kept);
  EXPECT_NE(memory.used(1, 100), nullptr);
}

TEST(KeptWorkspaces, ThreadsOnSharedStreamsNeverHaveOneWorkspaceAtATime) {
  Memory memory;
  std::array<std::atomic<int>, 1000> users{};  // per allocation
  std::atomic<int> taken{0}, twice{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 5000; ++i) {
        KeptWorkspaces::Kept* kept =
            memory.workspaces.take(1 + (i * 7 + t) % 3, std::int64_t{1} << (i % 24));
        if (!kept) continue;
        const auto which = reinterpret_cast<std::uintptr_t>(kept->data()) >> 32;
        if (users[which]++ != 0) ++twice;
        ++taken;
        --users[which];
        memory.workspaces.give_back(*kept);
        if (i % 1000 == 0) memory.workspaces.free_idle();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(twice, 0);
  EXPECT_GT(taken, 0);
}

TEST(KeptWorkspaces, AllIsFreedAtTheEnd) {
  std::set<void*> live;
  {
    KeptWorkspaces workspaces(
        [&](std::int64_t) {
          void* made = std::malloc(1);
          live.insert(made);
          return made;
        },
        [&](void* memory) {
          live.erase(memory);
          std::free(memory);
        });
    for (std::uint64_t stream = 1; stream < 5; ++stream)
      for (const std::int64_t bytes : {std::int64_t{1}, kMiB})
        if (KeptWorkspaces::Kept* kept = workspaces.take(stream, bytes))
          workspaces.give_back(*kept);
    EXPECT_EQ(live.size(), 8u);
  }
  EXPECT_TRUE(live.empty());
}

}  // namespace
}  // namespace tilewise::kept_workspaces_test
