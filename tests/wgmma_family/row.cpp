// wgmma's row of the catalog for the tests. The program's own catalog has it once it has run on a
// GPU.
#include "templates/kernel_template.hpp"

namespace tilewise {

KernelTemplate wgmma_template();

namespace {
const bool added = (add_template(wgmma_template()), true);
}
}  // namespace tilewise
