#pragma once
#include <memory>
#include <optional>

#include "api/host_pointers/host_plan.hpp"
#include "db/database.hpp"
#include "device/device.hpp"
#include "matmul/resolution.hpp"
#include "matmul/serving_parts.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"

namespace tilewise {

/// The parts of a Matmul, made from MatmulOptions. Tests and benchmarks construct their own.
struct MatmulParts : ServingParts {
  HostSettings host = {};  ///< settings of products on host pointers
};

/// The parts for these options, on an open device. A missing database becomes a note; an unreadable
/// unreadable one throws Error(database). `opened`: the database of the options, where it is open.
MatmulParts parts_for(std::unique_ptr<Device> device, const MatmulOptions& options,
                      std::optional<Database> opened = {});

Matmul make_matmul(MatmulParts parts);

/// Matmul::explain() with the candidate and the record.
Resolution resolution_of(const Matmul& matmul, const Problem& problem);

/// A C handle of a Matmul; tilewise_destroy() deletes it.
tilewise_matmul* make_handle(Matmul matmul);

}  // namespace tilewise
