#pragma once
// Grouped products through the entry points, on any machine: each kind, layout and form of groups,
// with epilogues, random winners, bad numbers of rows, and in graphs that are replayed with other
// numbers.
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "templates/space/search_space.hpp"
#include "tests/matmul/served_checks.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::test {

struct GroupedTest : Served {
  explicit GroupedTest(const std::string& name) : Served(name) {}

  using Bytes = std::vector<std::byte>;

  /// A call of a grouped problem on the device, its operands of small whole numbers, and what it
  /// has to write.
  struct Job {
    Problem problem;
    std::int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
    Bytes a, b, c, bias, aux;
    std::vector<std::int32_t> group_rows;
    DeviceBuffer on_a, on_b, on_c, on_bias, on_aux, on_rows;
    double alpha = 2, beta = -1;
  };

  static Problem problem_of(const ProductKind& kind, Layout layout, Grouping grouping,
                            std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups) {
    Problem problem = typed_problem(layout, m, n, k, kind.a, kind.b, kind.c, kind.math, groups);
    problem.grouping = grouping;
    set_alignment(problem, natural_alignment(problem));
    return problem;
  }

  DeviceBuffer on_device(const Bytes& bytes) {
    DeviceBuffer buffer(*device, std::int64_t(bytes.size()));
    device->copy_to_device(buffer.data(), bytes.data(), std::int64_t(bytes.size()), nullptr);
    device->synchronize(nullptr);
    return buffer;
  }
  Bytes numbers(DType type, std::int64_t count) {
    Bytes bytes(std::size_t(bytes_of(type, count)));
    for (std::int64_t i = 0; i < count; ++i)
      from_double(type, int(random_() % 5) - 2, bytes.data() + bytes_of(type, i));
    return bytes;
  }

  /// Ends (or counts) with empty products, one row, and rows behind the last end.
  std::vector<std::int32_t> some_rows(const Problem& problem) {
    std::vector<std::int32_t> rows;
    for (std::int64_t i = 0; i < problem.batch; ++i)
      rows.push_back(std::int32_t(random_() % std::uint64_t(most_of(problem) + 1)));
    if (problem.grouping != Grouping::counts) std::sort(rows.begin(), rows.end());
    if (problem.batch > 2) rows[1] = problem.grouping == Grouping::counts ? 0 : rows[0];
    return rows;
  }

  Job job_of(const Problem& problem, std::int64_t extra) {
    const std::int64_t matrices = matrices_c(problem);
    Job job;
    job.problem = problem;
    job.lda = min_lda(problem) + extra, job.ldb = min_ldb(problem) + extra,
    job.ldc = min_ldc(problem) + extra;
    job.stride_a = rows_a(problem) * job.lda, job.stride_b = rows_b(problem) * job.ldb;
    job.stride_c = problem.m * job.ldc;
    job.a = numbers(problem.a.type, matrices_a(problem) * job.stride_a);
    job.b = numbers(problem.b.type, matrices_b(problem) * job.stride_b);
    job.c = numbers(problem.c.type, matrices * job.stride_c);
    job.bias = numbers(problem.c.type, problem.batch * problem.n);
    job.aux = numbers(problem.c.type, matrices * problem.m * problem.n);
    job.on_a = on_device(job.a), job.on_b = on_device(job.b), job.on_c = on_device(job.c);
    job.on_bias = on_device(job.bias), job.on_aux = on_device(job.aux);
    job.on_rows = DeviceBuffer(*device, problem.batch * 4);
    set_rows(job, some_rows(problem));
    return job;
  }
  void set_rows(Job& job, std::vector<std::int32_t> rows) {
    job.group_rows = std::move(rows);
    device->copy_to_device(job.on_rows.data(), job.group_rows.data(),
                           std::int64_t(job.group_rows.size()) * 4, nullptr);
    device->synchronize(nullptr);
  }

  struct Bound {
    Call call;
    std::vector<EpilogueOperand> operands;
  };
  static Bound bound(const Job& job) {
    Bound made;
    Call& call = made.call;
    call.a = job.on_a.data(), call.b = job.on_b.data(), call.c = job.on_c.data();
    call.lda = job.lda, call.ldb = job.ldb, call.ldc = job.ldc;
    call.stride_a = job.stride_a, call.stride_b = job.stride_b, call.stride_c = job.stride_c;
    call.alpha = job.alpha, call.beta = job.beta;
    call.group_rows = static_cast<const std::int32_t*>(job.on_rows.data());
    if (job.problem.epilogue) {
      // "x = acc + bias[j]; aux[i,j] = x; ..."
      made.operands = {{job.on_bias.data(), job.problem.n, job.problem.n, 0},
                       {job.on_aux.data(), job.problem.n, job.problem.m * job.problem.n, 0}};
      call.operands = made.operands;
    }
    return made;
  }

  /// C and aux by definition, from what they are before the call.
  static void expect(const Job& job, Bytes& c, Bytes& aux) {
    const Problem& p = job.problem;
    c = job.c, aux = job.aux;
    const auto element = [](const Bytes& bytes, DType type, std::int64_t at) {
      return to_double(type, bytes.data() + bytes_of(type, at));
    };
    const std::vector<RowRange> ranges = row_ranges(p, job.group_rows.data());
    const bool by_depth = p.grouping == Grouping::depth;
    for (std::int64_t g = 0; g < p.batch; ++g) {
      const auto of = [g](std::int64_t matrices) { return matrices == 1 ? 0 : g; };
      const RowRange& range = ranges[std::size_t(g)];
      const RowRange rows = by_depth ? RowRange{0, p.m} : range,
                     steps = by_depth ? range : RowRange{0, p.k};
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (std::int64_t q = steps.begin; q < steps.end; ++q)
            sum += element(job.a, p.a.type,
                           of(matrices_a(p)) * job.stride_a +
                               (p.a.transposed ? q * job.lda + i : i * job.lda + q)) *
                   element(job.b, p.b.type,
                           of(matrices_b(p)) * job.stride_b +
                               (p.b.transposed ? j * job.ldb + q : q * job.ldb + j));
          const std::int64_t matrix = of(matrices_c(p)),
                             at = matrix * job.stride_c + i * job.ldc + j;
          double value =
              job.alpha * sum + (job.beta == 0 ? 0 : job.beta * element(job.c, p.c.type, at));
          if (p.epilogue) {
            value += element(job.bias, p.c.type, g * p.n + j);
            from_double(p.c.type, value,
                        aux.data() + bytes_of(p.c.type, (matrix * p.m + i) * p.n + j));
            value = std::max(value, 0.0);
          }
          from_double(p.c.type, value, c.data() + bytes_of(p.c.type, at));
        }
    }
  }
  Bytes downloaded(const DeviceBuffer& from) {
    Bytes bytes(std::size_t(from.bytes()));
    device->copy_to_host(bytes.data(), from.data(), from.bytes(), nullptr);
    device->synchronize(nullptr);
    return bytes;
  }
  static std::string difference(DType type, const Bytes& got, const Bytes& expected) {
    for (std::int64_t at = 0; at < std::int64_t(got.size()); at += bytes_of(type)) {
      const double is = to_double(type, got.data() + at),
                   should_be = to_double(type, expected.data() + at);
      if (is != should_be)
        return "element " + std::to_string(at / bytes_of(type)) + " is " + std::to_string(is) +
               " instead of " + std::to_string(should_be);
    }
    return "";
  }
  void expect_right(const Job& job, const std::string& what) {
    Bytes c, aux;
    expect(job, c, aux);
    ASSERT_EQ(difference(job.problem.c.type, downloaded(job.on_c), c), "")
        << to_string(job.problem) << " " << what;
    ASSERT_EQ(difference(job.problem.c.type, downloaded(job.on_aux), aux), "")
        << "aux of " << to_string(job.problem) << " " << what;
  }
  void check(Matmul& matmul, const Problem& problem, std::int64_t extra,
             const std::string& what = "") {
    Job job = job_of(problem, extra);
    matmul(problem, bound(job).call);
    device->synchronize(nullptr);
    expect_right(job, what);
  }

  /// Every kind of product, as far as this device has it.
  void check_every_kind(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups) {
    Matmul matmul(options);
    int nth = 0, checked = 0;
    for (const ProductKind& kind : test::whole_byte_kinds()) {
      const bool has_kind =
          !is_unsupported(matmul, test::with_kind(test::make_problem(Layout::nn, m, n, k), kind));
      for (const Grouping grouping : {Grouping::rows, Grouping::counts, Grouping::depth}) {
        const Layout layout = grouping == Grouping::depth ? Layout::tn : kLayouts[nth % 4];
        Problem problem = problem_of(kind, layout, grouping, m, n, k, groups);
        ++nth;
        if (is_unsupported(matmul, problem)) {
          EXPECT_FALSE(has_kind) << to_string(problem);
          continue;
        }
        if (!is_integer(problem.accumulator) && nth % 3 == 0) set_epilogue(problem, epilogue_);
        check(matmul, problem, nth % 2);
        ++checked;
      }
    }
    EXPECT_GE(checked, 18);
  }
  /// Random candidates of a template, each in a graph that is replayed with other numbers of rows.
  void check_random_winners(const char* name, DType type, int count, std::int64_t groups) {
    const ProductKind& kind = *find_product_kind(type, type, MathMode::strict);
    for (int i = 0; i < count; ++i) {
      Problem problem =
          problem_of(kind, i % 4 == 2 ? Layout::tn : kLayouts[(i + i / 4) % 4],
                     std::array{Grouping::rows, Grouping::counts, Grouping::depth,
                                Grouping::rows}[std::size_t(i % 4)],
                     100 + 8 * std::int64_t(random_() % 30), 8 * (1 + std::int64_t(random_() % 20)),
                     8 * (1 + std::int64_t(random_() % 12)), groups);
      if (i % 2 == 0) set_epilogue(problem, epilogue_);
      const SearchSpace space(problem, device->info(), {&find_template(name)});
      const auto drawn = space.random(random_, 20000);
      if (!drawn) continue;
      ++random_winners_;
      std::filesystem::remove(options.database);
      Matmul matmul = with_winner(problem, *drawn);
      expect_served(matmul, problem, *drawn);
      ASSERT_NO_FATAL_FAILURE(
          check_replayed(matmul, problem, device->info().target.host ? 1 : 2, to_string(*drawn)));
    }
  }
  /// Numbers outside of A, and ends before earlier ones: no row outside of C is written, and none
  /// by two products. Only a device whose memory the host does not see takes them.
  void check_bad_numbers(const ProductKind& kind) {
    Matmul matmul(options);
    constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
    for (const Grouping grouping : {Grouping::rows, Grouping::counts, Grouping::depth}) {
      const Layout layout = grouping == Grouping::depth ? Layout::tn : Layout::nt;
      Job job = job_of(problem_of(kind, layout, grouping, 200, 72, 64, 40), 1);
      for (int turn = 0; turn < 4; ++turn) {
        std::vector<std::int32_t> rows(40);
        for (std::int32_t& number : rows) {
          number = std::int32_t(random_() % 300) - 50;
          if (random_() % 8 == 0) number = random_() % 2 == 0 ? most : -most - 1;
        }
        set_rows(job, std::move(rows));
        device->copy_to_device(job.on_c.data(), job.c.data(), std::int64_t(job.c.size()), nullptr);
        matmul(job.problem, bound(job).call);
        device->synchronize(nullptr);
        expect_right(job, "bad numbers, turn " + std::to_string(turn));
      }
    }
  }

  /// Each row of an invariant product has the bits of a plain product of this row alone.
  void check_invariant_rows(DType type, Grouping grouping, std::int64_t m, std::int64_t n,
                            std::int64_t k) {
    Problem problem = problem_of(*find_product_kind(type, type, MathMode::strict), Layout::nt,
                                 grouping, m, n, k, 3);
    Problem one = problem;
    one.grouping = Grouping::none;
    one.batch = one.m = 1;
    set_invariant(problem), set_invariant(one);
    Matmul matmul(options);
    EXPECT_EQ(matmul.kept_order(problem), matmul.kept_order(one));
    Job job = job_of(problem, 0);
    std::normal_distribution<float> normal;
    for (Bytes* bytes : {&job.a, &job.b})
      for (std::int64_t at = 0; at < std::int64_t(bytes->size()); at += bytes_of(type))
        from_double(type, normal(random_), bytes->data() + at);
    job.on_a = on_device(job.a), job.on_b = on_device(job.b);
    job.alpha = 1, job.beta = 0;
    for (int turn = 0; turn < 3; ++turn) {
      set_rows(job, some_rows(problem));
      matmul(problem, bound(job).call);
      const Bytes c = downloaded(job.on_c);
      const std::vector<RowRange> ranges = row_ranges(problem, job.group_rows.data());
      for (std::int64_t product = 0; product < 3; ++product)
        for (std::int64_t row = ranges[std::size_t(product)].begin;
             row < ranges[std::size_t(product)].end; row += 1 + row / 8) {
          const std::int64_t of_all = row + (grouping == Grouping::counts ? product * m : 0);
          Bytes alone(std::size_t(bytes_of(type, n)));
          const DeviceBuffer to = on_device(alone);
          Call call = bound(job).call;
          call.group_rows = nullptr;
          call.a =
              static_cast<const std::byte*>(job.on_a.data()) + bytes_of(type, of_all * job.lda);
          call.b = static_cast<const std::byte*>(job.on_b.data()) +
                   bytes_of(type, product * job.stride_b);
          call.c = to.data();
          matmul(one, call);
          alone = downloaded(to);
          ASSERT_EQ(
              std::memcmp(alone.data(), c.data() + bytes_of(type, of_all * job.ldc), alone.size()),
              0)
              << to_string(problem) << ", product " << product << ", row " << row;
        }
    }
  }

  /// A graph, replayed with other numbers of rows.
  void check_replayed(Matmul& matmul, const Problem& problem, int replays,
                      const std::string& what = "") {
    Job job = job_of(problem, 0);
    const Stream stream = device->create_stream();
    {
      matmul.prepare(problem);
      Bound made = bound(job);
      made.call.stream = stream;
      const auto graph = device->capture(stream, [&] { matmul(problem, made.call); });
      for (int i = 0; i < replays; ++i) {
        set_rows(job, some_rows(problem));
        device->copy_to_device(job.on_c.data(), job.c.data(), std::int64_t(job.c.size()), nullptr);
        device->copy_to_device(job.on_aux.data(), job.aux.data(), std::int64_t(job.aux.size()),
                               nullptr);
        device->synchronize(nullptr);
        graph->launch(stream);
        device->synchronize(stream);
        expect_right(job, what + " replay " + std::to_string(i));
      }
    }
    device->destroy_stream(stream);
  }

  int random_winners_ = 0;  ///< that were checked
  const Epilogue epilogue_{"x = acc + bias[j]; aux[i,j] = x; relu(x)"};
  std::mt19937_64 random_{7};
};

}  // namespace tilewise::test
