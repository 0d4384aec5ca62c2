#pragma once
// Rows of invariant products: equal bits in every batch, form of a call, and stored winner.
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "templates/space/search_space.hpp"
#include "tests/matmul/served_checks.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/sum_order.hpp"

namespace tilewise::test {

struct InvariantTest : Served {
  explicit InvariantTest(const std::string& name) : Served(name) {}

  using Bytes = std::vector<std::byte>;

  Problem problem_of(std::int64_t m) const {
    Problem problem =
        typed_problem(b_transposed_ ? Layout::nt : Layout::nn, m, n_, k_, type_, result_, math_);
    if (with_epilogue_) set_epilogue(problem, epilogue_);
    set_invariant(problem);
    return problem;
  }

  /// Random operands: A has `rows` rows.
  void make(std::int64_t rows, std::int64_t n, std::int64_t k, DType type, DType result,
            MathMode math, bool b_transposed) {
    rows_ = rows, n_ = n, k_ = k, type_ = type, result_ = result, math_ = math;
    b_transposed_ = b_transposed;
    std::normal_distribution<> normal;
    for (auto& [matrix, count] : {std::pair<Bytes*, std::int64_t>{&a_, rows * k}, {&b_, n * k}}) {
      matrix->resize(static_cast<std::size_t>(bytes_of(type, count)));
      for (std::size_t at = 0; at < matrix->size(); at += static_cast<std::size_t>(bytes_of(type)))
        from_double(type, normal(random_), matrix->data() + at);
    }
    on_b_.emplace(uploaded(b_));
    // Of the epilogue: of rows, columns and elements.
    for (auto& [operand, count] :
         {std::pair<Bytes*, std::int64_t>{&scale_, rows}, {&bias_, n}, {&residual_, rows * n}}) {
      operand->resize(static_cast<std::size_t>(bytes_of(result, count)));
      for (std::size_t at = 0; at < operand->size();
           at += static_cast<std::size_t>(bytes_of(result)))
        from_double(result, normal(random_), operand->data() + at);
    }
  }

  /// Stores a random candidate of the kept order for each of some m, and of any order for the plain
  /// product: what must serve, and what must not.
  void store_random_winners(const std::vector<std::int64_t>& all_m, const std::string& order) {
    Database database = Database::open(options.database);
    const auto store = [&](const Problem& problem) {
      const SearchSpace space(problem, device->info(), select_templates());
      const auto drawn = space.random(random_, 20000);
      if (!drawn) return;
      Record record;
      record.problem = problem;
      record.candidate = *drawn;
      record.gpu = gpu_key(device->info());
      record.source_hash = "0123";
      record.launch_revision = launch_revision(find_template(drawn->kernel_template));
      record.measurement.emplace().median_us = 1 + double(random_() % 100);
      database.set_winner(database.add(record));
      ++stored_;
    };
    for (const std::int64_t m : all_m) {
      Problem problem = problem_of(m);
      problem.order = nullptr;
      store(problem);
      set_order(problem, order);
      store(problem);
    }
  }

  /// The rows `first` to first + m - 1 of C, by a call of a random form.
  Bytes rows_of(Matmul& matmul, std::int64_t first, std::int64_t m, bool plain = false) {
    const auto below = [&](std::int64_t count) {
      return plain ? 0 : static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
    };
    const std::int64_t batch = m % 3 == 0 && below(3) == 1 ? 3 : 1, each = m / batch;
    Problem problem = problem_of(each);
    problem.batch = batch;
    const bool transposed = below(3) == 1;
    set_layout(problem, transposed ? (b_transposed_ ? Layout::tt : Layout::tn)
                                   : (b_transposed_ ? Layout::nt : Layout::nn));
    const std::int64_t lda = min_lda(problem) + below(3), ldc = n_ + below(3);
    const std::int64_t skipped_a = below(4), skipped_c = below(4);  // elements before A and C
    const std::int64_t of_a = (transposed ? k_ : each) * lda, of_c = each * ldc;
    const std::int64_t width = bytes_of(type_), out = bytes_of(result_);
    Bytes a(static_cast<std::size_t>((skipped_a + batch * of_a) * width)),
        c(static_cast<std::size_t>((skipped_c + batch * of_c) * out));
    for (std::int64_t row = 0; row < m; ++row)
      for (std::int64_t l = 0; l < k_; ++l) {
        const std::int64_t i = row % each, place = transposed ? l * lda + i : i * lda + l;
        std::memcpy(a.data() + (skipped_a + row / each * of_a + place) * width,
                    a_.data() + ((first + row) * k_ + l) * width, static_cast<std::size_t>(width));
      }
    const DeviceBuffer on_a = uploaded(a), on_c(*device, static_cast<std::int64_t>(c.size()));
    Call call;
    call.a = static_cast<std::byte*>(on_a.data()) + skipped_a * width;
    call.b = on_b_->data();
    call.c = static_cast<std::byte*>(on_c.data()) + skipped_c * out;
    call.lda = lda, call.ldb = min_ldb(problem), call.ldc = ldc;
    call.stride_a = of_a, call.stride_b = 0, call.stride_c = of_c;
    // The rows that this product has.
    const auto part = [&](const Bytes& of, std::int64_t row) {
      return uploaded(Bytes(of.begin() + first * row * out, of.begin() + (first + m) * row * out));
    };
    const DeviceBuffer scale = part(scale_, 1), bias = uploaded(bias_),
                       residual = part(residual_, n_);
    std::array<EpilogueOperand, 3> operands;
    operands[epilogue_.slot("scale")] = {scale.data(), 0, each};
    operands[epilogue_.slot("bias")] = {bias.data(), 0, 0};
    operands[epilogue_.slot("residual")] = {residual.data(), n_, each * n_};
    if (with_epilogue_) call.operands = operands;
    PackedOperand packed;
    if (batch == 1 && below(3) == 1) {
      set_alignment(problem, natural_alignment(problem));
      packed = matmul.pack_b(problem, call.b, call.ldb);
      call.packed_b = &packed;
    }
    matmul(problem, call);
    device->synchronize(nullptr);
    device->copy_to_host(c.data(), on_c.data(), on_c.bytes(), nullptr);
    device->synchronize(nullptr);
    forms_.insert(std::string(to_string(layout_of(problem))) + (batch > 1 ? " batch" : "") +
                  (call.packed_b ? " packed" : ""));
    Bytes rows;
    for (std::int64_t row = 0; row < m; ++row) {
      const std::byte* begin = c.data() + (skipped_c + row / each * of_c + row % each * ldc) * out;
      rows.insert(rows.end(), begin, begin + n_ * out);
    }
    return rows;
  }

  /// Compares random runs of rows in random forms with one product of all rows.
  void check_rows(Matmul& matmul, int products) {
    const Bytes all = rows_of(matmul, 0, rows_, true);
    const std::int64_t row_bytes = n_ * bytes_of(result_);
    for (int i = 0; i < products; ++i) {
      const auto below = [&](std::int64_t count) {
        return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
      };
      // Few rows as often as many.
      const std::int64_t most = i % 2 ? std::min<std::int64_t>(rows_, 24) : rows_;
      const std::int64_t m = 1 + below(most), first = below(rows_ - m + 1);
      const Bytes some = rows_of(matmul, first, m);
      ASSERT_EQ(std::memcmp(some.data(), all.data() + first * row_bytes, some.size()), 0)
          << m << " rows from " << first << " on, of " << to_string(problem_of(m));
    }
  }

  DeviceBuffer uploaded(const Bytes& bytes) {
    DeviceBuffer buffer(*device, static_cast<std::int64_t>(bytes.size()));
    device->copy_to_device(buffer.data(), bytes.data(), buffer.bytes(), nullptr);
    device->synchronize(nullptr);
    return buffer;
  }

  std::mt19937_64 random_{17};
  std::int64_t rows_ = 0, n_ = 0, k_ = 0;
  DType type_ = DType::f32, result_ = DType::f32;
  MathMode math_ = MathMode::strict;
  bool b_transposed_ = true, with_epilogue_ = false;
  const Epilogue epilogue_{"gelu(acc * scale[i] + bias[j]) + residual[i,j]"};
  Bytes a_, b_, scale_, bias_, residual_;
  std::optional<DeviceBuffer> on_b_;
  int stored_ = 0;
  std::set<std::string> forms_;  ///< of calls
};

}  // namespace tilewise::test
