#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/arrays.hpp"
#include "python/gil.hpp"
#include "python/options.hpp"
#include "python/product.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::python {

/// Warnings of a Matmul. Threads without the GIL add them; the calling thread issues them.
class Warnings {
 public:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
    any_ = true;
  }
  /// Requires the GIL.
  void issue() {
    if (!any_.load(std::memory_order_relaxed)) return;
    std::vector<std::string> texts;
    {
      const std::lock_guard lock(mutex_);
      texts.swap(texts_);
      any_ = false;
    }
    for (const std::string& text : texts) {
      const nanobind::str words = to_python(text);
      if (stay_at_the_end([&] {
            return PyErr_WarnFormat(PyExc_UserWarning, 2, "tilewise: %U", words.ptr());
          }) != 0)
        throw nanobind::python_error();
    }
  }

 private:
  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

struct Scalars {
  double alpha, beta;
};
struct Mode {
  std::string math;
  std::optional<double> accuracy;
  bool invariant = false;
};

/// A Matmul with its warnings.
class Multiplier {
 public:
  explicit Multiplier(MatmulOptions options) : options_(std::move(options)) {
    options_.warn = [this](const std::string& text) { warnings_.add(text); };
    const WithoutGil released;
    matmul_.emplace(options_);
  }

  bool on_host() const { return options_.device.rfind("host", 0) == 0; }

  /// `epilogue`: null, or that of the products, with its operands by slot.
  void multiply(const Array& a, const Array& b, const Array& out, Scalars scalars, const Mode& mode,
                StreamHandle stream, const PackedOperand* packed, const Epilogue* epilogue,
                const std::vector<GivenOperand>& operands) {
    std::vector<Product> products =
        products_of(a.view(), b.view(), out.view(), parse_math_mode(mode.math), scalars.alpha != 0,
                    epilogue, operands, mode.invariant);
    const bool by_copies = !on_host() && out.view().place == View::Place::host;
    {
      const WithoutGil released;
      for (Product& product : products) {
        if (mode.accuracy) {
          product.problem.math = mode_within(product.problem, *mode.accuracy);
          product.call.accuracy = std::min(*mode.accuracy, 1.0);
        }
        product.call.alpha = scalars.alpha, product.call.beta = scalars.beta;
        product.call.operands = product.operands;
        if (by_copies) {
          matmul_->host(product.problem, product.call);
        } else {
          if (packed) use_packed(product.call, *packed);
          product.call.stream = Stream(reinterpret_cast<void*>(stream.value_or(0)));
          (*matmul_)(product.problem, product.call);
        }
      }
    }
    warnings_.issue();
  }
  /// A grouped product (grouped.hpp).
  void multiply(Product product, Scalars scalars, StreamHandle stream) {
    {
      const WithoutGil released;
      product.call.alpha = scalars.alpha, product.call.beta = scalars.beta;
      product.call.operands = product.operands;
      product.call.stream = Stream(reinterpret_cast<void*>(stream.value_or(0)));
      (*matmul_)(product.problem, product.call);
    }
    warnings_.issue();
  }
  PackedOperand pack(const Problem& problem, const Array& b, std::int64_t leading,
                     StreamHandle stream) {
    PackedOperand made;
    {
      const WithoutGil released;
      made = matmul_->pack_b(problem, b.view().data, leading, 0,
                             Stream(reinterpret_cast<void*>(stream.value_or(0))));
    }
    warnings_.issue();
    return made;
  }
  void quantize(Quantization asked, StreamHandle stream) {
    {
      const WithoutGil released;
      asked.stream = Stream(reinterpret_cast<void*>(stream.value_or(0)));
      matmul_->quantize(asked);
    }
    warnings_.issue();
  }
  Match explain(const Problem& problem) {
    Match match;
    {
      const WithoutGil released;
      match = matmul_->explain(problem);
    }
    warnings_.issue();
    return match;
  }
  std::string fingerprint(const std::vector<Problem>& problems) {
    std::string digits;
    {
      const WithoutGil released;
      digits = matmul_->fingerprint(problems);
    }
    warnings_.issue();
    return digits;
  }
  void prepare(const Problem& problem, std::optional<std::int64_t> last_m) {
    {
      const WithoutGil released;
      if (last_m)
        matmul_->prepare_range(problem, *last_m);
      else
        matmul_->prepare(problem);
    }
    warnings_.issue();
  }

 private:
  static void use_packed(Call& call, const PackedOperand& packed) {
    if (call.b != packed.original())
      throw Error(ErrorKind::invalid_argument,
                  "out is transposed in memory, or b has leading dimensions: a packed b needs a "
                  "row-major out, and is "
                  "one matrix");
    call.packed_b = &packed;
  }

  /// Matmul::fastest_within(), which takes longer than a small product: once for each problem.
  MathMode mode_within(const Problem& problem, double accuracy) {
    const std::pair key{problem, accuracy};
    {
      const std::lock_guard lock(modes_mutex_);
      if (const auto known = modes_.find(key); known != modes_.end()) return known->second;
    }
    const MathMode mode = matmul_->fastest_within(problem, accuracy);
    const std::lock_guard lock(modes_mutex_);
    if (modes_.size() >= kMostModes) modes_.clear();
    modes_[key] = mode;
    return mode;
  }

  static constexpr std::size_t kMostModes = 10'000;
  MatmulOptions options_;
  Warnings warnings_;
  std::optional<Matmul> matmul_;
  std::mutex modes_mutex_;
  std::map<std::pair<Problem, double>, MathMode> modes_;  ///< guarded by modes_mutex_
};

/// The process's multipliers, one for each device, with the options of configure(). Guarded by the
/// GIL. Those that configure() replaces are kept, because captured graphs use their kernels.
struct Multipliers {
  MatmulOptions options;
  int generation = 0;  ///< of the options; making a multiplier releases the GIL
  std::map<std::string, std::shared_ptr<Multiplier>> of_device;
  std::vector<std::shared_ptr<Multiplier>> replaced;

  std::shared_ptr<Multiplier> at(const std::string& device) {
    for (;;) {
      if (const auto found = of_device.find(device); found != of_device.end()) return found->second;
      MatmulOptions own = options;
      own.device = device;
      const int begun = generation;
      auto made = std::make_shared<Multiplier>(std::move(own));
      if (begun == generation) return of_device.emplace(device, std::move(made)).first->second;
    }
  }
  void renew() {
    ++generation;
    for (auto& [device, multiplier] : of_device) replaced.push_back(std::move(multiplier));
    of_device.clear();
  }
};

}  // namespace tilewise::python
