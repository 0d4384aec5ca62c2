// The evaluator in a worker process. This program is its own worker: started as `worker --fd N` it
// serves a fake device in host memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/tuner/fake_baseline.hpp"
#include "tests/tuner/fake_kernels.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/evaluator.hpp"
#include "tuner/worker/process.hpp"
#include "tuner/worker/protocol.hpp"
#include "tuner/worker/worker.hpp"

namespace tilewise::worker_test {
namespace {

using testing::HasSubstr;

WorkerDevice open_fake_device(const std::string& name) {
  if (name == "none") throw Error(ErrorKind::no_device, "no fake device is called none");
  if (name == "dies") _exit(7);
  auto device = std::make_unique<fake::Device>();
  if (name == "small") device->free_bytes = 1 << 20;
  if (name == "no power") device->power_w = 0;
  BaselineLibraries baselines;
  baselines.push_back(std::make_unique<fake::Baseline>(*device));
  return {std::move(device), std::move(baselines)};
}

Problem make_problem(std::int64_t m = 33) {
  Problem problem;
  problem.m = m;
  problem.n = 21;
  problem.k = 17;
  set_alignment(problem, {4, 4, 4});
  return problem;
}

std::shared_ptr<const Reference> reference_of(const Problem& problem) {
  return std::make_shared<const Reference>(Reference::compute(problem));
}

WorkerOptions quick_options() {
  WorkerOptions options;
  options.timeout_seconds = 1.5;
  options.timing.max_seconds = 0.002;
  options.timing.race_rounds = 2;
  return options;
}

struct Tuning {
  Problem problem = make_problem();
  std::unique_ptr<Evaluator> evaluator = make_worker_evaluator(quick_options());
  Tuning() { evaluator->begin(problem, reference_of(problem)); }
  Evaluation evaluate(const std::string& kernel) {
    return evaluator->evaluate(fake::make_request(problem, kernel));
  }
};

TEST(Worker, SaysWhatItsDeviceIs) {
  const auto evaluator = make_worker_evaluator(quick_options());
  EXPECT_EQ(evaluator->device_info(), fake::Device().info());
  EXPECT_EQ(evaluator->driver_version(), "fake 1.0");
}

TEST(Worker, ARightCandidateIsTimed) {
  Tuning run;
  const Evaluation evaluation = run.evaluate("right");
  ASSERT_EQ(evaluation.outcome, Outcome::ok) << evaluation.detail;
  ASSERT_TRUE(evaluation.measurement);
  EXPECT_GT(evaluation.measurement->median_us, 0);
  EXPECT_EQ(evaluation.measurement->sm_clock_mhz, 1980);
  EXPECT_GT(evaluation.error_ratio, 0);
  EXPECT_EQ(evaluation.usage.registers, 32);
}

TEST(Worker, AnotherProblemMayFollow) {
  Tuning run;
  const Problem other = make_problem(50);
  run.evaluator->begin(other, reference_of(other));
  EXPECT_EQ(run.evaluator->evaluate(fake::make_request(other, "right")).outcome, Outcome::ok);
}

TEST(Worker, RacesWithBaselines) {
  Tuning run;
  const RaceResult result = run.evaluator->race(
      {fake::make_request(run.problem, "right"), fake::make_request(run.problem, "one_element")},
      true);
  ASSERT_EQ(result.finalists.size(), 2U);
  EXPECT_TRUE(result.finalists[0].measurement);
  EXPECT_EQ(result.finalists[1].outcome, Outcome::wrong_result);
  ASSERT_EQ(result.baselines.size(), 1U);
  EXPECT_EQ(result.baselines[0].library, "fakeBLAS");
  EXPECT_EQ(result.baselines[0].problem, run.problem);
}

TEST(Worker, MeasuresEnergyInARaceWhereAsked) {
  Tuning run;
  EXPECT_TRUE(run.evaluator->measures_energy());
  EvaluationRequest asked = fake::make_request(run.problem, "right");
  asked.energy = true;
  const RaceResult result = run.evaluator->race({asked}, false);
  EXPECT_GT(result.finalists.at(0).measurement.value().energy_mj, 0);
  asked.energy = false;
  EXPECT_EQ(run.evaluator->race({asked}, false).finalists.at(0).measurement.value().energy_mj, 0);
  WorkerOptions options = quick_options();
  options.device = "no power";
  EXPECT_FALSE(make_worker_evaluator(options)->measures_energy());
}

TEST(Worker, AHangIsKilledAndTheRunGoesOn) {
  Tuning run;
  const auto start = std::chrono::steady_clock::now();
  const Evaluation hung = run.evaluate("hangs");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  EXPECT_EQ(hung.outcome, Outcome::timeout);
  EXPECT_THAT(hung.detail, HasSubstr("1.5 s"));
  EXPECT_EQ(run.evaluate("right").outcome, Outcome::ok);
}

TEST(Worker, ADeathIsAnOutcomeThatSaysHow) {
  Tuning run;
  EXPECT_THAT(run.evaluate("aborts").detail, HasSubstr("signal 6"));
  EXPECT_THAT(run.evaluate("crashes").detail, HasSubstr("signal 11"));
  EXPECT_THAT(run.evaluate("exits").detail, HasSubstr("exit status 3"));
  EXPECT_EQ(run.evaluate("exits").outcome, Outcome::launch_error);
}

TEST(Worker, AFaultOfTheSystemIsToldFromTheCandidates) {
  Tuning run;
  for (const char* system : {"killed", "no_space"}) {
    const Evaluation evaluation = run.evaluate(system);
    EXPECT_TRUE(evaluation.transient) << system;
    EXPECT_FALSE(evaluation.measurement);
  }
  for (const char* own : {"aborts", "crashes", "exits", "sticky", "refused", "one_element"})
    EXPECT_FALSE(run.evaluate(own).transient) << own;
  const RaceResult result = run.evaluator->race(
      {fake::make_request(run.problem, "right"), fake::make_request(run.problem, "killed")}, false);
  EXPECT_EQ(result.finalists[0].outcome, Outcome::ok);
  EXPECT_TRUE(result.finalists[1].transient);
  EXPECT_FALSE(run.evaluate("right").transient);
}

TEST(Worker, ARaceThatDiesBlamesTheCulpritAloneAndTheRestRaces) {
  for (const auto& [culprit, why] :
       {std::pair{"aborts", "signal 6"}, std::pair{"sticky", "illegal memory access"},
        std::pair{"exits", "exit status 3"}}) {
    Tuning run;
    const auto finalists = {fake::make_request(run.problem, "right"),
                            fake::make_request(run.problem, culprit),
                            fake::make_request(run.problem, "slow")};
    const RaceResult result = run.evaluator->race(finalists, true);
    ASSERT_EQ(result.finalists.size(), 3U);
    EXPECT_EQ(result.finalists[1].outcome, Outcome::launch_error) << culprit;
    EXPECT_THAT(result.finalists[1].detail, HasSubstr(why));
    EXPECT_FALSE(result.finalists[1].measurement);
    for (const std::size_t i : {0U, 2U}) {
      EXPECT_EQ(result.finalists[i].outcome, Outcome::ok) << culprit;
      ASSERT_TRUE(result.finalists[i].measurement);
      EXPECT_EQ(result.finalists[i].measurement->samples, 2) << "raced, not timed alone";
    }
    EXPECT_EQ(result.baselines.size(), 1U);
    EXPECT_EQ(run.evaluate("right").outcome, Outcome::ok);
  }
}

TEST(Worker, ARaceOfCulpritsJudgesEachByItself) {
  Tuning run;
  const auto finalists = {fake::make_request(run.problem, "exits"),
                          fake::make_request(run.problem, "aborts")};
  const RaceResult result = run.evaluator->race(finalists, true);
  ASSERT_EQ(result.finalists.size(), 2U);
  EXPECT_THAT(result.finalists[0].detail, HasSubstr("exit status 3"));
  EXPECT_THAT(result.finalists[1].detail, HasSubstr("signal 6"));
  EXPECT_TRUE(result.baselines.empty());
  EXPECT_EQ(run.evaluate("right").outcome, Outcome::ok);
}

TEST(Worker, TwentyPlantedFailuresInOneRunAreAllRecordedAndNoneIsFatal) {
  Tuning run;
  const std::pair<const char*, Outcome> planted[] = {
      {"one_element", Outcome::wrong_result},   {"sticky", Outcome::launch_error},
      {"unwritten", Outcome::wrong_result},     {"aborts", Outcome::launch_error},
      {"after_c", Outcome::wrong_result},       {"hangs", Outcome::timeout},
      {"before_c", Outcome::wrong_result},      {"crashes", Outcome::launch_error},
      {"row_gap", Outcome::wrong_result},       {"refused", Outcome::launch_error},
      {"changes_a", Outcome::wrong_result},     {"exits", Outcome::launch_error},
      {"changes_b", Outcome::wrong_result},     {"no_such_kernel", Outcome::launch_error},
      {"ignores_beta", Outcome::wrong_result},  {"wants_16_bytes", Outcome::launch_error},
      {"ignores_alpha", Outcome::wrong_result}, {"sticky", Outcome::launch_error},
      {"reads_c", Outcome::wrong_result},       {"reads_past_row", Outcome::wrong_result},
  };
  static_assert(std::size(planted) == 20);
  for (const auto& [kernel, outcome] : planted) {
    const Evaluation evaluation = run.evaluate(kernel);
    EXPECT_EQ(evaluation.outcome, outcome) << kernel;
    EXPECT_FALSE(evaluation.detail.empty()) << kernel;
    EXPECT_FALSE(evaluation.measurement) << kernel;
  }
  EXPECT_EQ(run.evaluate("right").outcome, Outcome::ok);
}

TEST(Worker, WhatOpeningTheDeviceThrowsReachesTheCaller) {
  WorkerOptions options = quick_options();
  options.device = "none";
  try {
    make_worker_evaluator(options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::no_device);
    EXPECT_STREQ(error.what(), "no fake device is called none");
  }
}

TEST(Worker, AWorkerThatCannotStartIsAnError) {
  WorkerOptions options = quick_options();
  options.device = "dies";
  try {
    make_worker_evaluator(options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("exit status 7"));
  }
  options.program = "/no/such/program";
  EXPECT_THROW(make_worker_evaluator(options), Error);
}

TEST(Worker, AnErrorOfBeginReachesTheCallerAndTheRunGoesOn) {
  WorkerOptions options = quick_options();
  options.device = "small";
  const auto evaluator = make_worker_evaluator(options);
  const Problem large = make_problem(1 << 15), small = make_problem();
  try {
    evaluator->begin(large, reference_of(large));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
  }
  evaluator->begin(small, reference_of(small));
  EXPECT_EQ(evaluator->evaluate(fake::make_request(small, "right")).outcome, Outcome::ok);
}

TEST(Worker, EvaluationBeforeBeginIsRefused) {
  const auto evaluator = make_worker_evaluator(quick_options());
  EXPECT_THROW(evaluator->evaluate(fake::make_request(make_problem(), "right")), Error);
}

// ---- the process ----

bool alive(pid_t pid) { return kill(pid, 0) == 0; }

void open_device(const WorkerProcess& process) {
  Message reply;
  ASSERT_EQ(process.channel().send(encode(OpenRequest{"auto"})), Transfer::done);
  ASSERT_EQ(process.channel().receive(reply, deadline_in(10)), Transfer::done);
  ASSERT_EQ(type_of(reply), "ready");
}

TEST(WorkerProcess, IgnoresInterrupts) {
  WorkerProcess process("/proc/self/exe");
  kill(process.id(), SIGINT);  // possibly before its first instruction
  open_device(process);
  kill(process.id(), SIGINT);
  Message reply;
  ASSERT_EQ(process.channel().send(encode_done()), Transfer::done);
  ASSERT_EQ(process.channel().receive(reply, deadline_in(10)), Transfer::done);
  EXPECT_EQ(type_of(reply), "error");  // the worker runs, and answers an unknown message
}

TEST(WorkerProcess, EndsWithItsOwner) {
  pid_t pid = 0;
  {
    const WorkerProcess process("/proc/self/exe");
    open_device(process);
    pid = process.id();
    EXPECT_TRUE(alive(pid));
  }
  EXPECT_FALSE(alive(pid));
}

// A killed parent leaves no worker behind, not even one that hangs in a kernel.
TEST(WorkerProcess, DiesWithAParentThatIsKilled) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);  // the worker's standard error: closed at its end
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    Tuning run;
    std::thread([&] { run.evaluate("hangs"); }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    raise(SIGKILL);
  }
  close(ends[1]);
  int status = 0;
  waitpid(parent, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  char byte = 0;
  ssize_t got = -1;
  for (int i = 0; i < 500 && got != 0; ++i) {
    got = read(ends[0], &byte, 1);
    if (got != 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  close(ends[0]);
  EXPECT_EQ(got, 0) << "somebody still holds the pipe";
}

// ---- the protocol ----

struct SocketPair {
  std::array<int, 2> fd{};
  SocketPair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd.data()), 0); }
  ~SocketPair() {
    close(fd[0]);
    close(fd[1]);
  }
};

TEST(Protocol, ARequestComesBackAsItWas) {
  const Problem problem = make_problem();
  EvaluationRequest request = fake::make_request(problem, "right", 12.5);
  request.images[0].source_hash = "abc";
  request.images[0].binary.assign(3'000'000, 9);
  request.images.push_back(request.images[0]);
  request.images[1].binary = {4, 5};
  request.observe_seconds = 1.5;
  request.timed = false;
  request.energy = true;
  request.press = OtherSize{make_problem(), request.plan};
  const SocketPair sockets;
  std::thread sender([&] { Channel(sockets.fd[0]).send(encode(request)); });
  Message message;
  ASSERT_EQ(Channel(sockets.fd[1]).receive(message, deadline_in(5)), Transfer::done);
  sender.join();
  const EvaluationRequest same = decode_evaluation_request(message);
  EXPECT_EQ(same.plan, request.plan);
  EXPECT_EQ(same.images, request.images);
  EXPECT_EQ(same.best_us, 12.5);
  EXPECT_EQ(same.observe_seconds, 1.5);
  EXPECT_FALSE(same.timed);
  ASSERT_TRUE(same.press);
  EXPECT_EQ(same.press->problem, request.press->problem);
  EXPECT_EQ(same.press->plan, request.press->plan);
  EXPECT_TRUE(same.energy);
}

TEST(Protocol, AFileDescriptorTravelsWithAMessage) {
  const SocketPair sockets;
  const SharedBlock block(4096);
  block.data()[100] = std::byte{42};
  Message sent = encode(BeginRequest{make_problem(), {}, 4096});
  sent.fd = block.fd();
  Message message;
  ASSERT_EQ(Channel(sockets.fd[0]).send(sent), Transfer::done);
  ASSERT_EQ(Channel(sockets.fd[1]).receive(message, deadline_in(5)), Transfer::done);
  EXPECT_EQ(decode_begin(message).problem, make_problem());
  ASSERT_GE(message.fd, 0);
  EXPECT_EQ(SharedBlock::map(message.fd, 4096).data()[100], std::byte{42});
}

TEST(Protocol, NobodyReadingEndsAtTheDeadline) {
  const SocketPair sockets;
  Message message{"{}", std::vector<std::uint8_t>(8'000'000), -1};
  EXPECT_EQ(Channel(sockets.fd[0]).send(message, deadline_in(0.1)), Transfer::timeout);
  EXPECT_EQ(Channel(sockets.fd[0]).receive(message, deadline_in(0.1)), Transfer::timeout);
}

TEST(Protocol, AClosedPeerIsNoticed) {
  SocketPair sockets;
  close(sockets.fd[1]);
  sockets.fd[1] = dup(STDIN_FILENO);
  Message message{"{}", std::vector<std::uint8_t>(8'000'000), -1};
  EXPECT_EQ(Channel(sockets.fd[0]).send(message, deadline_in(5)), Transfer::closed);
  EXPECT_EQ(Channel(sockets.fd[0]).receive(message, deadline_in(5)), Transfer::closed);
}

TEST(Protocol, NonsenseIsAnError) {
  const SocketPair sockets;
  const std::array<std::uint32_t, 2> lengths = {0xFFFFFFF0U, 3};
  ASSERT_EQ(write(sockets.fd[0], lengths.data(), sizeof lengths),
            static_cast<ssize_t>(sizeof lengths));
  Message message;
  EXPECT_THROW(Channel(sockets.fd[1]).receive(message, deadline_in(5)), Error);
  EXPECT_THROW(decode_ready({"not json", {}, -1}), Error);
  EXPECT_THROW(decode_ready(encode_done()), Error);
  EXPECT_THROW(decode_evaluation_reply({R"({"type":"evaluation"})", {}, -1}), Error);
  Message torn = encode(fake::make_request(make_problem(), "right"));
  torn.blob.pop_back();
  EXPECT_THROW(decode_evaluation_request(torn), Error);
}

TEST(Protocol, EveryKindOfErrorSurvives) {
  for (const ErrorKind kind : {ErrorKind::invalid_argument, ErrorKind::no_device, ErrorKind::device,
                               ErrorKind::out_of_memory, ErrorKind::io}) {
    const Error error = decode_error(encode(Error(kind, "words")));
    EXPECT_EQ(error.kind(), kind);
    EXPECT_STREQ(error.what(), "words");
  }
}

}  // namespace
}  // namespace tilewise::worker_test

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "worker") == 0) {
    return tilewise::run_worker(std::atoi(argv[3]), tilewise::worker_test::open_fake_device);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
