#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "vocabulary/epilogue.hpp"

namespace tilewise {
namespace {

using Op = EpilogueOp;

/// -0 is less than 0, so that the order of the arguments changes no bit.
template <class T>
T smaller_of(T x, T y) {
  if (std::isnan(x) || std::isnan(y)) return x + y;
  return x < y || (x == y && std::signbit(x)) ? x : y;
}

template <class T>
T value_of(const EpilogueNode& node, T x, T y, T z) {
  const T one = T(1);
  switch (node.op) {
    case Op::negate:
      return -x;
    case Op::add:
      return x + y;
    case Op::subtract:
      return x - y;
    case Op::multiply:
      return x * y;
    case Op::divide:
      return x / y;
    case Op::minimum:
      return smaller_of(x, y);
    case Op::maximum:
      return -smaller_of(-x, -y);
    case Op::less:
      return T(x < y);
    case Op::less_or_equal:
      return T(x <= y);
    case Op::equal:
      return T(x == y);
    case Op::not_equal:
      return T(x != y);
    case Op::where:
      return x != T(0) ? y : z;
    case Op::absolute:
      return std::abs(x);
    case Op::square_root:
      return std::sqrt(x);
    case Op::reciprocal_root:
      return one / std::sqrt(x);
    case Op::exponential:
      return std::exp(x);
    case Op::logarithm:
      return std::log(x);
    case Op::hyperbolic_tangent:
      return std::tanh(x);
    case Op::error_function:
      return std::erf(x);
    case Op::sigmoid:
      return one / (one + std::exp(-x));
    case Op::silu:
      return x * (one / (one + std::exp(-x)));
    case Op::relu:
      return x < T(0) ? T(0) : x;
    case Op::gelu:
      return x * (T(0.5) * (one + std::erf(x * T(std::numbers::sqrt2 / 2))));
    case Op::gelu_tanh: {  // x (1 + tanh(y)) / 2 as x / (1 + exp(-2 y))
      const T slope = T(1.5957691216057308) + T(0.07135481627260025) * (x * x);  // 2 sqrt(2 / pi)
      return x * (one / (one + std::exp(-(x * slope))));
    }
    default:
      return T(0);
  }
}

}  // namespace

template <class T>
T evaluate(const EpilogueForm& epilogue, T sum_of_products, const std::vector<T>& values,
           std::vector<T>* results) {
  std::vector<T> of;
  for (const EpilogueNode& node : epilogue.nodes) {
    const auto x = [&](std::size_t nth) { return nth < node.x.size() ? of[node.x[nth]] : T(0); };
    if (node.op == Op::sum_of_products)
      of.push_back(sum_of_products);
    else if (node.op == Op::number)
      of.push_back(static_cast<T>(node.value));
    else if (node.op == Op::operand)
      of.push_back(values.at(node.slot));
    else
      of.push_back(value_of(node, x(0), x(1), x(2)));
  }
  if (results) {
    results->assign(epilogue.operands.size(), T(0));
    for (std::size_t slot = 0; slot < epilogue.operands.size(); ++slot)
      if (epilogue.operands[slot].use != EpilogueUse::read)
        (*results)[slot] = of[epilogue.operands[slot].node];
  }
  return of[epilogue.c];
}
template float evaluate(const EpilogueForm&, float, const std::vector<float>&, std::vector<float>*);
template double evaluate(const EpilogueForm&, double, const std::vector<double>&,
                         std::vector<double>*);

}  // namespace tilewise
