// Kernels of every template with an epilogue: each element of C has its own operands, and what is
// written or summed besides C lies in its place.
#include <cstdlib>

#include "device/cpu/cpu.hpp"
#include "matmul/check_call.hpp"
#include "matmul/executable.hpp"
#include "templates/space/search_space.hpp"
#include "tests/matmul/pointwise_checks.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise::pointwise_places_test {
namespace {

constexpr const char* kText =
    "x = acc * s + bias:f32[j]; aux[i,j] = x; gradient:f32[j] = sum(x);"
    "x - by_row[i] + residual[i,j] * scale - gate[i,j]";
// Configurations of a template, besides its default.
const int kRandom = std::getenv("TILEWISE_FULL") ? 8 : 2;

struct Kind {
  DType operand, c;
  MathMode math = MathMode::strict;
  bool odd = false;  // C's rows are not aligned
};

struct PointwisePlaces : test::OnDevice {
  PointwisePlaces() : OnDevice("host:sm_90a") {}
  void SetUp() override {
    OnDevice::SetUp();
    info_ = device_->info();
    info_.multiprocessors = 2;  // on any machine
  }

  /// The matrices, vectors or scalars of all products of a batch.
  struct Values {
    std::int64_t rows, columns, ld, stride, batch;
    DType type;
    std::vector<std::byte> bytes;
    double at(std::int64_t product, std::int64_t row, std::int64_t column) const {
      return to_double(type, bytes.data() + place(product, row, column));
    }
    void set(std::int64_t product, std::int64_t row, std::int64_t column, double value) {
      from_double(type, value, bytes.data() + place(product, row, column));
    }
    std::int64_t place(std::int64_t product, std::int64_t row, std::int64_t column) const {
      return (product * stride + row * ld + column) * bytes_of(type);
    }
  };
  /// Small whole numbers, also in the gap after each row and in a row after each matrix. odd: rows
  /// are not aligned. shared: all products have one.
  Values make(DType type, std::int64_t rows, std::int64_t columns, std::int64_t batch,
              bool odd = false, bool shared = false) {
    const std::int64_t ld = odd ? columns | 1 : round_up(columns, std::int64_t{16}) + 16;
    const std::int64_t size = (rows + 1) * ld, matrices = shared ? 1 : batch;
    Values made{rows, columns, ld, shared ? 0 : size, batch, type, {}};
    made.bytes.resize(static_cast<std::size_t>(matrices * size * bytes_of(type)));
    for (std::int64_t i = 0; i < matrices * size; ++i)
      from_double(type, double(int(random_() % 7) - 3), made.bytes.data() + i * bytes_of(type));
    return made;
  }
  DeviceBuffer on_device(const Values& values) {
    return uploaded(values.bytes.data(), static_cast<std::int64_t>(values.bytes.size()));
  }

  void check(const KernelTemplate& kernel, const Problem& problem, const Configuration& c) {
    SCOPED_TRACE(kernel.name + " " + c.text() + " for " + to_string(problem));
    const Epilogue named(kText);
    const EpilogueForm& epilogue = *problem.epilogue;
    const bool scalar_is_read = random_() % 2 == 0;
    const double beta = way_.beta;
    const Values a = make(problem.a.type, rows_a(problem), min_lda(problem), problem.batch),
                 b = make(problem.b.type, rows_b(problem), min_ldb(problem), problem.batch),
                 before = make(problem.c.type, problem.m, problem.n, problem.batch,
                               problem.c.alignment < 16);
    std::vector<Values> operands;
    for (const EpilogueSlot& slot : epilogue.operands) {
      const bool matrix = slot.over == EpilogueOver::elements;
      const bool all = slot.over == EpilogueOver::all;
      operands.push_back(make(type_of(slot, problem.c.type), matrix ? problem.m : 1,
                              slot.over == EpilogueOver::rows ? problem.m : (all ? 1 : problem.n),
                              problem.batch, way_.odd,
                              way_.shared && slot.use == EpilogueUse::read && !all));
    }
    const DeviceBuffer on_a = on_device(a), on_b = on_device(b), on_c = on_device(before);
    std::vector<DeviceBuffer> on_operands;
    std::vector<EpilogueOperand> bound;
    for (std::size_t slot = 0; slot < operands.size(); ++slot) {
      Values& values = operands[slot];
      on_operands.push_back(on_device(values));
      const double value = values.at(0, 0, 0);
      if (way_.in_place && named.names()[slot] == "residual") {
        values = before;
        bound.push_back({on_c.data(), values.ld, values.stride, value});
        continue;
      }
      bound.push_back({on_operands.back().data(), values.ld, values.stride, value});
      if (epilogue.operands[slot].over != EpilogueOver::all || scalar_is_read) continue;
      bound.back().data = nullptr;  // one for all products
      for (std::int64_t product = 1; product < problem.batch; ++product)
        values.set(product, 0, 0, value);
    }
    const Plan plan = kernel.plan(problem, with_added(kernel, c), info_);
    std::string log;
    const std::vector<Image> images = images_of(plan, log);
    ASSERT_FALSE(images.empty()) << log;
    const Executable executable(*device_, problem, plan, images);
    Call call;
    call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
    call.lda = a.ld, call.ldb = b.ld, call.ldc = before.ld;
    call.stride_a = a.stride, call.stride_b = b.stride, call.stride_c = before.stride;
    call.alpha = 2, call.beta = beta;
    call.operands = bound;
    check_call(problem, call);
    executable.launch(call);
    Values after = before;
    std::vector<Values> found = operands;
    const auto download = [&](Values& to, const DeviceBuffer& from) {
      device_->copy_to_host(to.bytes.data(), from.data(), from.bytes(), nullptr);
    };
    download(after, on_c);
    for (std::size_t slot = 0; slot < found.size(); ++slot)
      download(found[slot], on_operands[slot]);
    device_->synchronize(nullptr);
    const std::size_t aux = named.slot("aux"), gradient = named.slot("gradient");
    Values wanted = before;
    for (std::int64_t product = 0; product < problem.batch; ++product) {
      std::vector<double> sums(static_cast<std::size_t>(problem.n));
      for (std::int64_t i = 0; i < problem.m; ++i)
        for (std::int64_t j = 0; j < problem.n; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < problem.k; ++k)
            sum += (problem.a.transposed ? a.at(product, k, i) : a.at(product, i, k)) *
                   (problem.b.transposed ? b.at(product, j, k) : b.at(product, k, j));
          std::vector<double> values, results;
          for (std::size_t slot = 0; slot < operands.size(); ++slot) {
            const EpilogueOver over = epilogue.operands[slot].over;
            const bool by_i = over == EpilogueOver::elements;
            values.push_back(operands[slot].at(
                product, by_i ? i : 0,
                over == EpilogueOver::rows ? i : (over == EpilogueOver::all ? 0 : j)));
          }
          wanted.set(
              product, i, j,
              evaluate(epilogue, 2 * sum + beta * before.at(product, i, j), values, &results));
          operands[aux].set(product, i, j, results[aux]);
          sums[static_cast<std::size_t>(j)] += results[gradient];
        }
      for (std::int64_t j = 0; j < problem.n; ++j)
        operands[gradient].set(product, 0, j, sums[static_cast<std::size_t>(j)]);
    }
    expect_equal(after, wanted, "C");
    for (std::size_t slot = 0; slot < found.size(); ++slot)
      if (bound[slot].data && bound[slot].data != on_c.data())
        expect_equal(found[slot], operands[slot], named.names()[slot].c_str());
  }
  /// Also in the gaps between rows and after them.
  static void expect_equal(const Values& found, const Values& wanted, const char* name) {
    for (std::int64_t product = 0; product < wanted.batch; ++product)
      for (std::int64_t i = 0; i <= wanted.rows; ++i)
        for (std::int64_t j = 0; j < wanted.ld; ++j)
          ASSERT_EQ(found.at(product, i, j), wanted.at(product, i, j))
              << name << " of product " << product << " at " << i << ", " << j;
  }

  static Problem problem_of(const Kind& kind, std::int64_t m, std::int64_t n, std::int64_t k,
                            std::int64_t batch) {
    Problem made = typed_problem(Layout::nt, m, n, k, kind.operand, kind.c, kind.math, batch);
    set_alignment(made, {16, 16, kind.odd ? bytes_of(kind.c) : 16});
    set_epilogue(made, Epilogue(kText));
    return made;
  }

  /// The template's default with other values.
  void check_with(const std::string& name, const Kind& kind, std::int64_t batch,
                  const Configuration& values, std::int64_t m = 45) {
    const KernelTemplate& kernel = find_template(name);
    const Problem problem = problem_of(kind, m, 152, 128, batch);
    Configuration c = kernel.default_configuration(problem, info_);
    for (const auto& [parameter, value] : values.values()) c.set(parameter, value);
    ASSERT_EQ(rejection(kernel, problem, c, info_), "");
    check(kernel, problem, c);
  }

  /// The template's default and some random configurations, for one product and for a batch.
  void check_template(const std::string& name, const Kind& kind, std::int64_t m, std::int64_t n,
                      std::int64_t k) {
    const KernelTemplate& kernel = find_template(name);
    int supported = 0;
    for (const std::int64_t batch : {1, 2}) {
      const Problem problem = problem_of(kind, m, n, k, batch);
      if (!kernel.supports(problem, info_)) continue;
      ++supported;
      const SearchSpace space(problem, info_, {&kernel});
      std::vector<Configuration> configurations;
      if (const Configuration of = kernel.default_configuration(problem, info_);
          rejection(kernel, problem, of, info_).empty())
        configurations.push_back(of);
      for (int i = 0; i < kRandom; ++i)
        if (const auto drawn = space.random_of(kernel, random_, 100000))
          configurations.push_back(drawn->configuration);
      EXPECT_FALSE(configurations.empty()) << name;
      for (const Configuration& c : configurations) {
        way_ = {random_() % 2 == 0 ? 3.0 : 0.0, random_() % 2 == 0, random_() % 2 == 0};
        check(kernel, problem, c);
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(supported, 0) << name;
  }

  /// How a call is made. odd: rows of the epilogue's matrices are not aligned; shared: all products
  /// of a batch have the same ones; in_place: the matrix `residual` is C.
  struct Way {
    double beta = 3;
    bool odd = false, shared = false, in_place = false;
  };
  Way way_;
  std::mt19937_64 random_{5};
  DeviceInfo info_;
};

constexpr Kind kF32{DType::f32, DType::f32}, kF64{DType::f64, DType::f64},
    kBf16{DType::bf16, DType::bf16}, kF16ToF32{DType::f16, DType::f32};

TEST_F(PointwisePlaces, OfNaive) { check_template("naive", kF64, 45, 37, 9); }
TEST_F(PointwisePlaces, OfTiled) { check_template("tiled", kF32, 45, 37, 9); }
TEST_F(PointwisePlaces, OfSmall) { check_template("small", kF32, 20, 12, 8); }
TEST_F(PointwisePlaces, OfSkinny) {
  check_template("skinny", kBf16, 3, 72, 40);
  check_template("skinny", kBf16, 72, 3, 40);
}
TEST_F(PointwisePlaces, OfSimt) { check_template("simt", kF32, 45, 70, 40); }
TEST_F(PointwisePlaces, OfMma) {
  check_template("mma", kBf16, 45, 70, 40);
  check_template("mma", kF16ToF32, 70, 45, 64);
  check_template("mma", {DType::i8, DType::i32}, 45, 70, 64);
}
TEST_F(PointwisePlaces, OfWgmma) {
  check_template("wgmma", kBf16, 80, 72, 80);
  check_template("wgmma", kF16ToF32, 70, 136, 64);
  check_template("wgmma", {DType::e4m3, DType::bf16}, 80, 72, 128);
  check_template("wgmma", {DType::i8, DType::i32}, 80, 72, 128);
}

// The reduce step, and the stream_k step beside kernels that store whole tiles themselves.
TEST_F(PointwisePlaces, OfSumsThatAStepAdds) {
  check_with("simt", kF32, 2, {{"SPLIT_K", 3}});
  check_with("mma", kBf16, 2, {{"SPLIT_K", 2}});
  check_with("wgmma", kF16ToF32, 2, {{"SPLIT_K", 2}, {"EPILOGUE", 0}, {"VECTOR_C", 1}});
  check_with("simt", kF32, 1, {{"STREAM_K", 1}});
  check_with("wgmma", kBf16, 1,
             {{"STREAM_K", 1},
              {"TILE_M", 64},
              {"TILE_N", 64},
              {"SWAP_AB", 0},
              {"EPILOGUE", 0},
              {"VECTOR_C", 1}});
}

// Sums over rows in two steps: of each 256 rows, then of their sums.
TEST_F(PointwisePlaces, OfManyRows) {
  check_with("simt", kF32, 2, {}, 600);
  check_with("mma", kBf16, 1, {{"SPLIT_K", 2}}, 513);
  check_with("tiled", kF64, 1, {}, 257);
}

// Stores that begin before the row or end after it: what they do not store is not written to aux.
TEST_F(PointwisePlaces, OfRowsAtAnyAlignment) {
  constexpr Kind odd{DType::bf16, DType::bf16, MathMode::strict, true};
  const Configuration tile{{"TILE_M", 64}, {"TILE_N", 64}, {"CONSUMERS", 1}};
  const auto with = [&](Configuration values) {
    for (const auto& [name, value] : tile.values()) values.set(name, value);
    return values;
  };
  check_with("mma", odd, 2, {{"EPILOGUE", 1}, {"VECTOR_C", 8}});
  check_with("wgmma", odd, 2, with({{"SWAP_AB", 0}, {"EPILOGUE", 1}, {"VECTOR_C", 8}}));
  check_with("wgmma", odd, 1, with({{"SWAP_AB", 1}, {"EPILOGUE", 1}, {"VECTOR_C", 8}}));
  for (const double beta : {3, 0}) {
    way_.beta = beta;
    check_with("wgmma", odd, 2, with({{"SWAP_AB", 0}, {"EPILOGUE", 3}, {"VECTOR_C", 1}}));
  }
  check_with("simt", {DType::f32, DType::f32, MathMode::strict, true}, 1, {{"STREAM_K", 1}});
}

// Schedules and exchanges that random configurations may miss.
TEST_F(PointwisePlaces, OfEverySchedule) {
  const auto tma = [](int swap, int consumers, int ping_pong, int cluster_n) {
    return Configuration{
        {"TILE_M", 64},           {"TILE_N", 64},           {"SWAP_AB", swap},
        {"EPILOGUE", 2},          {"VECTOR_C", 1},          {"STAGES", 3},
        {"CONSUMERS", consumers}, {"PING_PONG", ping_pong}, {"CLUSTER_N", cluster_n}};
  };
  constexpr Kind to_f32 = kF16ToF32;
  // TMA reads a matrix of the epilogue where beta is 0 and its rows are aligned.
  for (const Way& way : {Way{}, Way{0}, Way{0, true}, Way{0, false, true},
                         Way{3, false, false, true}, Way{0, false, false, true}}) {
    way_ = way;
    check_with("wgmma", to_f32, 2, tma(0, 1, 0, 2));
    check_with("wgmma", to_f32, 2, tma(1, 1, 0, 1));
    check_with("wgmma", kBf16, 2, tma(0, 2, 1, 1));
    check_with("wgmma", kBf16, 1, tma(1, 1, 0, 1));
  }
  way_ = {};
  check_with("mma", kBf16, 2, {{"SLICE_K", 2}});
  check_with("simt", kF32, 2, {{"SLICE_K", 2}, {"UNROLL", 8}});
}

}  // namespace
}  // namespace tilewise::pointwise_places_test
