#pragma once
// Products in captured graphs, on any machine: with a workspace, with packs, and with operands that
// change between captures.
#include <gmock/gmock.h>

#include "tests/matmul/served_checks.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::test {

class TestStream {
 public:
  explicit TestStream(Device& device) : device_(device), stream_(device.create_stream()) {}
  ~TestStream() { device_.destroy_stream(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Device& device_;
  Stream stream_;
};

class Graphs : public Served {
 protected:
  using Served::Served;

  /// Checks bf16 by wgmma with k in three parts. extra: elements between rows; an odd number needs
  /// packs. `rounds`: launches of a graph concurrent with products.
  void check_captured(Layout layout, std::int64_t extra, Size size, int rounds) {
    Problem problem = typed_problem<bf16, bf16>(layout, size.m, size.n, size.k);
    if (extra % 2 != 0) set_alignment(problem, {2, 2, 2});
    const KernelTemplate& wgmma = find_template("wgmma");
    if (!wgmma.supports(problem, device->info())) GTEST_SKIP() << "no wgmma on this device";
    Candidate candidate{"wgmma", wgmma.default_configuration(problem, device->info())};
    for (const auto& [name, value] : {std::pair{"SPLIT_K", 3}, {"EPILOGUE", 0}, {"VECTOR_C", 1}})
      candidate.configuration.set(name, value);
    EXPECT_EQ(candidate.configuration.at("PACK_A") != 0, extra % 2 != 0);
    Matmul plain = with_winner(problem, candidate);
    const Sets sets(*this, problem, extra);
    const std::vector<std::vector<std::byte>> expected{uncaptured(plain, sets, 0),
                                                       uncaptured(plain, sets, 1)};
    ASSERT_NE(expected[0], expected[1]);
    expect_served(plain, problem, candidate);

    Matmul matmul(options);
    const TestStream stream(*device);
    expect_refused(matmul, sets, stream.get(), plain, expected[0]);
    matmul.prepare(problem);
    std::vector<std::unique_ptr<LaunchGraph>> graphs;
    for (const std::size_t set : {0, 1})
      graphs.push_back(
          device->capture(stream.get(), [&] { matmul(problem, sets.call(set, stream.get())); }));
    for (int i = 0; i < 5; ++i) {
      const std::size_t set = i % 3 == 0 ? 1 : 0;
      EXPECT_EQ(sets.result(stream.get(), [&] { graphs[set]->launch(stream.get()); }),
                expected[set])
          << "launch " << i;
    }
    check_beside(matmul, sets, *graphs[1], stream.get(), expected, rounds);
  }

  /// Emulated products in f64, one by one and in a replayed graph, are counted where they run.
  void check_counted() {
    const Problem problem =
        typed_problem(Layout::nt, 70, 40, 50, DType::f64, DType::f64, MathMode::emulated);
    const KernelTemplate& residues = find_template("residues");
    if (!residues.supports(problem, device->info())) GTEST_SKIP() << "no wgmma on this device";
    Candidate candidate{"residues", residues.default_configuration(problem, device->info())};
    set_small_emulated(candidate.configuration);
    Matmul matmul = with_winner(problem, candidate);
    const auto expect_counts = [&](std::int64_t emulated, std::int64_t native) {
      const Match match = matmul.explain(problem);
      EXPECT_EQ(match.kernel_template, "residues");
      EXPECT_EQ(match.emulated_runs, emulated);
      EXPECT_EQ(match.native_runs, native);
    };
    expect_counts(0, 0);
    const TestStream stream(*device);
    Elements of_a(DType::f64, 70 * 50, 1), of_b(DType::f64, 50 * 40, -1);
    for (std::int64_t i = 0; i < 70 * 50; ++i) of_a.set(i, 1 + static_cast<int>(i % 7));
    const DeviceBuffer a = uploaded(of_a), b = uploaded(of_b),
                       c(*device, bytes_of(DType::f64, 70 * 40));
    Call call;
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = call.ldb = 50, call.ldc = 40;
    call.stream = stream.get();
    const auto wait = [&] { device->synchronize(stream.get()); };
    matmul(problem, call);
    wait();
    expect_counts(1, 0);
    const auto graph = device->capture(stream.get(), [&] { matmul(problem, call); });
    expect_counts(1, 0);
    graph->launch(stream.get());
    wait();
    expect_counts(2, 0);
    of_a.set_bits(0, not_a_number(DType::f64));
    device->copy_to_device(a.data(), of_a.at(0), of_a.bytes(), stream.get());
    graph->launch(stream.get());
    wait();
    expect_counts(2, 1);
  }

 private:
  /// Two sets of A and B, and one C.
  struct Sets {
    Sets(Graphs& test, const Problem& problem, std::int64_t extra_)
        : device(*test.device),
          extra(extra_),
          jobs{WholeNumbers(problem, extra, 3), WholeNumbers(problem, extra, 4)},
          c(device, jobs[0].c.bytes()) {
      for (const WholeNumbers& job : jobs)
        a.push_back(test.uploaded(job.a)), b.push_back(test.uploaded(job.b));
    }
    Call call(std::size_t set, Stream stream) const {
      Call made = jobs[set].call(a[set].data(), b[set].data(), c.data());
      made.stream = stream;
      return made;
    }
    /// C after `work` has run on it.
    template <class Work>
    std::vector<std::byte> result(Stream stream, const Work& work) const {
      std::vector<std::byte> got = jobs[0].c.memory;
      device.copy_to_device(c.data(), got.data(), c.bytes(), stream);
      work();
      device.copy_to_host(got.data(), c.data(), c.bytes(), stream);
      device.synchronize(stream);
      return got;
    }
    Device& device;
    const std::int64_t extra;
    std::vector<WholeNumbers> jobs;
    std::vector<DeviceBuffer> a, b;
    DeviceBuffer c;
  };

  /// Runs a graph on one stream concurrently with products on the stream that it was captured from.
  /// Neither may change the workspace of the other.
  void check_beside(Matmul& matmul, const Sets& sets, LaunchGraph& graph, Stream captured_from,
                    const std::vector<std::vector<std::byte>>& expected, int rounds) {
    const TestStream other(*device);
    const Sets live(*this, sets.jobs[0].problem, sets.extra);
    const DeviceBuffer before = uploaded(sets.jobs[0].c);
    std::vector<std::byte> got(expected[0].size());
    for (int i = 0; i < rounds; ++i) {
      device->copy_on_device(sets.c.data(), before.data(), before.bytes(), other.get());
      device->copy_on_device(live.c.data(), before.data(), before.bytes(), captured_from);
      graph.launch(other.get());
      matmul(live.jobs[0].problem, live.call(0, captured_from));
    }
    device->copy_to_host(got.data(), sets.c.data(), before.bytes(), other.get());
    device->synchronize(other.get());
    EXPECT_EQ(got, expected[1]) << "the graph";
    device->copy_to_host(got.data(), live.c.data(), before.bytes(), captured_from);
    device->synchronize(captured_from);
    EXPECT_EQ(got, expected[0]) << "the products beside it";
  }

  std::vector<std::byte> uncaptured(Matmul& matmul, const Sets& sets, std::size_t set) {
    const TestStream stream(*device);
    auto got = sets.result(stream.get(),
                           [&] { matmul(sets.jobs[set].problem, sets.call(set, stream.get())); });
    WholeNumbers job = sets.jobs[set];
    job.c.memory = got;
    EXPECT_EQ(job.first_wrong(), -1);
    return got;
  }

  /// A product that was not prepared is refused before anything is captured, and the capture
  /// continues.
  void expect_refused(Matmul& matmul, const Sets& sets, Stream stream, Matmul& prepared,
                      const std::vector<std::byte>& expected) {
    const Problem& problem = sets.jobs[0].problem;
    const auto graph = device->capture(stream, [&] {
      try {
        matmul(problem, sets.call(1, stream));
        ADD_FAILURE() << "a first product was captured";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
        EXPECT_THAT(error.what(), testing::HasSubstr("prepare()"));
      }
      prepared(problem, sets.call(0, stream));
    });
    EXPECT_EQ(sets.result(stream, [&] { graph->launch(stream); }), expected);
    EXPECT_THROW(device->capture(stream, [&] { matmul(problem, sets.call(0, stream)); }), Error);
    EXPECT_EQ(sets.result(stream, [&] { prepared(problem, sets.call(0, stream)); }), expected)
        << "the stream works on";
  }
};

}  // namespace tilewise::test
