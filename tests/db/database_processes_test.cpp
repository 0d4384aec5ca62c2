// Concurrent processes and threads on one file, and killed processes.
#include <signal.h>

#include <array>
#include <atomic>
#include <thread>

#include "db/sqlite.hpp"
#include "samples.hpp"

// A function of SQLite; the test links its library.
extern "C" void sqlite3_randomness(int bytes, void* to);

namespace tilewise::database_processes_test {
namespace {

using namespace samples;

std::string integrity(const std::filesystem::path& path) {
  return Connection(path, Connection::Access::write).text("PRAGMA integrity_check");
}

TEST(Processes, OpenANewFileAtOnce) {
  const TemporaryFolder folder;
  for (int round = 0; round < 5; ++round) {
    const auto path = folder / ("x" + std::to_string(round) + ".db");
    std::vector<pid_t> children;
    for (int child = 0; child < 6; ++child) {
      children.push_back(start([&path, child] {
        Database::open(path).add(record(child + 1));
        return 0;
      }));
    }
    for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
    EXPECT_EQ(Database::open(path).counts().records, 6);
  }
}

TEST(Processes, WriteAndReadTogether) {
  constexpr int kWriters = 4, kRecords = 50;
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path);
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    children.push_back(start([&path, writer] {
      Database db = Database::open(path);
      for (int i = 0; i < kRecords; ++i) {
        const auto id = db.add(record(1 + writer * kRecords + i, 10, 100 + i % 3));
        db.set_winner(id);
        db.put_image(image(1 + writer * kRecords + i), id);
      }
      return 0;
    }));
  }
  for (int reader = 0; reader < 2; ++reader) {
    children.push_back(start([&path] {
      const Database db = Database::open(path, OpenMode::read_only);
      std::size_t seen = 0;
      for (int i = 0; i < 100; ++i) {
        const auto records = db.records({});
        if (records.size() < seen) return 1;  // a committed row is missing
        seen = records.size();
        for (const Winner& winner : db.winners()) {
          if (!winner.record.measurement) return 2;
        }
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
  const Database db = Database::open(path);
  EXPECT_EQ(db.counts().records, kWriters * kRecords);
  EXPECT_EQ(db.counts().images, kWriters * kRecords);
  EXPECT_EQ(db.counts().winners, 3);
  EXPECT_EQ(integrity(path), "ok");
}

TEST(Processes, ReplaceOneRecordTogether) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  const auto id = Database::open(path).add(record());
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(start([&path, id] {
      Database db = Database::open(path);
      for (int i = 0; i < 50; ++i) {
        if (db.add(record()) != id) return 1;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
  EXPECT_EQ(Database::open(path).counts().records, 1);
}

TEST(Processes, OnlyOneClaims) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database::open(path);
  std::array<int, 2> reports{}, hold{};
  ASSERT_EQ(pipe(reports.data()), 0);
  ASSERT_EQ(pipe(hold.data()), 0);
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    children.push_back(start([&] {
      close(hold[1]);
      Database db = Database::open(path);
      int claimed = 0;
      for (int tile = 1; tile <= 10; ++tile) claimed += db.claim_image(kernel(tile), {9, 0, true});
      if (write(reports[1], &claimed, sizeof claimed) != sizeof claimed) return 1;
      char byte = 0;
      return read(hold[0], &byte, 1) == 0 ? 0 : 1;  // claims are valid while their process lives
    }));
  }
  int all = 0;
  for (std::size_t child = 0; child < children.size(); ++child) {
    int claimed = 0;
    ASSERT_EQ(read(reports[0], &claimed, sizeof claimed), ssize_t{sizeof claimed});
    all += claimed;
  }
  EXPECT_EQ(all, 10) << "each of the ten by one process";
  for (const int end : {hold[0], hold[1], reports[0], reports[1]}) close(end);
  for (const pid_t child : children) EXPECT_EQ(finish(child), 0);
}

TEST(Processes, ThatDiedHoldNoClaim) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database db = Database::open(path);
  EXPECT_EQ(in_child([&path] {
              Database own = Database::open(path);
              for (int tile = 1; tile <= 3; ++tile)
                if (!own.claim_image(kernel(tile), {9, 0, true})) return 1;
              raise(SIGKILL);
              return 2;
            }),
            -SIGKILL);
  EXPECT_TRUE(db.claim_image(kernel(1), {9, 0, true})) << "at once, not after 20 s";
  const Database next = Database::open(path);
  const Connection connection(path, Connection::Access::owner);
  EXPECT_EQ(connection.integer("SELECT count(*) FROM claims"), 1)
      << "what the next start finds of the dead is gone; the living keep theirs";
}

/// Starts a writer that reports each committed tile through a pipe, kills it during a write, and
/// returns the reported tiles.
std::vector<int> kill_a_writer(const std::filesystem::path& path, int first, int reports) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {};
  const pid_t writer = start([&] {
    close(ends[0]);
    Database db = Database::open(path);
    for (int tile = first;; ++tile) {
      const auto id = db.add(record(tile));
      db.set_winner(id);
      if (write(ends[1], &tile, sizeof tile) != sizeof tile) return 1;
    }
  });
  close(ends[1]);
  std::vector<int> tiles;
  int tile = 0;
  while (static_cast<int>(tiles.size()) < reports && read(ends[0], &tile, sizeof tile) > 0) {
    tiles.push_back(tile);
  }
  kill(writer, SIGKILL);
  while (read(ends[0], &tile, sizeof tile) == sizeof tile) tiles.push_back(tile);
  close(ends[0]);
  EXPECT_EQ(finish(writer), -SIGKILL);
  return tiles;
}

TEST(Processes, KilledInMidWriteLoseNothingCommitted) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  for (int round = 0; round < 8; ++round) {
    const auto tiles = kill_a_writer(path, 1 + round * 1'000'000, 5 + round * 9);
    ASSERT_GE(tiles.size(), 5u);
    EXPECT_EQ(integrity(path), "ok");
    const Database db = Database::open(path);
    std::vector<int> stored;
    for (const Record& r : db.records({})) stored.push_back(r.candidate.configuration.at("TILE_M"));
    EXPECT_THAT(stored, testing::IsSupersetOf(tiles));
    EXPECT_EQ(db.winners().size(), 1u);
  }
}

TEST(Processes, KilledWhileHoldingTheLockHoldUpNobody) {
  const TemporaryFolder folder;
  const auto path = folder / "x.db";
  Database db = Database::open(path);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t holder = start([&] {
    const Connection connection(path, Connection::Access::write);
    const Transaction transaction(connection);
    connection.execute("DELETE FROM records");
    if (write(ends[1], "x", 1) != 1) return 1;
    pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  kill(holder, SIGKILL);
  EXPECT_EQ(finish(holder), -SIGKILL);
  EXPECT_GT(db.add(record()), 0);
  close(ends[0]);
  close(ends[1]);
}

// A process forks while one of its threads runs inside SQLite.
TEST(Processes, ChildrenOfABusyProcessOpenTheirOwn) {
  const TemporaryFolder folder;
  std::atomic<bool> done{false};
  std::vector<std::thread> busy;
  for (int thread = 0; thread < 3; ++thread)
    busy.emplace_back([&, thread] {
      const auto path = folder / ("busy" + std::to_string(thread) + ".db");
      while (!done) Database::open(path).add(record());
    });
  for (int i = 0; i < 60; ++i) {
    const auto path = folder / "child.db";
    const pid_t child = start([&path] {
      alarm(20);
      return Database::open(path).counts().records == 0 ? 0 : 1;
    });
    ASSERT_EQ(finish(child), 0) << "child " << i << " (-14: it hung)";
  }
  done = true;
  for (std::thread& thread : busy) thread.join();
}

TEST(Threads, ShareOneObject) {
  const TemporaryFolder folder;
  Database db = Database::open(folder / "x.db");
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        for (int i = 0; i < 40; ++i) {
          const auto id = db.add(record(1 + thread * 40 + i));
          if (!db.record(id) || db.records({.problem = problem()}).empty()) ++failures;
          db.set_winner(id);
          db.winner(problem(), kGpu);
          db.warnings();
        }
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(db.counts().records, 160);
}

// SQLite seeds its random numbers under one global lock and meanwhile takes a second one.
TEST(Processes, ForkWhileAnotherThreadSeedsRandomNumbers) {
  const int status = finish(start([] {
    const Connection connection;  // registers for forks
    alarm(600);                   // a deadlock ends by a signal
    std::atomic<bool> done{false};
    std::thread seeding([&] {
      char byte = 0;
      while (!done) {
        sqlite3_randomness(0, nullptr);  // seeds again at the next call
        sqlite3_randomness(1, &byte);
      }
    });
    int forks = 0;
    for (; forks < 200; ++forks)
      if (finish(start([] { return 0; })) != 0) break;
    done = true;
    seeding.join();
    return forks == 200 ? 0 : 1;
  }));
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tilewise::database_processes_test
