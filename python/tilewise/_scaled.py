"""Products of scaled 8-bit floats, with the meaning of torch._scaled_mm, and the rounding of activations to these."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from . import torch as _operators
from ._tilewise import quantize as _quantize

_library = torch.library.Library("tilewise", "FRAGMENT")
_library.define("scaled_mm(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias, Tensor? scale_result, "
                "ScalarType out_dtype, bool use_fast_accum) -> Tensor")
_library.define("quantize(Tensor x, ScalarType dtype) -> (Tensor, Tensor)")
_NUMBERS = (torch.float8_e4m3fn, torch.float8_e5m2)


def _scale(name: str, scale: Tensor, along: tuple[int, int]) -> tuple[str, Tensor]:
    """Its name with an index, and the scale as the epilogue reads it. along: the shape of one for each row (column)."""
    if scale.numel() == 1:
        return name, scale.reshape(()).float()
    if tuple(scale.shape) == along:
        return name + ("[i]" if along[1] == 1 else "[j]"), scale.reshape(-1).float()
    raise ValueError(f"{name} has the shape {tuple(scale.shape)}; it has one element, or the shape {along}")


def _block_scale(name: str, place: str, scale: Tensor) -> tuple[str, Tensor]:
    """A scale for each 128 steps of k, (places, k / 128), with an index in the order in which it lies in memory."""
    if scale.dtype != torch.float32:
        scale = scale.float()
    if scale.stride(0) == 1 and scale.stride(1) >= scale.shape[0]:
        return f"{name}[k/128,{place}]", scale.t()
    return f"{name}[{place},k/128]", scale.contiguous()


def _is(scale: Tensor, *shape: int) -> bool:
    return scale.dim() == len(shape) and all(size == wanted for size, wanted in zip(scale.shape, shape))


def _block_scales(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Optional[list[tuple[str, Tensor]]]:
    """The scales of blocks of k, if these are. Those of k up to 128 may be scales of rows and columns, too."""
    (m, k), n = a.shape, b.shape[1]
    blocks, tiles = (k + 127) // 128, (n + 127) // 128
    of_rows = scale_a.numel() == 1 or _is(scale_a, m, 1)
    if not _is(scale_a, m, blocks) or of_rows and (scale_b.numel() == 1 or _is(scale_b, 1, n)):
        return None
    if _is(scale_b, blocks, tiles):
        place = "j/128"
    elif _is(scale_b, blocks, n):
        place = "j"
    elif of_rows:
        return None
    elif scale_b.numel() == 1 or _is(scale_b, 1, n):
        return [_block_scale("scale_a", "i", scale_a)]
    else:
        raise ValueError(f"scale_b has the shape {tuple(scale_b.shape)}; with scales of blocks of k in scale_a, {(m, blocks)}, it has "
                         f"{(blocks, tiles)} or {(blocks, n)}")
    return [_block_scale("scale_a", "i", scale_a), _block_scale("scale_b", place, scale_b.t())]


def _spread(scale: Tensor, to: Tensor) -> Tensor:
    """A scale for each element of a matrix, from those of its blocks."""
    for dim in range(2):
        if scale.shape[dim] != to.shape[dim]:
            scale = scale.repeat_interleave(128, dim).narrow(dim, 0, to.shape[dim])
    return scale.float()


def _checked(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor],
             scale_result: Optional[Tensor]) -> tuple[str, dict[str, Tensor]]:
    """The epilogue and its operands."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype not in _NUMBERS or b.dtype != a.dtype:
        raise ValueError(f"scaled_mm takes (m, k) and (k, n) of one 8-bit float, not {tuple(a.shape)} of {a.dtype} and "
                         f"{tuple(b.shape)} of {b.dtype}")
    blocks = _block_scales(a, b, scale_a, scale_b)
    if blocks and len(blocks) == 2:
        (of_a, first), (of_b, second) = blocks
        text = f"acc({of_a} * {of_b})"
    elif blocks:
        (of_a, first), (of_b, second) = *blocks, _scale("scale_b", scale_b, (1, b.shape[1]))
        text = f"acc({of_a}) * {of_b}"
    else:
        of_a, first = _scale("scale_a", scale_a, (a.shape[0], 1))
        of_b, second = _scale("scale_b", scale_b, (1, b.shape[1]))
        text = f"acc * {of_a} * {of_b}"
    operands = {"scale_a": first, "scale_b": second}
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
    in_blocks = _block_scales(a, b, scale_a, scale_b) is not None
    if _operators._by_torch(a):
        left, right = a.float(), b.float()
        if in_blocks:
            whole = scale_b.numel() == 1 or _is(scale_b, 1, b.shape[1])
            left, right, one = left * _spread(scale_a, a), right * (scale_b.float() if whole else _spread(scale_b, b)), torch.ones(())
            text, operands = _checked(a, b, one, one, bias, scale_result)
        return _operators._epilogue_by_torch(left @ right, out_dtype, text, operands, {})
    out = a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)
    math = "fast" if use_fast_accum and not in_blocks else "strict"
    return _operators._multiply(a, b, math, out, epilogue=text, **operands)


for _key in ("CPU", "CUDA"):
    _library.impl("scaled_mm", _now, _key)


@torch.library.register_fake("tilewise::scaled_mm")
def _fake(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor], scale_result: Optional[Tensor],
          out_dtype: torch.dtype, use_fast_accum: bool) -> Tensor:
    _checked(a, b, scale_a, scale_b, bias, scale_result)
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)


def _quantized_now(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    x, = _operators._detached(x)
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16) or x.dim() == 0 or dtype not in _NUMBERS:
        raise ValueError(f"quantize takes x (..., k) of float32, float16 or bfloat16, and float8_e4m3fn or float8_e5m2, not {tuple(x.shape)} "
                         f"of {x.dtype} and {dtype}")
    numbers, scales = _quantized_like(x, dtype)
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    if not _operators._by_torch(x):
        of_rows = numbers.view(rows.shape), scales.view(len(rows), scales.shape[-1])
        _quantize(rows.contiguous(), *of_rows, device=None if x.is_cuda else "host")
        return numbers, scales
    padded = torch.nn.functional.pad(rows.float(), (0, -rows.shape[1] % 128)).reshape(len(rows), scales.shape[-1], 128)
    of_blocks = (padded.abs().nan_to_num(nan=0.0, posinf=torch.inf).amax(2) / torch.finfo(dtype).max).clamp(min=2.0 ** -126)
    most = torch.finfo(dtype).max
    rounded = (padded / of_blocks[:, :, None]).clamp(-most, most).reshape(padded.shape[0], 128 * padded.shape[1])[:, :rows.shape[1]]
    numbers.copy_(rounded.to(dtype).reshape(x.shape)), scales.copy_(of_blocks.reshape(scales.shape))
    return numbers, scales


def _quantized_like(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return (torch.empty(x.shape, dtype=dtype, device=x.device),
            torch.empty((*x.shape[:-1], (x.shape[-1] + 127) // 128), dtype=torch.float32, device=x.device))


for _key in ("CPU", "CUDA"):
    _library.impl("quantize", _quantized_now, _key)
torch.library.register_fake("tilewise::quantize")(_quantized_like)


def quantize(x: Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[Tensor, Tensor]:
    """x (..., k) as 8-bit floats (..., k), and a float32 scale for each 128 neighbours (..., k / 128), rounded up: as scaled_mm() takes them.

    A scale is the largest magnitude of its block over the largest number of dtype, at least 2^-126; a number is the element over the
    scale, rounded to nearest. NaN counts in no magnitude and stays NaN; an infinite element makes its scale infinite. x is of float32,
    float16 or bfloat16. One pass over x. torch.compile keeps it as one operator. No derivative. Raises Error, ValueError.
    """
    return torch.ops.tilewise.quantize(x, dtype)


def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: Optional[Tensor], scale_b: Tensor, bias: Optional[Tensor] = None,
              scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
              use_fast_accum: bool = False) -> Tensor:
    """torch._scaled_mm: (mat_a scale_a) (mat_b scale_b) + bias of 8-bit floats, by one kernel. No derivative.

    mat_a (m, k) and mat_b (k, n) have one type, e4m3 or e5m2, in any layout. A scale has one element, or one for each row of
    mat_a (m, 1), or one for each column of mat_b (1, n), of any type that float32 holds. Or each 128 steps of k have their own:
    scale_a (m, k / 128), and scale_b (k / 128, n / 128) or (k / 128, n), rounded up, in any layout; or scale_b as above.
    scale_a None: mat_a is of float32, float16 or bfloat16, and is rounded by quantize() before; out_dtype None is its own type.
    bias: (n). scale_result: one element, a factor of the result. out_dtype: bfloat16, float16, float32, or mat_a's (None), which saturates.
    use_fast_accum: sums without promotion, but for scales of blocks. torch.compile keeps it as one operator. Raises Error, ValueError.
    """
    out_dtype = out_dtype or mat_a.dtype
    if scale_a is None:
        if mat_b.dtype not in _NUMBERS:
            raise ValueError(f"mat_b is of {mat_b.dtype}; it is of float8_e4m3fn or float8_e5m2")
        mat_a, scale_a = quantize(mat_a, mat_b.dtype)
    return torch.ops.tilewise.scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)
