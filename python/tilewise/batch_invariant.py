"""Batch-invariant products in PyTorch: the bits of a row of a result do not depend on the other rows.

    with tilewise.torch.batch_invariant():
        logits = model(tokens)

While it is on, PyTorch's own products of tensors on GPUs (mm, addmm, bmm, baddbmm, addmv, dot, and what PyTorch makes of
them: matmul, linear, einsum, and their gradients) are invariant products of Tilewise (docs/invariance.md).
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from typing import Any, Callable, Iterator, Optional

import torch
from torch import Tensor

from . import Unsupported
from . import matmul as _product

_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _unit_stride(x: Tensor) -> Tensor:
    """x, or a contiguous copy if its matrices are neither row-major nor transposed."""
    down, across = x.stride()[-2:]
    rows, columns = x.shape[-2:]
    row_major = (across == 1 or columns <= 1) and (down >= columns or rows <= 1)
    transposed = (down == 1 or rows <= 1) and (across >= rows or columns <= 1)
    return x if row_major or transposed else x.contiguous()


def _tf32() -> bool:
    """Whether PyTorch's settings allow float32 products in tf32 on GPUs."""
    matmul = torch.backends.cuda.matmul
    try:
        return matmul.fp32_precision == "tf32"
    except AttributeError:  # an older PyTorch
        return matmul.allow_tf32


def _multiply(a: Tensor, b: Tensor, out: Tensor, alpha: float = 1.0) -> Tensor:
    """alpha a b in out, whose rows are contiguous."""
    if a.dtype not in _TYPES:
        raise Unsupported(f"batch_invariant() multiplies {', '.join(map(str, _TYPES))}, not {a.dtype}")
    tf32 = a.dtype == torch.float32 and a.is_cuda and _tf32()
    # The operators are called below autograd, which has recorded them.
    _product(_unit_stride(a).detach(), _unit_stride(b).detach(), out.detach(), alpha=alpha,
             math="tf32" if tf32 else "strict", device=None if a.is_cuda else "host", invariant=True)
    return out


def _check(what: str, a: Tensor, b: Tensor, dims: int) -> None:
    if a.dim() != dims or b.dim() != dims or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise RuntimeError(f"{what}: shapes do not fit: {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != b.dtype:
        raise RuntimeError(f"{what}: expected operands of one type, not {a.dtype} and {b.dtype}")


def _rows_are_contiguous(x: Tensor) -> bool:
    rows, columns = x.shape[-2:]
    return (x.stride(-1) == 1 or columns <= 1) and (x.stride(-2) >= columns or rows <= 1) and not (
        columns == 1 and rows > 1 and x.stride(-2) != 1)


def _sum(what: str, added: Optional[Tensor], a: Tensor, b: Tensor, dims: int, beta: float = 1, alpha: float = 1,
         dtype: Optional[torch.dtype] = None) -> Tensor:
    """alpha a b, rounded, + beta added: the sum is an operation of its own, as it is where PyTorch makes linear() of a
    product and a sum; which one it takes depends on whether the input is contiguous. dtype: of the result; None: a's."""
    _check(what, a, b, dims)
    if dtype not in (None, a.dtype) and not (dtype == torch.float32 and a.dtype in (torch.float16, torch.bfloat16)):
        raise Unsupported(f"batch_invariant() has no product of {a.dtype} with a result of {dtype}")
    if added is not None and added.dtype != (dtype or a.dtype):
        raise RuntimeError(f"{what}: expected a {dtype or a.dtype} to add, not a {added.dtype}")
    out = a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=dtype or a.dtype)
    _multiply(a, b, out, alpha)
    return out if added is None or beta == 0 else out.add_(added, alpha=beta)


def _into(out: Tensor, made: Tensor) -> Tensor:
    if out.dtype != made.dtype:
        raise RuntimeError(f"expected out of {made.dtype}, not {out.dtype}")
    if out.shape != made.shape:
        out.resize_(made.shape)
    return out.copy_(made)


def _product_operators(what: str, dims: int) -> dict[str, Callable]:
    """mm or bmm."""

    def functional(a: Tensor, b: Tensor) -> Tensor:
        return _sum(what, None, a, b, dims)

    def into(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
        _check(what, a, b, dims)
        if out.shape == (*a.shape[:-1], b.shape[-1]) and out.dtype == a.dtype and _rows_are_contiguous(out):
            return _multiply(a, b, out)
        return _into(out, functional(a, b))

    def of_type(a: Tensor, b: Tensor, out_dtype: torch.dtype) -> Tensor:
        return _sum(what, None, a, b, dims, dtype=out_dtype)

    def of_type_into(a: Tensor, b: Tensor, out_dtype: torch.dtype, *, out: Tensor) -> Tensor:
        return _into(out, of_type(a, b, out_dtype))

    return {what: functional, f"{what}.out": into, f"{what}.dtype": of_type, f"{what}.dtype_out": of_type_into}


def _sum_operators(what: str, dims: int) -> dict[str, Callable]:
    """addmm or baddbmm."""

    def functional(added: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return _sum(what, added, a, b, dims, beta, alpha)

    def into(added: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor) -> Tensor:
        return _into(out, _sum(what, added, a, b, dims, beta, alpha))

    def in_place(added: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return added.copy_(_sum(what, added, a, b, dims, beta, alpha))

    def of_type(added: Tensor, a: Tensor, b: Tensor, out_dtype: torch.dtype, *, beta: float = 1, alpha: float = 1) -> Tensor:
        return _sum(what, added, a, b, dims, beta, alpha, out_dtype)

    def of_type_into(added: Tensor, a: Tensor, b: Tensor, out_dtype: torch.dtype, *, beta: float = 1, alpha: float = 1,
                     out: Tensor) -> Tensor:
        return _into(out, _sum(what, added, a, b, dims, beta, alpha, out_dtype))

    return {what: functional, f"{what}.out": into, f"{what}_": in_place, f"{what}.dtype": of_type,
            f"{what}.dtype_out": of_type_into}


def _vector_sum(added: Tensor, a: Tensor, x: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    if x.dim() != 1:
        raise RuntimeError(f"addmv: shapes do not fit: {tuple(a.shape)} and {tuple(x.shape)}")
    product = _sum("addmv", None, a, x.unsqueeze(1), 2, 0, alpha).squeeze(1)
    return product if beta == 0 else product.add_(added, alpha=beta)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    """As one row of addmv."""
    if x.dim() != 1 or x.shape != y.shape:
        raise RuntimeError(f"dot: shapes do not fit: {tuple(x.shape)} and {tuple(y.shape)}")
    return _sum("dot", None, x.unsqueeze(0), y.unsqueeze(1), 2).reshape(())


def _addmv(added: Tensor, a: Tensor, x: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _vector_sum(added, a, x, beta, alpha)


def _addmv_out(added: Tensor, a: Tensor, x: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor) -> Tensor:
    return _into(out, _vector_sum(added, a, x, beta, alpha))


def _addmv_in_place(added: Tensor, a: Tensor, x: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return added.copy_(_vector_sum(added, a, x, beta, alpha))


def _activated(added: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1, use_gelu: bool = False) -> Tensor:
    made = _sum("_addmm_activation", added, a, b, 2, beta, alpha)
    return torch.nn.functional.gelu(made, approximate="tanh") if use_gelu else made.relu_()


def _activated_out(added: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1, use_gelu: bool = False,
                   out: Tensor) -> Tensor:
    return _into(out, _activated(added, a, b, beta=beta, alpha=alpha, use_gelu=use_gelu))


def _refused(name: str) -> Callable:
    def refuse(*_: Any, **__: Any) -> Tensor:
        raise Unsupported(f"batch_invariant() has no product of torch.ops.aten.{name}")

    return refuse


_SERVED: dict[str, Callable] = {
    **_product_operators("mm", 2), **_product_operators("bmm", 3), **_sum_operators("addmm", 2), **_sum_operators("baddbmm", 3),
    "addmv": _addmv, "addmv.out": _addmv_out, "addmv_": _addmv_in_place, "dot": _dot, "vdot": _dot,
    "_addmm_activation": _activated, "_addmm_activation.out": _activated_out,
}
_REFUSED = ("_scaled_mm", "_scaled_mm.out", "_scaled_mm_v2", "_scaled_mm_v2.out", "_grouped_mm", "_scaled_grouped_mm",
            "_scaled_grouped_mm_v2", "_weight_int8pack_mm", "_weight_int4pack_mm", "_mixed_dtypes_linear")


def _functions(key: str) -> dict[str, Callable]:
    """What replaces the operators that this version of PyTorch has for the key."""
    functions = {**_SERVED, **{name: _refused(name) for name in _REFUSED}}
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    known = set(torch._C._dispatch_get_all_op_names())
    return {name: function for name, function in functions.items()
            if f"aten::{name}" in known and has(f"aten::{name}", key)}


_lock = threading.Lock()
_users = 0
_library: Optional[torch.library.Library] = None
_restore: dict[str, Any] = {}


def _settings() -> Any:
    """torch.compile's settings, or None."""
    try:
        import torch._inductor.config as config
    except ImportError:
        return None
    return config


def _turn_on() -> None:
    global _library
    from . import torch as of_torch

    _library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are replaced, which is the purpose
            for key in ("CUDA", "CPU") if of_torch._cpu == "host" else ("CUDA",):
                for name, function in _functions(key).items():
                    _library.impl(name, function, key)
    except BaseException:
        _turn_off()
        raise
    # torch.compile calls the operators above, unless it pads their operands or writes kernels of its own.
    config = _settings()
    for name, value in (("shape_padding", False), ("max_autotune", False), ("max_autotune_gemm", False),
                        ("coordinate_descent_tuning", False), ("max_autotune_gemm_backends", "ATEN")):
        if config is not None and hasattr(config, name):
            _restore[name] = getattr(config, name)
            setattr(config, name, value)


def _turn_off() -> None:
    global _library
    _library._destroy()
    _library = None
    config = _settings()
    for name, value in _restore.items():
        setattr(config, name, value)
    _restore.clear()


def enable_batch_invariant() -> None:
    """Makes PyTorch's products of this process batch-invariant, until disable_batch_invariant().

    Holds for all threads. Serves mm, addmm, bmm, baddbmm, addmv, dot and what PyTorch makes of them (matmul, linear,
    einsum, their gradients) of float32, float64, float16 and bfloat16 on GPUs. float32 is multiplied in tf32 where
    PyTorch's settings allow it (torch.backends.cuda.matmul.fp32_precision). A product that Tilewise cannot serve raises tilewise.Error. Models are
    compiled (torch.compile) while it is on; a CUDA graph needs one run of its products before the capture. Each call
    needs one of disable_batch_invariant(). Thread-safe.
    """
    global _users
    with _lock:
        if _users == 0:
            _turn_on()
        _users += 1


def disable_batch_invariant() -> None:
    """Ends what the last enable_batch_invariant() began. Raises RuntimeError if nothing is enabled. Thread-safe."""
    global _users
    with _lock:
        if _users == 0:
            raise RuntimeError("batch_invariant is not enabled")
        _users -= 1
        if _users == 0:
            _turn_off()


def is_batch_invariant() -> bool:
    """Whether enable_batch_invariant() or a batch_invariant() is in force."""
    return _users > 0


@contextlib.contextmanager
def batch_invariant() -> Iterator[None]:
    """enable_batch_invariant() in a with statement. Backward passes are invariant if they run inside."""
    enable_batch_invariant()
    try:
        yield
    finally:
        disable_batch_invariant()
