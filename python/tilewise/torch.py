"""Tilewise in PyTorch: an operator with autograd that torch.compile keeps, and Linear layers.

    import tilewise.torch
    y = tilewise.torch.matmul(x, w)          # differentiable
    tilewise.torch.swap_linear(model)        # every torch.nn.Linear of the model

Tensors on the CPU are multiplied by PyTorch itself; on_cpu("host") multiplies them by Tilewise's CPU executor, which is
slow, for tests.
"""

from __future__ import annotations

import weakref
from typing import Callable, Optional

import torch
from torch import Tensor

from . import InvalidArgument
from . import Packed
from . import matmul as _product
from . import pack as _pack

__all__ = ["matmul", "linear", "Linear", "swap_linear", "on_cpu"]

_cpu = "torch"


def on_cpu(how: str) -> None:
    """What multiplies tensors on the CPU: "torch" (the default), or "host": Tilewise's CPU executor."""
    global _cpu
    if how not in ("torch", "host"):
        raise ValueError(f'on_cpu takes "torch" or "host", not {how!r}')
    _cpu = how


def _multiply(a: Tensor, b: Tensor | Packed, out: Optional[Tensor], beta: float, math: str) -> Tensor:
    device = None
    if not a.is_cuda:
        if _cpu == "torch":
            product = torch.matmul(a, b.array if isinstance(b, Packed) else b)
            return product if out is None else out.mul_(beta).add_(product)
        device = "host"
    try:
        return _product(a, b, out, beta=beta, math=math, device=device)
    except InvalidArgument:
        # Gradients may be expanded tensors, with strides of 0: these are copied.
        copies = _with_a_unit_stride(a), b if isinstance(b, Packed) else _with_a_unit_stride(b)
        if copies[0] is a and copies[1] is b:
            raise
        return _product(*copies, out, beta=beta, math=math, device=device)


def _result_type(dtype: torch.dtype) -> torch.dtype:
    if dtype == torch.int8:
        return torch.int32
    return torch.float32 if dtype in (torch.float8_e4m3fn, torch.float8_e5m2) else dtype


_library = torch.library.Library("tilewise", "DEF")
_library.define("matmul(Tensor a, Tensor b, str math) -> Tensor")
_library.define("linear(Tensor x, Tensor weight, Tensor? bias, str math) -> Tensor")


def _matmul_now(a: Tensor, b: Tensor, math: str) -> Tensor:
    return _multiply(a.detach(), b.detach(), None, 0.0, math)


def _linear_plain(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str) -> Tensor:
    out, beta = None, 0.0
    if bias is not None:
        out, beta = bias.expand(x.shape[0], weight.shape[0]).contiguous(), 1.0
    return _multiply(x, weight.t(), out, beta, math)


def _linear_now(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str) -> Tensor:
    return _linear_plain(x.detach(), weight.detach(), None if bias is None else bias.detach(), math)


def _with_a_unit_stride(x: Tensor) -> Tensor:
    """x, or a contiguous copy where its matrices are neither row-major nor transposed."""
    down, across = x.stride()[-2:]
    rows, columns = x.shape[-2:]
    row_major = (across == 1 or columns <= 1) and (down >= columns or rows <= 1)
    transposed = (down == 1 or rows <= 1) and (across >= rows or columns <= 1)
    return x if row_major or transposed else x.contiguous()


for _key in ("CPU", "CUDA"):
    _library.impl("matmul", _matmul_now, _key)
    _library.impl("linear", _linear_now, _key)


@torch.library.register_fake("tilewise::matmul")
def _matmul_fake(a: Tensor, b: Tensor, math: str) -> Tensor:
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "matrices have two dimensions or more")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"shapes do not fit: {tuple(a.shape)} and {tuple(b.shape)}")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=_result_type(a.dtype))


@torch.library.register_fake("tilewise::linear")
def _linear_fake(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str) -> Tensor:
    torch._check(x.dim() == 2 and x.shape[1] == weight.shape[1],
                 lambda: f"shapes do not fit: {tuple(x.shape)} and weight {tuple(weight.shape)}")
    return x.new_empty((x.shape[0], weight.shape[0]))


def _matmul_setup(ctx, inputs, output) -> None:
    a, b, ctx.math = inputs
    ctx.save_for_backward(a, b)


def _matmul_backward(ctx, gradient: Tensor):
    a, b = ctx.saved_tensors
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        of_a = torch.ops.tilewise.matmul(gradient, b.mT, ctx.math).sum_to_size(a.shape)
    if ctx.needs_input_grad[1]:
        of_b = torch.ops.tilewise.matmul(a.mT, gradient, ctx.math).sum_to_size(b.shape)
    return of_a, of_b, None


def _linear_setup(ctx, inputs, output) -> None:
    x, weight, bias, ctx.math = inputs
    ctx.save_for_backward(x, weight)


def _linear_backward(ctx, gradient: Tensor):
    x, weight = ctx.saved_tensors
    of_x = of_weight = of_bias = None
    if ctx.needs_input_grad[0]:
        of_x = torch.ops.tilewise.matmul(gradient, weight, ctx.math)
    if ctx.needs_input_grad[1]:
        of_weight = torch.ops.tilewise.matmul(gradient.mT, x, ctx.math)
    if ctx.needs_input_grad[2]:
        of_bias = gradient.sum(0)
    return of_x, of_weight, of_bias, None


torch.library.register_autograd("tilewise::matmul", _matmul_backward, setup_context=_matmul_setup)
torch.library.register_autograd("tilewise::linear", _linear_backward, setup_context=_linear_setup)


_KINDS = (Tensor, torch.nn.Parameter)


def _plain(a: Tensor, b: Tensor) -> bool:
    """Whether neither autograd nor a compiler looks on: then the operator's dispatch is left out."""
    if torch.compiler.is_compiling() or type(a) not in _KINDS or type(b) not in _KINDS:
        return False
    return not ((a.requires_grad or b.requires_grad) and torch.is_grad_enabled())


def matmul(a: Tensor, b: Tensor, math: str = "strict") -> Tensor:
    """a @ b for tensors of two dimensions or more, (..., m, k) and (..., k, n), of one type; differentiable.

    Leading dimensions are broadcast. math: of float32 "strict", "tf32" or "f32x3"; of 8-bit floats "strict" or "fast".
    int8 gives int32, 8-bit floats float32. Raises tilewise.Error where tilewise.matmul() does.
    """
    if _plain(a, b):
        return _multiply(a, b, None, 0.0, math)
    return torch.ops.tilewise.matmul(a, b, math)


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, math: str = "strict") -> Tensor:
    """x weight^T + bias: x (..., k), weight (n, k), bias (n) or None; differentiable. Arguments as of matmul().

    Under torch.autocast the operands are cast as those of torch.nn.functional.linear are.
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype in (torch.float32, torch.float16, torch.bfloat16):
        to = torch.get_autocast_dtype(kind)
        x, weight = x.to(to), weight.to(to)
        bias = None if bias is None else bias.to(to)
    plain = _plain(x, weight) and (bias is None or not bias.requires_grad or not torch.is_grad_enabled())
    run = _linear_plain if plain else torch.ops.tilewise.linear
    if x.dim() == 2:
        return run(x, weight, bias, math)
    return run(x.reshape(-1, x.shape[-1]), weight, bias, math).reshape(*x.shape[:-1], weight.shape[0])


# Of each layer: the weight that was packed (its address, version and shape), and the packed weight or None where its
# kernel does not pack.
_packs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _packed_weight(layer: Linear, x: Tensor) -> Optional[Packed]:
    """The layer's weight, packed once; None where that does not pay or is not possible now."""
    weight = layer.weight
    if not _plain(x, weight) or x.dtype != weight.dtype or weight.is_inference():
        return None
    if torch.is_autocast_enabled(x.device.type) or (not weight.is_cuda and _cpu == "torch"):
        return None
    key = (weight.data_ptr(), weight._version, weight.shape)
    known = _packs.get(layer)
    if known is not None and known[0] == key:
        return known[1]
    if weight.is_cuda:
        if torch.cuda.is_current_stream_capturing():
            return None
        if known is not None:
            torch.cuda.synchronize(weight.device)  # products that use the old one
    rows = x.numel() // x.shape[-1] if x.shape[-1] else 0
    packed = _pack(weight.detach().t(), rows, math=layer.math, device=None if weight.is_cuda else "host")
    _packs[layer] = key, packed if packed.nbytes else None
    return _packs[layer][1]


class Linear(torch.nn.Linear):
    """torch.nn.Linear, multiplied by Tilewise. `math` as of matmul().

    pack: without autograd (torch.no_grad(), or parameters that require no gradient) a weight whose kernel packs it is
    packed once, at the first call and whenever the weight has changed; that takes as much memory as the weight.
    """

    math = "strict"
    pack = True

    def forward(self, x: Tensor) -> Tensor:
        packed = _packed_weight(self, x) if self.pack and not torch.compiler.is_compiling() else None
        if packed is None:
            return linear(x, self.weight, self.bias, self.math)
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        out, beta = None, 0.0
        if self.bias is not None:
            out, beta = self.bias.detach().expand(rows.shape[0], self.weight.shape[0]).contiguous(), 1.0
        product = _multiply(rows, packed, out, beta, self.math)
        return product if x.dim() == 2 else product.reshape(*x.shape[:-1], self.weight.shape[0])


def swap_linear(model: torch.nn.Module, math: str = "strict",
                keep: Optional[Callable[[str, torch.nn.Linear], bool]] = None, pack: bool = True) -> int:
    """Replaces every torch.nn.Linear of the model by a Linear with the same parameters; how many.

    keep(name, layer): true for layers that stay as they are. Only layers of exactly torch.nn.Linear's type are
    replaced. Parameters, hooks and buffers stay the same objects, so that optimizers and state dictionaries stay valid.
    """
    count = 0
    for name, module in model.named_modules():
        if type(module) is torch.nn.Linear and not (keep and keep(name, module)):
            module.__class__ = Linear
            module.math, module.pack = math, pack
            count += 1
    return count
