// When claims are valid: while a living process renews them, or by age if it is unknown whether it
// lives.
#include <array>

#include "damage.hpp"
#include "db/process_identity.hpp"

namespace tilewise::claims_test {
namespace {

using namespace samples;

const Target kTarget{9, 0, true};

class ClaimsTest : public testing::Test {
 protected:
  bool claim(Database& db) const { return db.claim_image(kernel(), kTarget); }
  /// Makes all claims `seconds` older.
  void age(int seconds) const {
    change(path, "UPDATE claims SET since = since - " + std::to_string(seconds));
  }
  std::int64_t claims() const { return number_in(path, "SELECT count(*) FROM claims"); }

  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "x.db";
  Database one = Database::open(path), two = Database::open(path);
};

TEST_F(ClaimsTest, RenewalKeepsOneFresh) {
  ASSERT_TRUE(claim(one));
  for (int i = 0; i < 3; ++i) {
    age(15);
    EXPECT_FALSE(claim(two));
    one.renew_claim(kernel(), kTarget);
  }
  age(15);
  EXPECT_FALSE(claim(two));
  age(15);
  EXPECT_TRUE(claim(two)) << "30 s after the last renewal";
}

TEST_F(ClaimsTest, RenewalIsTheHoldersAlone) {
  ASSERT_TRUE(claim(one));
  age(15);
  two.renew_claim(kernel(), kTarget);
  one.renew_claim(kernel(128), kTarget);
  one.renew_claim(kernel(), {8, 0, false});
  age(15);
  EXPECT_TRUE(claim(two)) << "only the holder renews, and only what it names";
  one.renew_claim(kernel(), kTarget);
  age(15);
  one.renew_claim(kernel(), kTarget);
  age(15);
  EXPECT_TRUE(claim(one)) << "what was taken over is renewed no more";
  EXPECT_EQ(claims(), 1);
}

TEST_F(ClaimsTest, FromTheFutureAreFree) {
  ASSERT_TRUE(claim(one));
  age(-15);
  EXPECT_FALSE(claim(two)) << "a clock that was set back a little";
  age(-100'000);
  EXPECT_TRUE(claim(two));
  change(path, "UPDATE claims SET since = 9e999");
  EXPECT_TRUE(claim(one));
}

// Processes ---------------------------------------------------------------------------------------

/// Claims an image in a process that ends without releasing it.
void claim_and_die(const std::filesystem::path& path) {
  ASSERT_EQ(in_child([&] { return Database::open(path).claim_image(kernel(), kTarget) ? 0 : 1; }),
            0);
}

TEST_F(ClaimsTest, OfTheDeadAreFree) {
  claim_and_die(path);
  EXPECT_EQ(claims(), 1) << "a claim is not released by the way out";
  EXPECT_TRUE(claim(two));
}

TEST_F(ClaimsTest, OfZombiesAreFree) {
  const pid_t child =
      start([&] { return Database::open(path).claim_image(kernel(), kTarget) ? 0 : 1; });
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(claim(two)) << "it runs no more, though its parent has not waited for it";
  EXPECT_EQ(finish(child), 0);
}

TEST_F(ClaimsTest, OfALivingProcessHold) {
  std::array<int, 2> claimed{}, end{};
  ASSERT_EQ(pipe(claimed.data()), 0);
  ASSERT_EQ(pipe(end.data()), 0);
  const pid_t child = start([&] {
    close(end[1]);
    Database db = Database::open(path);
    char byte = db.claim_image(kernel(), kTarget) ? 'y' : 'n';
    if (write(claimed[1], &byte, 1) != 1) return 1;
    return read(end[0], &byte, 1) == 0 ? 0 : 1;
  });
  char byte = 0;
  ASSERT_EQ(read(claimed[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_FALSE(claim(two));
  Database::open(path);
  EXPECT_EQ(claims(), 1) << "another's start leaves it";
  for (const int file : {claimed[0], claimed[1], end[0], end[1]}) close(file);
  EXPECT_EQ(finish(child), 0);
  EXPECT_TRUE(claim(two));
}

TEST_F(ClaimsTest, OfAPidThatIsAnothersNowAreFree) {
  ASSERT_TRUE(claim(one));
  change(path, "UPDATE claims SET started = started - 1");
  EXPECT_TRUE(claim(two)) << "this pid runs, and began later";
}

TEST_F(ClaimsTest, OfWhereNoPidCanBeSeenHoldByTime) {
  for (const char* machine : {"''", "'another boot pid:[1]'", "replace(machine, 'pid', 'pit')"}) {
    SCOPED_TRACE(machine);
    change(path, "DELETE FROM claims");
    claim_and_die(path);
    change(path, std::string("UPDATE claims SET machine = ") + machine);
    EXPECT_FALSE(claim(two)) << "the process may run there";
    Database::open(path);
    EXPECT_EQ(claims(), 1) << "nor does the next start take it away";
    age(19);
    EXPECT_FALSE(claim(two));
    age(2);
    EXPECT_TRUE(claim(two));
  }
}

TEST_F(ClaimsTest, WithNumbersThatNoProcessHasAreJudgedWithoutHarm) {
  for (const char* pid : {"0", "-1", "9223372036854775807", "4294967296"}) {
    SCOPED_TRACE(pid);
    change(path, "DELETE FROM claims");
    ASSERT_TRUE(claim(one));
    change(path, std::string("UPDATE claims SET pid = ") + pid);
    claim(two);
    age(21);
    EXPECT_TRUE(claim(two));
  }
}

TEST(Identity, IsOfThisProcess) {
  const ProcessIdentity me = new_identity();
  EXPECT_EQ(me.pid, getpid());
  EXPECT_GT(me.started, 0);
  EXPECT_FALSE(me.machine.empty());
  EXPECT_NE(me.token, new_identity().token) << "each object has its own";
  EXPECT_EQ(me.started, new_identity().started);
  EXPECT_FALSE(is_gone(me));
  EXPECT_TRUE(is_gone({me.token, me.machine, me.pid, me.started + 1}));
  EXPECT_FALSE(is_gone({me.token, "", me.pid, me.started + 1})) << "it cannot be told";
}

TEST(Identity, OfAChildIsGoneWithIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = start([&] {
    const std::int64_t started = new_identity().started;
    return write(ends[1], &started, sizeof started) == sizeof started ? 0 : 1;
  });
  ProcessIdentity other = new_identity();
  other.pid = child;
  ASSERT_EQ(read(ends[0], &other.started, sizeof other.started), ssize_t{sizeof other.started});
  EXPECT_EQ(finish(child), 0);
  EXPECT_TRUE(is_gone(other));
  for (const int end : ends) close(end);
}

}  // namespace
}  // namespace tilewise::claims_test
