// A line that a program and its pool workers issue once.
#include "api/said_once.hpp"

#include <algorithm>

#include "tests/support/fork.hpp"

namespace tilewise::said_once_test {
namespace {

std::string new_text() {
  static int count = 0;
  return "text " + std::to_string(getpid()) + " " + std::to_string(++count);
}

/// "1" or "0", printed by a child process.
std::string said(const std::string& text, bool own_group = false) {
  return said_by_child([&] {
    if (own_group) setpgid(0, 0);
    return std::string(first_to_say(text) ? "1" : "0");
  });
}

TEST(SaidOnce, ByOneProcessOnce) {
  const std::string text = new_text();
  EXPECT_TRUE(first_to_say(text));
  EXPECT_FALSE(first_to_say(text));
  EXPECT_TRUE(first_to_say(new_text()));
}

TEST(SaidOnce, ByTheWorkersOfAPoolOnce) {
  const std::string text = new_text();
  int to_workers[2], from_workers[2];
  ASSERT_EQ(pipe(to_workers), 0);
  ASSERT_EQ(pipe(from_workers), 0);
  constexpr int kWorkers = 8;
  for (int i = 0; i < kWorkers; ++i)
    if (fork() == 0) {
      alarm(kLongest);
      close(to_workers[1]);
      const char answer = first_to_say(text) ? '1' : '0';
      char end = 0;
      if (write(from_workers[1], &answer, 1) != 1) std::_Exit(1);
      while (read(to_workers[0], &end, 1) > 0) continue;  // until all have answered
      std::_Exit(0);
    }
  std::string answers(kWorkers, ' ');
  for (char& answer : answers) ASSERT_EQ(read(from_workers[0], &answer, 1), 1);
  EXPECT_EQ(std::count(answers.begin(), answers.end(), '1'), 1) << answers;
  EXPECT_FALSE(first_to_say(text)) << "while they run";
  for (const int file : {to_workers[0], to_workers[1], from_workers[0], from_workers[1]})
    close(file);
  for (int i = 0; i < kWorkers; ++i) wait(nullptr);
}

TEST(SaidOnce, ByAProgramAndNotByItsWorkers) {
  const std::string text = new_text();
  EXPECT_TRUE(first_to_say(text));
  EXPECT_EQ(said(text), "0");
}

TEST(SaidOnce, AgainByTheNextCommandAndByAnotherGroup) {
  const std::string text = new_text();
  EXPECT_EQ(said(text), "1");
  EXPECT_EQ(said(text), "1") << "the first has ended";
  const std::string other = new_text();
  int keep[2];
  ASSERT_EQ(pipe(keep), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    alarm(kLongest);
    close(keep[1]);
    (void)first_to_say(other);
    char end = 0;
    while (read(keep[0], &end, 1) > 0) continue;
    std::_Exit(0);
  }
  EXPECT_EQ(said(other, true), "1");
  close(keep[0]), close(keep[1]);
  waitpid(holder, nullptr, 0);
}

}  // namespace
}  // namespace tilewise::said_once_test
