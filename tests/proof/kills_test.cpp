// kill -9 at random moments of programs that tune and serve, all on one database and cache.
// Committed rows stay, the next run is not delayed, and nothing is left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "db/database.hpp"
#include "db/sqlite.hpp"
#include "tests/proof/programs.hpp"
#include "tilewise/error.hpp"

namespace tilewise::proof::kills_test {
namespace {

/// Seconds of runs after a kill, and of the same runs without a kill.
struct Delays {
  std::vector<double> after_kill, undisturbed;

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
  }
  static double most(const std::vector<double>& values) {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }
  std::string text() const {
    return std::to_string(after_kill.size()) +
           " kills; seconds of the next run, median (most): " + std::to_string(median(after_kill)) +
           " (" + std::to_string(most(after_kill)) + "), undisturbed " +
           std::to_string(median(undisturbed)) + " (" + std::to_string(most(undisturbed)) + ")";
  }
};

class Kills : public Programs {
 protected:
  /// The committed rows: records, and problems with a winner.
  std::set<std::string> committed() const {
    std::set<std::string> rows;
    if (!fs::exists(database())) return rows;
    try {
      const Database db = Database::open(database(), OpenMode::read_only);
      for (const Record& record : db.records({}))
        rows.insert(to_string(record.problem) + " " + record.candidate.kernel_template + " " +
                    record.candidate.configuration.text());
      for (const Winner& winner : db.winners())
        rows.insert("a winner of " + to_string(winner.record.problem));
    } catch (const Error&) {  // the database is being created
    }
    return rows;
  }

  /// Runs `of(database)` three times: undisturbed on a copy, killed on the shared database, then to
  /// its end there.
  void kill_one(const std::string& program,
                const std::function<std::vector<std::string>(const std::string&)>& of,
                Delays& delays) {
    copy_files(database(), in("apart.db"));
    const End alone = run(program, of(in("apart.db")));
    ASSERT_EQ(alone.status, 0) << alone.err;

    std::set<std::string> before;
    const double moment =
        std::uniform_real_distribution<double>(0, 0.9 * alone.seconds)(generator_);
    const End killed = run_and_kill(program, of(database()), moment, [&] { before = committed(); });
    killed_ += killed.status == -SIGKILL;

    const End next = run(program, of(database()));
    ASSERT_EQ(next.status, 0) << next.err;
    const std::set<std::string> after = committed();
    EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()))
        << "rows that were committed are gone";
    rows_ = std::max(rows_, after.size());
    delays.undisturbed.push_back(alone.seconds), delays.after_kill.push_back(next.seconds);
    expect_nothing_left(program);
  }

  void expect_nothing_left(const std::string& program) {
    for (int i = 0; i < 2000 && processes() > 0; ++i) sleep_seconds(0.002);
    EXPECT_EQ(processes(), 0) << program;
    EXPECT_TRUE(fs::is_empty(temporary())) << fs::directory_iterator(temporary())->path();
    const fs::path cache = image_cache_path(database());
    if (!fs::exists(cache)) return;
    const Connection connection(cache, Connection::Access::owner);
    EXPECT_EQ(connection.integer("SELECT count(*) FROM claims"), 0) << program;
  }

  /// A run that waits for the claim of a killed one waits for Database::kStaleClaimSeconds. The
  /// load of a machine delays a run by less.
  static void expect_no_wait(const Delays& delays, const char* what) {
    std::cout << what << ": " << delays.text() << '\n';
    EXPECT_LT(Delays::most(delays.after_kill),
              0.75 * Database::kStaleClaimSeconds + Delays::most(delays.undisturbed))
        << what;
  }

  std::mt19937_64 generator_{23};
  int killed_ = 0;
  std::size_t rows_ = 0;
};

TEST_F(Kills, NothingIsLostHeldUpOrLeft) {
  const int tunings = full() ? 60 : 6, servings = full() ? 30 : 3;
  Delays tuning, serving;
  for (int i = 0; i < tunings + servings && !HasFailure(); ++i) {
    const std::string seed = std::to_string(i), size = std::to_string(16 + i % 5);
    if (i % 3 == 2)
      kill_one(
          TILEWISE_SERVE_PRODUCTS,
          [&](const std::string& path) {
            return std::vector<std::string>{path, "2", seed, "all"};
          },
          serving);
    else
      kill_one(
          TILEWISE_AUTOTUNE,
          [&](const std::string& path) {
            return std::vector<std::string>{
                "tune", "--device",    "host",        "--sizes",
                size,   "--templates", "naive,tiled", "--max-evaluations",
                "3",    "--strategy",  "random",      "--seed",
                seed,   "-q",          "--db",        path};
          },
          tuning);
  }
  expect_no_wait(tuning, "autotune");
  expect_no_wait(serving, "serving");
  EXPECT_GT(killed_, (tunings + servings) / 4);
  const Database db = Database::open(database());
  EXPECT_EQ(db.check(), std::vector<std::string>{});
  EXPECT_GT(rows_, 5U);
  std::cout << killed_ << " runs were killed before their end; " << rows_ << " rows at the end\n";
}

}  // namespace
}  // namespace tilewise::proof::kills_test
