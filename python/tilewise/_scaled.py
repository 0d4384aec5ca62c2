"""Products of scaled 8-bit floats, with the meaning of torch._scaled_mm."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from . import torch as _operators

_library = torch.library.Library("tilewise", "FRAGMENT")
_library.define("scaled_mm(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias, Tensor? scale_result, "
                "ScalarType out_dtype, bool use_fast_accum) -> Tensor")


def _scale(name: str, scale: Tensor, along: tuple[int, int]) -> tuple[str, Tensor]:
    """Its name with an index, and the scale as the epilogue reads it. along: the shape of one for each row (column)."""
    if scale.numel() == 1:
        return name, scale.reshape(()).float()
    if tuple(scale.shape) == along:
        return name + ("[i]" if along[1] == 1 else "[j]"), scale.reshape(-1).float()
    raise ValueError(f"{name} has the shape {tuple(scale.shape)}; it has one element, or the shape {along}")


def _checked(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor],
             scale_result: Optional[Tensor]) -> tuple[str, dict[str, Tensor]]:
    """The epilogue and its operands."""
    kinds = (torch.float8_e4m3fn, torch.float8_e5m2)
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype not in kinds or b.dtype != a.dtype:
        raise ValueError(f"scaled_mm takes (m, k) and (k, n) of one 8-bit float, not {tuple(a.shape)} of {a.dtype} and "
                         f"{tuple(b.shape)} of {b.dtype}")
    of_a, first = _scale("scale_a", scale_a, (a.shape[0], 1))
    of_b, second = _scale("scale_b", scale_b, (1, b.shape[1]))
    text, operands = f"acc * {of_a} * {of_b}", {"scale_a": first, "scale_b": second}
    if bias is not None:
        if tuple(bias.shape) != (b.shape[1],):
            raise ValueError(f"bias has the shape {tuple(bias.shape)}; it is ({b.shape[1]},)")
        text, operands["bias"] = text + " + bias[j]", bias.contiguous()
    if scale_result is not None:
        if scale_result.numel() != 1:
            raise ValueError(f"scale_result has the shape {tuple(scale_result.shape)}; it has one element")
        text, operands["scale_result"] = f"({text}) * scale_result", scale_result.reshape(()).float()
    return text, operands


def _now(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor], scale_result: Optional[Tensor],
         out_dtype: torch.dtype, use_fast_accum: bool) -> Tensor:
    a, b, scale_a, scale_b, bias, scale_result = _operators._detached(a, b, scale_a, scale_b, bias, scale_result)
    text, operands = _checked(a, b, scale_a, scale_b, bias, scale_result)
    if _operators._by_torch(a):
        return _operators._epilogue_by_torch(a.float() @ b.float(), out_dtype, text, operands, {})
    out = a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)
    return _operators._multiply(a, b, "fast" if use_fast_accum else "strict", out, epilogue=text, **operands)


for _key in ("CPU", "CUDA"):
    _library.impl("scaled_mm", _now, _key)


@torch.library.register_fake("tilewise::scaled_mm")
def _fake(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor], scale_result: Optional[Tensor],
          out_dtype: torch.dtype, use_fast_accum: bool) -> Tensor:
    _checked(a, b, scale_a, scale_b, bias, scale_result)
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)


def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor] = None,
              scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
              use_fast_accum: bool = False) -> Tensor:
    """torch._scaled_mm: (mat_a scale_a) (mat_b scale_b) + bias of 8-bit floats, by one kernel. No derivative.

    mat_a (m, k) and mat_b (k, n) have one type, e4m3 or e5m2, in any layout. A scale has one element, or one for each row of
    mat_a (m, 1), or one for each column of mat_b (1, n), of any type that float32 holds. bias: (n). scale_result: one
    element, a factor of the result. out_dtype: bfloat16, float16, float32, or mat_a's (None), which saturates.
    use_fast_accum: sums without promotion. torch.compile keeps it as one operator. Raises Error, ValueError.
    """
    return torch.ops.tilewise.scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype or mat_a.dtype, use_fast_accum)
