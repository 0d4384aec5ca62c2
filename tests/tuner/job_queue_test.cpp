// The assignment of jobs to devices.
#include "tuner/job_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tilewise::job_queue_test {
namespace {

using testing::ElementsAre;

QueuedJob job(double seconds, double order = 0, std::size_t kind = 0, double host_bytes = 0) {
  return {kind, seconds, order, host_bytes};
}

/// The jobs that one device takes, one after another.
std::vector<std::size_t> taken_by(JobQueue& queue, std::size_t device) {
  std::vector<std::size_t> jobs;
  while (const auto next = queue.next(device).job) {
    jobs.push_back(*next);
    queue.finished(*next);
  }
  return jobs;
}

TEST(JobQueue, ASingleDeviceKeepsTheOrderOfTheList) {
  JobQueue queue({job(1, 5), job(3, 1), job(1, 9)}, {0});
  EXPECT_THAT(taken_by(queue, 0), ElementsAre(0, 1, 2));
}

TEST(JobQueue, AlikeDevicesBeginWithWhatTakesLongest) {
  JobQueue queue({job(1, 5), job(3, 1), job(1, 9)}, {0, 0});
  EXPECT_EQ(queue.next(0).job, 1U);
  EXPECT_EQ(queue.next(1).job, 2U);
  EXPECT_EQ(queue.next(0).job, 0U);
}

TEST(JobQueue, UnlikeDevicesTakeOnlyTheirOwnJobs) {
  JobQueue queue({job(1, 0, 0), job(1, 0, 1), job(1, 0, 0)}, {0, 1});
  EXPECT_THAT(taken_by(queue, 1), ElementsAre(1));
  EXPECT_THAT(taken_by(queue, 0), ElementsAre(0, 2));
}

TEST(JobQueue, ADeviceWithoutAJobServesASearchOfItsKind) {
  JobQueue queue({job(1)}, {0, 0});
  ASSERT_EQ(queue.next(0).job, 0U);
  const auto search = std::make_shared<EvaluationQueue>();
  queue.share(0, search);
  const JobQueue::Turn turn = queue.next(1);
  EXPECT_FALSE(turn.job);
  EXPECT_EQ(turn.search, search);
  EXPECT_EQ(turn.of, 0U);
  search->close();
  queue.finished(0);
  const JobQueue::Turn end = queue.next(1);
  EXPECT_FALSE(end.job || end.search);
}

TEST(JobQueue, TheSearchThatFewestServeComesFirst) {
  JobQueue queue({job(1), job(1)}, {0, 0, 0, 0});
  for (const std::size_t device : {0, 1}) {
    const auto mine = queue.next(device).job;
    ASSERT_TRUE(mine);
    queue.share(*mine, std::make_shared<EvaluationQueue>());
  }
  EXPECT_NE(queue.next(2).of, queue.next(3).of);
}

TEST(JobQueue, AJobThatFailedGoesToTheOtherDevice) {
  JobQueue queue({job(1)}, {0, 0});
  ASSERT_EQ(queue.next(0).job, 0U);
  ASSERT_TRUE(queue.try_again(0, 0));
  std::optional<std::size_t> first = 7;
  std::thread waits([&] { first = queue.next(0).job; });  // it is left to device 1
  EXPECT_EQ(queue.next(1).job, 0U);
  EXPECT_FALSE(queue.try_again(1, 0)) << "both have tried it";
  queue.finished(0);
  waits.join();
  EXPECT_EQ(first, std::nullopt);
}

TEST(JobQueue, WithoutAnotherDeviceTheFailedOneTriesAgain) {
  JobQueue queue({job(1)}, {0, 0});
  ASSERT_EQ(queue.next(0).job, 0U);
  ASSERT_TRUE(queue.try_again(0, 0));
  EXPECT_TRUE(queue.lost(1));
  EXPECT_EQ(queue.next(0).job, 0U);
}

TEST(JobQueue, WithTheLastDeviceOfAKindItsJobsEnd) {
  JobQueue queue({job(1), job(1), job(1, 0, 1)}, {0, 0, 1});
  EXPECT_TRUE(queue.lost(0));
  EXPECT_FALSE(queue.lost(1));
  EXPECT_EQ(queue.state().finished, 2U);
  EXPECT_EQ(queue.next(2).job, 2U);
}

TEST(JobQueue, JobsWaitForMemoryAndOneAlwaysRuns) {
  JobQueue queue({job(3, 0, 0, 80), job(2, 0, 0, 30), job(1, 0, 0, 20)}, {0, 0}, 100);
  EXPECT_EQ(queue.next(0).job, 0U);
  EXPECT_EQ(queue.next(1).job, 2U) << "the job of 30 bytes does not fit beside that of 80";
  queue.finished(0);
  EXPECT_EQ(queue.next(0).job, 1U);
  JobQueue large({job(1, 0, 0, 200)}, {0}, 100);
  EXPECT_EQ(large.next(0).job, 0U);
}

TEST(JobQueue, AfterAStopNothingBegins) {
  JobQueue queue({job(1)}, {0});
  const std::atomic<bool> interrupted{true};
  EXPECT_FALSE(queue.next(0, &interrupted).job);
  queue.stop();
  EXPECT_FALSE(queue.next(0).job);
}

TEST(JobQueue, CountsSearchesAtOnceAndEstimatesTheTimeLeft) {
  const JobQueue few({job(60)}, {0, 0});
  EXPECT_EQ(few.most_at_once(), 1U);
  JobQueue many({job(60), job(60), job(60), job(60), job(10, 0, 1)}, {0, 0, 1});
  EXPECT_EQ(many.most_at_once(), 3U);
  EXPECT_DOUBLE_EQ(many.state().seconds_left, 120);
  many.lost(0);
  EXPECT_DOUBLE_EQ(many.state().seconds_left, 240);
  EXPECT_EQ(many.state().jobs, 5U);
}

}  // namespace
}  // namespace tilewise::job_queue_test
