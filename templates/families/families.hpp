#pragma once
#include "templates/kernel_template.hpp"

/// The catalog: a row for each kernel family. The folder families/NAME/ has the kernel NAME.cu and
/// the function NAME_template(), which returns the family's descriptor; families/emulated/ has the
/// steps around the kernel wgmma.cu of two families, `residues` and `halves`.
#define TILEWISE_FAMILIES(ROW) \
  ROW(wgmma)                   \
  ROW(mma)                     \
  ROW(residues) ROW(halves) ROW(small) ROW(narrow) ROW(simt) ROW(skinny) ROW(tiled) ROW(naive)

namespace tilewise {

#define TILEWISE_DECLARE(name) KernelTemplate name##_template();
TILEWISE_FAMILIES(TILEWISE_DECLARE)
#undef TILEWISE_DECLARE

/// Whether the problem is a row of product_kinds() whose A and B have one type, and its sizes are
/// valid.
bool has_one_operand_type(const Problem& problem);
/// Whether B has another type than A.
bool has_narrow_b(const Problem& problem);
/// f32 in, f32 out, strict or emulated, which strict serves; any batch.
bool supports_strict_f32(const Problem& problem, const DeviceInfo& device);
/// Every kind of product with strict math, and those of other modes that strict math serves; any
/// batch: it runs on the ordinary units of any GPU.
bool supports_any(const Problem& problem, const DeviceInfo& device);

}  // namespace tilewise
