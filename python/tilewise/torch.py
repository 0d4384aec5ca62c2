"""Tilewise in PyTorch: an operator with autograd and support for torch.compile, and Linear layers.

    import tilewise.torch
    y = tilewise.torch.matmul(x, w)          # differentiable
    tilewise.torch.swap_linear(model)        # every torch.nn.Linear of the model

PyTorch itself multiplies tensors on the CPU. After on_cpu("host") Tilewise's CPU executor multiplies them; it is slow,
for tests.
"""

from __future__ import annotations

import itertools
import math as _math
import weakref
from typing import Callable, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import InvalidArgument
from . import Packed
from . import matmul as _product
from . import pack as _pack

__all__ = ["matmul", "linear", "Linear", "swap_linear", "pack_weights", "unpack_weights", "on_cpu"]

_cpu = "torch"


def on_cpu(how: str) -> None:
    """Selects the multiplication of tensors on the CPU: "torch" (the default), or "host": Tilewise's CPU executor."""
    global _cpu
    if how not in ("torch", "host"):
        raise ValueError(f'on_cpu takes "torch" or "host", not {how!r}')
    _cpu = how


def _multiply(a: Tensor, b: Tensor | Packed, out: Optional[Tensor], math: str) -> Tensor:
    """a b, or a b + out written to out."""
    device, beta = None, 0.0 if out is None else 1.0
    if not a.is_cuda:
        if _cpu == "torch":
            kind = _result_type(a.dtype)
            product = torch.matmul(a.to(kind), (b.array if isinstance(b, Packed) else b).to(kind))
            return product if out is None else out.add_(product)
        device = "host"
    try:
        return _product(a, b, out, beta=beta, math=math, device=device)
    except InvalidArgument:
        # Gradients may be expanded tensors with strides of 0, which are copied.
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
_library.define("linear(Tensor x, Tensor weight, Tensor? bias, str math, int packed=0) -> Tensor")


def _multiply_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int) -> Tensor:
    state, operand = _packed.get(packed, (None, None))
    right = operand if state is not None and state == _state_of(weight) else weight.t()
    if bias is None:
        return _multiply(x, right, None, math)
    out = bias.new_empty((x.shape[0], weight.shape[0])).copy_(bias)
    return _multiply(x, right, out, math)


def _matmul_now(a: Tensor, b: Tensor, math: str) -> Tensor:
    return _multiply(a.detach(), b.detach(), None, math)


def _linear_now(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int = 0) -> Tensor:
    return _multiply_linear(x.detach(), weight.detach(), None if bias is None else bias.detach(), math, packed)


def _with_a_unit_stride(x: Tensor) -> Tensor:
    """x, or a contiguous copy if its matrices are neither row-major nor transposed."""
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
def _linear_fake(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int = 0) -> Tensor:
    torch._check(x.dim() == 2 and x.shape[1] == weight.shape[1],
                 lambda: f"shapes do not fit: {tuple(x.shape)} and weight {tuple(weight.shape)}")
    return x.new_empty((x.shape[0], weight.shape[0]), dtype=_result_type(x.dtype) if bias is None else bias.dtype)


def _matmul_setup(ctx, inputs, output) -> None:
    a, b, ctx.math = inputs
    ctx.save_for_backward(a, b)


def _matmul_backward(ctx, gradient: Tensor):
    a, b = ctx.saved_tensors
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        of_a = matmul(gradient, b.mT, ctx.math).sum_to_size(a.shape)
    if ctx.needs_input_grad[1]:
        of_b = matmul(a.mT, gradient, ctx.math).sum_to_size(b.shape)
    return of_a, of_b, None


def _linear_setup(ctx, inputs, output) -> None:
    x, weight, bias, ctx.math, _ = inputs
    ctx.save_for_backward(x, weight)


def _linear_backward(ctx, gradient: Tensor):
    x, weight = ctx.saved_tensors
    of_x = of_weight = of_bias = None
    if ctx.needs_input_grad[0]:
        of_x = matmul(gradient, weight, ctx.math)
    if ctx.needs_input_grad[1]:
        of_weight = matmul(gradient.mT, x, ctx.math)
    if ctx.needs_input_grad[2]:
        of_bias = gradient.sum(0)
    return of_x, of_weight, of_bias, None, None


torch.library.register_autograd("tilewise::matmul", _matmul_backward, setup_context=_matmul_setup)
torch.library.register_autograd("tilewise::linear", _linear_backward, setup_context=_linear_setup)


# In eager mode these functions call the operators' own code and record it for autograd, because PyTorch's dispatcher
# takes longer for an operator in Python than a small product takes. If something observes operators (a compiler, a
# tracer, a transform, a mode, a subclass of Tensor), the operators themselves are called.
class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor, math: str) -> Tensor:
        ctx.math = math
        ctx.save_for_backward(a, b)
        return _multiply(a, b, None, math)

    backward = staticmethod(_matmul_backward)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int) -> Tensor:
        ctx.math = math
        ctx.save_for_backward(x, weight)
        return _multiply_linear(x, weight, bias, math, packed)

    backward = staticmethod(_linear_backward)


_PLAIN = frozenset((Tensor, torch.nn.Parameter, type(None)))
try:
    from torch._C import _len_torch_dispatch_stack as _dispatch_modes
    from torch._C import _len_torch_function_stack as _function_modes
    from torch._C._functorch import peek_interpreter_stack as _transform

    def _unwatched(*tensors: Optional[Tensor]) -> bool:
        for tensor in tensors:
            if type(tensor) not in _PLAIN:
                return False
        return (_transform() is None and not _dispatch_modes() and not _function_modes()
                and forward_ad._current_level < 0 and not torch.compiler.is_compiling() and not torch.jit.is_tracing())

    _unwatched()
except (ImportError, AttributeError):  # no public names: a PyTorch without them uses the dispatcher

    def _unwatched(*tensors: Optional[Tensor]) -> bool:
        return False


def matmul(a: Tensor, b: Tensor, math: str = "strict") -> Tensor:
    """a @ b for tensors of two dimensions or more, (..., m, k) and (..., k, n), of one type; differentiable.

    Leading dimensions are broadcast. math: for float32 "strict", "tf32" or "f32x3"; for 8-bit floats "strict" or
    "fast". int8 gives int32, 8-bit floats give float32. Raises tilewise.Error as tilewise.matmul() does.
    """
    if not _unwatched(a, b):
        return torch.ops.tilewise.matmul(a, b, math)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _Matmul.apply(a, b, math)
    return _multiply(a, b, None, math)


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, math: str = "strict") -> Tensor:
    """x weight^T + bias: x (..., k), weight (n, k), bias (n) or None; differentiable. Arguments: see matmul().

    torch.autocast casts the operands like those of torch.nn.functional.linear.
    """
    return _linear(x, weight, bias, math, 0)


def _linear(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int) -> Tensor:
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype in (torch.float32, torch.float16, torch.bfloat16):
        to = torch.get_autocast_dtype(kind)
        x, weight = x.to(to), weight.to(to)
        bias = None if bias is None else bias.to(to)
    rows = x if x.dim() == 2 else x.reshape(_math.prod(x.shape[:-1]), x.shape[-1])
    if not _unwatched(x, weight, bias):
        result = torch.ops.tilewise.linear(rows, weight, bias, math, packed)
    elif torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad or bias is not None and bias.requires_grad):
        result = _Linear.apply(rows, weight, bias, math, packed)
    else:
        result = _multiply_linear(rows, weight, bias, math, packed)
    return result if x.dim() == 2 else result.reshape(*x.shape[:-1], weight.shape[0])


def _in_front(x: Tensor, at: Optional[int], dims: int) -> Tensor:
    """x with the dimension that vmap maps moved to the front, followed by ones up to `dims` further dimensions."""
    if at is None:
        return x
    x = x.movedim(at, 0)
    return x.reshape(x.shape[0], *[1] * (dims - (x.dim() - 1)), *x.shape[1:])


def _matmul_vmap(info, in_dims, a: Tensor, b: Tensor, math: str):
    dims = max(a.dim() - (in_dims[0] is not None), b.dim() - (in_dims[1] is not None))
    return matmul(_in_front(a, in_dims[0], dims), _in_front(b, in_dims[1], dims), math), 0


def _linear_vmap(info, in_dims, x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int = 0):
    product = matmul(_in_front(x, in_dims[0], 2), _in_front(weight, in_dims[1], 2).mT, math)
    if product.dim() == 2:
        product = product.expand(info.batch_size, *product.shape)
    return (product if bias is None else product + _in_front(bias, in_dims[2], 2)), 0


torch.library.register_vmap("tilewise::matmul", _matmul_vmap)
torch.library.register_vmap("tilewise::linear", _linear_vmap)


# The operator takes a packed weight by its number, and uses it as long as the weight has not changed since the pack.
_packed: dict[int, tuple[tuple, Packed]] = {}
_numbers = itertools.count(1)
_number_of: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()


def _state_of(weight: Tensor) -> tuple:
    version = 0 if weight.is_inference() else weight._version
    return weight.data_ptr(), version, weight.shape, weight.stride(), weight.dtype


class Linear(torch.nn.Linear):
    """torch.nn.Linear, multiplied by Tilewise. `math`: see matmul(). pack_weights() packs the weight once."""

    math = "strict"

    def forward(self, x: Tensor) -> Tensor:
        packed = 0
        if _packed and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            packed = _number_of.get(self, 0)
        return _linear(x, self.weight, self.bias, self.math, packed)

    def train(self, mode: bool = True) -> Linear:
        if mode:
            _drop(self)
        return super().train(mode)


def _drop(layer: torch.nn.Module) -> bool:
    number = _number_of.pop(layer, None)
    return _packed.pop(number, None) is not None


def pack_weights(model: torch.nn.Module, rows: int) -> int:
    """Packs the weights of the model's Linear layers once, for inference with about `rows` rows. Returns their bytes.

    Useful for weights whose rows are not aligned to 16 bytes, because kernels otherwise pack them in every product.
    Packed weights serve calls without autograd (torch.no_grad(), torch.inference_mode()) and outside of torch.compile.
    The weights must not change afterwards; train() or unpack_weights() drops the packed ones. Changes by PyTorch's
    in-place operations are detected; those by fused optimizers and through `weight.data` are not. CUDA graphs captured
    with packed weights need them as long as they are replayed.
    """
    taken = 0
    for layer in model.modules():
        weight = getattr(layer, "weight", None)
        if not isinstance(layer, Linear) or (not weight.is_cuda and _cpu == "torch"):
            continue
        packed = _pack(weight.detach().t(), rows, math=layer.math, device=None if weight.is_cuda else "host")
        _drop(layer)
        if packed.nbytes:
            number = _number_of[layer] = next(_numbers)
            _packed[number] = _state_of(weight), packed
            weakref.finalize(layer, _packed.pop, number, None)
            taken += packed.nbytes
    return taken


def unpack_weights(model: torch.nn.Module) -> None:
    """Drops the packed weights, after the products that use them are done."""
    for layer in model.modules():
        if _drop(layer) and layer.weight.is_cuda:
            torch.cuda.synchronize(layer.weight.device)


def swap_linear(model: torch.nn.Module, math: str = "strict",
                keep: Optional[Callable[[str, torch.nn.Linear], bool]] = None) -> int:
    """Replaces every torch.nn.Linear of the model by a Linear with the same parameters. Returns how many.

    keep(name, layer): true for layers that stay unchanged. Only layers of exactly the type torch.nn.Linear are
    replaced. Parameters, hooks and buffers stay the same objects, so optimizers and state dictionaries stay valid.
    """
    count = 0
    for name, module in model.named_modules():
        if type(module) is torch.nn.Linear and not (keep and keep(name, module)):
            module.__class__ = Linear
            module.math = math
            count += 1
    return count
