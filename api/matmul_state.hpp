#pragma once
#include <utility>

#include "api/host_pointers/host_products.hpp"
#include "api/matmul_parts.hpp"
#include "matmul/serving.hpp"

namespace tilewise {

struct Matmul::State {
  explicit State(MatmulParts parts)
      : serving(std::move(static_cast<ServingParts&>(parts))), host_products(parts.host) {}
  Serving serving;             ///< owns the device
  HostProducts host_products;  ///< destroyed first: it holds device memory
};

}  // namespace tilewise
