"""Tilewise in PyTorch: an operator with autograd and support for torch.compile, and Linear layers.

    import tilewise.torch
    y = tilewise.torch.matmul(x, w)          # differentiable
    y = tilewise.torch.linear(x, w, bias, activation="gelu")
    tilewise.torch.swap_linear(model)        # every torch.nn.Linear of the model

PyTorch itself multiplies tensors on the CPU. After on_cpu("host") Tilewise's CPU executor multiplies them; it is slow,
for tests.
"""

from __future__ import annotations

import itertools
import math as _math
import re
import weakref
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import InvalidArgument
from . import Packed
from . import grouped as _grouped_product
from . import matmul as _product
from . import pack as _pack
from .batch_invariant import _unit_stride as _with_a_unit_stride
from .batch_invariant import batch_invariant, disable_batch_invariant, enable_batch_invariant, is_batch_invariant
from ._epilogues_by_torch import computed as _epilogue_by_torch
from .epilogues import trace as _trace

__all__ = [
    "matmul", "linear", "mlp", "Linear", "swap_linear", "pack_weights", "unpack_weights", "on_cpu", "batch_invariant",
    "grouped_mm", "scaled_mm", "quantize", "QuantizedLinear", "quantize_", "enable_batch_invariant", "disable_batch_invariant", "is_batch_invariant",
]

_cpu = "torch"


def on_cpu(how: str) -> None:
    """Selects the multiplication of tensors on the CPU: "torch" (the default), or "host": Tilewise's CPU executor."""
    global _cpu
    if how not in ("torch", "host"):
        raise ValueError(f'on_cpu takes "torch" or "host", not {how!r}')
    _cpu = how


def _by_torch(a: Tensor) -> bool:
    return _cpu == "torch" and not a.is_cuda


def _torch_product(a: Tensor, b: Tensor | Packed) -> Tensor:
    kind = _result_type(a.dtype)
    return torch.matmul(a.to(kind), (b.array if isinstance(b, Packed) else b).to(kind))


def _multiply(a: Tensor, b: Tensor | Packed, math: str, out: Optional[Tensor] = None, **epilogue) -> Tensor:
    """a b, with the epilogue and its operands if there is one; not for _by_torch()."""
    if _by_torch(a):
        return _torch_product(a, b)
    options = {"math": math, "device": None if a.is_cuda else "host", "invariant": is_batch_invariant(), **epilogue}
    try:
        return _product(a, b, out, **options)
    except InvalidArgument:
        # Gradients may be expanded tensors with strides of 0, which are copied.
        copies = _with_a_unit_stride(a), b if isinstance(b, Packed) else _with_a_unit_stride(b)
        if copies[0] is a and copies[1] is b:
            raise
        return _product(*copies, out, **options)


class _Activation:
    """An activation: its text for an epilogue, that of its derivative times acc at z, and both in PyTorch."""

    def __init__(self, text: str, derivative: str, forward: Callable, backward: Callable):
        self.text, self.derivative, self.forward, self.backward = text, derivative, forward, backward


_gelu_backward = torch.ops.aten.gelu_backward


def _silu_backward(gradient: Tensor, z: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(gradient, z)
    s = z.sigmoid()  # PyTorch's operator has no derivative.
    return gradient * (s * (1 + z * (1 - s)))


_ACTIVATIONS = {
    "": _Activation("{}", "acc", lambda z: z, lambda g, z: g),
    "relu": _Activation("relu({})", "where(z > 0, acc, 0)", torch.relu, lambda g, z: torch.where(z > 0, g, 0)),
    "gelu": _Activation("gelu({})", "acc * (0.5 * (1 + erf(z * 0.7071067811865476)) + z * exp(-0.5 * z * z) * 0.3989422804014327)",
                        torch.nn.functional.gelu, lambda g, z: _gelu_backward(g, z)),
    "gelu_tanh": _Activation(
        "gelu_tanh({})", "s = sigmoid(z * (1.5957691216057308 + 0.0713548162726 * z * z)); "
        "acc * (s + z * s * (1 - s) * (1.5957691216057308 + 0.2140644488178 * z * z))",
        lambda z: torch.nn.functional.gelu(z, approximate="tanh"), lambda g, z: _gelu_backward(g, z, approximate="tanh")),
    "silu": _Activation("silu({})", "s = sigmoid(z); acc * (s * (1 + z * (1 - s)))", torch.nn.functional.silu,
                        _silu_backward),
    "sigmoid": _Activation("sigmoid({})", "s = sigmoid(z); acc * (s * (1 - s))", torch.sigmoid,
                           lambda g, z: g * (z.sigmoid() * (1 - z.sigmoid()))),
    "tanh": _Activation("tanh({})", "t = tanh(z); acc * (1 - t * t)", torch.tanh, lambda g, z: g * (1 - z.tanh() ** 2)),
}


def _activation_of(name: Optional[str]) -> str:
    if (name or "") not in _ACTIVATIONS:
        raise ValueError(f"activation is None or one of {', '.join(filter(None, _ACTIVATIONS))}, not {name!r}")
    return name or ""


def _result_type(dtype: torch.dtype) -> torch.dtype:
    if dtype == torch.int8:
        return torch.int32
    return torch.float32 if dtype in (torch.float8_e4m3fn, torch.float8_e5m2) else dtype


_library = torch.library.Library("tilewise", "DEF")
_library.define("matmul(Tensor a, Tensor b, str math) -> Tensor")
# The result, and the further results in the order of the text. numbers: scalars of the host.
_library.define("matmul_epilogue(Tensor a, Tensor b, str math, str epilogue, Tensor[] operands, str[] names, float[] numbers, "
                "str[] numbered) -> Tensor[]")
# zeros: rows that no group has are 0; else they are undefined.
_library.define("grouped_mm(Tensor a, Tensor b, Tensor ends, str math, bool zeros=False) -> Tensor")
_library.define("linear(Tensor x, Tensor weight, Tensor? bias, str math, int packed=0, str activation='') -> Tensor")
# The result, and what the activation was applied to.
_library.define("linear_act(Tensor x, Tensor weight, Tensor? bias, str math, str activation) -> (Tensor, Tensor)")
# The result, what the activation was applied to, and its result.
_library.define("mlp(Tensor x, Tensor w1, Tensor? b1, Tensor w2, Tensor? b2, str math, str activation) -> "
                "(Tensor, Tensor, Tensor)")
# The gradient before the activation, and its sum over the rows in float32 (float64 for float64).
_library.define("before_act(Tensor gradient, Tensor weight, Tensor before, str math, str activation) -> (Tensor, Tensor)")


def _linear_type(x: Tensor, bias: Optional[Tensor]) -> torch.dtype:
    return _result_type(x.dtype) if bias is None else bias.dtype


def _multiply_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int = 0, activation: str = "",
                     before: Optional[Tensor] = None) -> Tensor:
    """The activation of x weight^T + bias, which is written to `before` if that is given."""
    state, operand = _packed.get(packed, (None, None))
    right = operand if state is not None and state == _state_of(weight) else weight.t()
    act = _ACTIVATIONS[activation]
    if _by_torch(x):
        z = _torch_product(x, right).to(_linear_type(x, bias))
        z = z if bias is None else z + bias
        if before is not None:
            before.copy_(z)
        return act.forward(z)
    if bias is None and not activation:
        return _multiply(x, right, math)
    text, operands = "acc", {}
    if bias is not None:
        text, operands["bias"] = "acc + bias[j]", bias.contiguous()
    if before is not None:
        text, operands["before"] = f"x = {text}; before[i,j] = x; {act.text.format('x')}", before
    else:
        text = act.text.format(text)
    out = x.new_empty((x.shape[0], weight.shape[0]), dtype=_linear_type(x, bias))
    return _multiply(x, right, math, out, epilogue=text, **operands)


def _multiply_linear_act(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, activation: str) -> tuple[Tensor, Tensor]:
    before = x.new_empty((x.shape[0], weight.shape[0]), dtype=_linear_type(x, bias))
    return _multiply_linear(x, weight, bias, math, 0, activation, before), before


def _multiply_before_act(gradient: Tensor, weight: Tensor, before: Tensor, math: str, activation: str) -> tuple[Tensor, Tensor]:
    """The gradient that gradient weight has before the activation, and its sum over the rows."""
    act = _ACTIVATIONS[activation]
    wide = torch.float64 if before.dtype == torch.float64 else torch.float32
    if _by_torch(gradient):
        made = act.backward(_torch_product(gradient, weight).to(before.dtype), before)
        return made, made.sum(0, dtype=wide)
    out, sums = torch.empty_like(before), before.new_empty(before.shape[1], dtype=wide)
    *parts, last = act.derivative.split("; ")
    text = "; ".join(["z = before[i,j]", *parts, f"d = {last}", "sums[j] = sum(d)", "d"])
    if activation == "":
        text = "d = acc; sums[j] = sum(d); d"
        return _multiply(gradient, weight, math, out, epilogue=text, sums=sums), sums
    return _multiply(gradient, weight, math, out, epilogue=text, before=before, sums=sums), sums


def _detached(*tensors: Optional[Tensor]):
    return [None if tensor is None else tensor.detach() for tensor in tensors]


def _matmul_now(a: Tensor, b: Tensor, math: str) -> Tensor:
    return _multiply(a.detach(), b.detach(), math)


# A further result of an epilogue: "aux[i,j] = ", "sums:f32[j] = ".
_WRITTEN = re.compile(r"\s*(\w+)\s*(?::\s*(\w+)\s*)?\[\s*(i\s*,\s*)?j\s*\]\s*=(?!=)")
_TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "i8": torch.int8, "i32": torch.int32}


@torch.compiler.assume_constant_result
def _written(epilogue: str) -> list[tuple[str, str, bool]]:
    """Name, type ("" for the result's) and whether each element is written, of what an epilogue writes beside the result."""
    heads = [_WRITTEN.match(statement) for statement in epilogue.split(";")]
    return [(head[1], head[2] or "", bool(head[3])) for head in heads if head]


def _further_results(a: Tensor, b: Tensor, epilogue: str) -> dict[str, Tensor]:
    shapes = {True: (a.shape[0], b.shape[1]), False: (b.shape[1],)}
    return {name: a.new_empty(shapes[by_element], dtype=_TYPES.get(kind, _result_type(a.dtype)))
            for name, kind, by_element in _written(epilogue)}


def _matmul_epilogue_now(a: Tensor, b: Tensor, math: str, epilogue: str, operands: list[Tensor], names: list[str],
                         numbers: list[float], numbered: list[str]) -> list[Tensor]:
    further = _further_results(a, b, epilogue)
    named = {**dict(zip(names, _detached(*operands))), **dict(zip(numbered, numbers))}
    if _by_torch(a):
        wide = torch.float64 if a.dtype == torch.float64 else torch.float32
        acc = torch.matmul(*(matrix.to(wide) for matrix in _detached(a, b)))
        return [_epilogue_by_torch(acc, _result_type(a.dtype), epilogue, named, further), *further.values()]
    return [_multiply(*_detached(a, b), math, epilogue=epilogue, **named, **further), *further.values()]


def _grouped_by_torch(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    kind, begin, parts = _result_type(a.dtype), 0, []
    a, b = a.to(kind), b.to(kind)
    by_depth = b.dim() == 2
    length = a.shape[1] if by_depth else a.shape[0]
    for group, end in enumerate(ends.tolist()):
        if not begin <= end <= length:
            raise ValueError(f"offs[{group}] is {end}; an end is at least the one before, here {begin}, and at most {length}")
        parts.append(a[:, begin:end] @ b[begin:end] if by_depth else a[begin:end] @ b[group])
        begin = end
    if by_depth:
        return torch.stack(parts)
    return torch.cat([*parts, a.new_zeros(a.shape[0] - begin, b.shape[2])])


def _multiply_grouped(a: Tensor, b: Tensor, ends: Tensor, math: str, zeros: bool = False) -> Tensor:
    if _by_torch(a):
        return _grouped_by_torch(a, b, ends)
    device = None if a.is_cuda else "host"
    if b.dim() == 2:  # stored by k
        return _grouped_product(a.t().contiguous().t(), b.contiguous(), ends, math=math, device=device)
    out = a.new_zeros((a.shape[0], b.shape[2]), dtype=_result_type(a.dtype)) if zeros else None
    invariant = is_batch_invariant()
    try:
        return _grouped_product(a, b, ends, out, math=math, device=device, invariant=invariant)
    except InvalidArgument:
        copies = _with_a_unit_stride(a), _with_a_unit_stride(b)
        if copies[0] is a and copies[1] is b:
            raise
        return _grouped_product(*copies, ends, out, math=math, device=device, invariant=invariant)


def _grouped_now(a: Tensor, b: Tensor, ends: Tensor, math: str, zeros: bool = False) -> Tensor:
    return _multiply_grouped(*_detached(a, b), ends, math, zeros)


def _linear_now(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int = 0, activation: str = "") -> Tensor:
    return _multiply_linear(*_detached(x, weight, bias), math, packed, activation)


def _linear_act_now(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, activation: str):
    return _multiply_linear_act(*_detached(x, weight, bias), math, activation)


def _mlp_now(x: Tensor, w1: Tensor, b1: Optional[Tensor], w2: Tensor, b2: Optional[Tensor], math: str, activation: str):
    x, w1, b1, w2, b2 = _detached(x, w1, b1, w2, b2)
    hidden, before = _multiply_linear_act(x, w1, b1, math, activation)
    return _multiply_linear(hidden, w2, b2, math), before, hidden


def _before_act_now(gradient: Tensor, weight: Tensor, before: Tensor, math: str, activation: str):
    return _multiply_before_act(*_detached(gradient, weight, before), math, activation)


for _key in ("CPU", "CUDA"):
    _library.impl("matmul", _matmul_now, _key)
    _library.impl("matmul_epilogue", _matmul_epilogue_now, _key)
    _library.impl("grouped_mm", _grouped_now, _key)
    _library.impl("linear", _linear_now, _key)
    _library.impl("linear_act", _linear_act_now, _key)
    _library.impl("mlp", _mlp_now, _key)
    _library.impl("before_act", _before_act_now, _key)


@torch.library.register_fake("tilewise::matmul")
def _matmul_fake(a: Tensor, b: Tensor, math: str) -> Tensor:
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "matrices have two dimensions or more")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"shapes do not fit: {tuple(a.shape)} and {tuple(b.shape)}")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=_result_type(a.dtype))


@torch.library.register_fake("tilewise::matmul_epilogue")
def _matmul_epilogue_fake(a: Tensor, b: Tensor, math: str, epilogue: str, operands: list[Tensor], names: list[str],
                          numbers: list[float], numbered: list[str]) -> list[Tensor]:
    return [_matmul_fake(a, b, math), *_further_results(a, b, epilogue).values()]


@torch.library.register_fake("tilewise::grouped_mm")
def _grouped_fake(a: Tensor, b: Tensor, ends: Tensor, math: str, zeros: bool = False) -> Tensor:
    torch._check(a.dim() == 2 and b.dim() in (2, 3) and a.shape[1] == b.shape[-2],
                 lambda: f"shapes do not fit: {tuple(a.shape)} and {tuple(b.shape)}")
    shape = (a.shape[0], b.shape[2]) if b.dim() == 3 else (ends.shape[0], a.shape[0], b.shape[1])
    return a.new_empty(shape, dtype=_result_type(a.dtype))


@torch.library.register_fake("tilewise::linear")
def _linear_fake(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int = 0, activation: str = "") -> Tensor:
    torch._check(x.dim() == 2 and x.shape[1] == weight.shape[1],
                 lambda: f"shapes do not fit: {tuple(x.shape)} and weight {tuple(weight.shape)}")
    return x.new_empty((x.shape[0], weight.shape[0]), dtype=_linear_type(x, bias))


@torch.library.register_fake("tilewise::linear_act")
def _linear_act_fake(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, activation: str):
    y = _linear_fake(x, weight, bias, math)
    return y, torch.empty_like(y)


@torch.library.register_fake("tilewise::mlp")
def _mlp_fake(x: Tensor, w1: Tensor, b1: Optional[Tensor], w2: Tensor, b2: Optional[Tensor], math: str, activation: str):
    hidden, before = _linear_act_fake(x, w1, b1, math, activation)
    return _linear_fake(hidden, w2, b2, math), before, hidden


@torch.library.register_fake("tilewise::before_act")
def _before_act_fake(gradient: Tensor, weight: Tensor, before: Tensor, math: str, activation: str):
    wide = torch.float64 if before.dtype == torch.float64 else torch.float32
    return torch.empty_like(before), before.new_empty(before.shape[1], dtype=wide)


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


def _grouped_setup(ctx, inputs, output) -> None:
    a, b, ends, ctx.math, _ = inputs
    ctx.save_for_backward(a, b, ends)


def _grouped_backward(ctx, gradient: Tensor):
    a, b, ends = ctx.saved_tensors
    product = torch.ops.tilewise.grouped_mm  # gradients may have gradients
    of_a = of_b = None
    if b.dim() == 3:
        if ctx.needs_input_grad[0]:
            of_a = product(gradient, b.mT, ends, ctx.math, True)
        if ctx.needs_input_grad[1]:
            of_b = product(a.t(), gradient, ends, ctx.math)
    else:
        if ctx.needs_input_grad[0]:
            of_a = product(b, gradient.mT, ends, ctx.math, True).t()
        if ctx.needs_input_grad[1]:
            of_b = product(a.t(), gradient, ends, ctx.math, True)
    return of_a, of_b, None, None, None


def _linear_setup(ctx, inputs, output) -> None:
    x, weight, bias, ctx.math, _, activation = inputs
    if activation:
        raise ValueError("tilewise::linear with an activation has no gradient; tilewise::linear_act has one")
    ctx.save_for_backward(x, weight)


def _gradients_of_linear(ctx, gradient: Tensor, x: Tensor, weight: Tensor):
    """Of x, weight and bias; None where none is needed."""
    return (matmul(gradient, weight, ctx.math) if ctx.needs_input_grad[0] else None,
            matmul(gradient.mT, x, ctx.math) if ctx.needs_input_grad[1] else None,
            gradient.sum(0) if ctx.needs_input_grad[2] else None)


def _linear_backward(ctx, gradient: Tensor):
    return *_gradients_of_linear(ctx, gradient, *ctx.saved_tensors), None, None, None


def _linear_act_setup(ctx, inputs, output) -> None:
    x, weight, bias, ctx.math, ctx.activation = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, output[1])


def _linear_act_backward(ctx, gradient: Optional[Tensor], of_before: Optional[Tensor]):
    """of_before: the gradient of the second result, which a second derivative has."""
    x, weight, before = ctx.saved_tensors
    if gradient is not None:
        gradient = _ACTIVATIONS[ctx.activation].backward(gradient, before)
    gradient = of_before if gradient is None else gradient if of_before is None else gradient + of_before
    if gradient is None:
        return (None,) * 5
    return *_gradients_of_linear(ctx, gradient, x, weight), None, None


def _mlp_setup(ctx, inputs, output) -> None:
    x, w1, b1, w2, _, ctx.math, ctx.activation = inputs
    ctx.set_materialize_grads(False)
    ctx.type_of_b1 = None if b1 is None else b1.dtype
    ctx.save_for_backward(x, w1, w2, output[1], output[2])


def _mlp_backward(ctx, gradient: Tensor, *inner_gradients: Optional[Tensor]):
    if any(inner is not None for inner in inner_gradients):
        _no_second_derivative(ctx)
    if gradient is None:
        return (None,) * 7
    x, w1, w2, before, hidden = ctx.saved_tensors
    of_x = of_w1 = of_b1 = of_w2 = of_b2 = None
    if any(ctx.needs_input_grad[:3]):
        inner, sums = torch.ops.tilewise.before_act(gradient, w2, before, ctx.math, ctx.activation)
        if ctx.needs_input_grad[0]:
            of_x = matmul(inner, w1, ctx.math)
        if ctx.needs_input_grad[1]:
            of_w1 = matmul(inner.mT, x, ctx.math)
        if ctx.needs_input_grad[2]:
            of_b1 = sums.to(ctx.type_of_b1)
    if ctx.needs_input_grad[3]:
        of_w2 = matmul(gradient.mT, hidden, ctx.math)
    if ctx.needs_input_grad[4]:
        of_b2 = gradient.sum(0)
    return of_x, of_w1, of_b1, of_w2, of_b2, None, None


def _no_derivative_of_epilogue(ctx, *_):
    raise RuntimeError("tilewise.torch.matmul(epilogue=) has no derivative; linear(activation=) and mlp() have one")


def _no_second_derivative(ctx, *_):
    raise RuntimeError("tilewise.torch.mlp has no second derivative; linear(activation=) has one")


torch.library.register_autograd("tilewise::before_act", _no_second_derivative)
torch.library.register_autograd("tilewise::matmul_epilogue", _no_derivative_of_epilogue)
torch.library.register_autograd("tilewise::matmul", _matmul_backward, setup_context=_matmul_setup)
torch.library.register_autograd("tilewise::grouped_mm", _grouped_backward, setup_context=_grouped_setup)
torch.library.register_autograd("tilewise::linear", _linear_backward, setup_context=_linear_setup)
torch.library.register_autograd("tilewise::linear_act", _linear_act_backward, setup_context=_linear_act_setup)
torch.library.register_autograd("tilewise::mlp", _mlp_backward, setup_context=_mlp_setup)


# In eager mode these functions call the operators' own code and record it for autograd, because PyTorch's dispatcher
# takes longer for an operator in Python than a small product takes. If something observes operators (a compiler, a
# tracer, a transform, a mode, a subclass of Tensor), the operators themselves are called.
class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor, math: str) -> Tensor:
        ctx.math = math
        ctx.save_for_backward(a, b)
        return _multiply(a, b, math)

    backward = staticmethod(_matmul_backward)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int) -> Tensor:
        ctx.math = math
        ctx.save_for_backward(x, weight)
        return _multiply_linear(x, weight, bias, math, packed)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return _linear_backward(ctx, gradient)[:5]


class _Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor, ends: Tensor, math: str) -> Tensor:
        ctx.math = math
        ctx.save_for_backward(a, b, ends)
        return _grouped_now(a, b, ends, math)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return _grouped_backward(ctx, gradient)[:4]


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


def grouped_mm(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               out_dtype: Optional[torch.dtype] = None, *, math: str = "strict") -> Tensor:
    """torch._grouped_mm: groups of rows, columns or k of two matrices, whose ends `offs` has (int32, on the device).

    (rows, k) and (groups, k, n): each group of rows by its own matrix, (rows, n). (groups, m, k) and (k, columns): each
    group of columns, (m, columns). (m, k) and (k, n): groups of k, (groups, m, n). (groups, m, k) and (groups, k, n), without
    offs: a batch. What no group has is 0 in gradients and undefined in results. Differentiable; torch.compile captures it.
    bias is None, and out_dtype None or the result's own type, as in PyTorch. math: see matmul(). Raises Error, ValueError.
    """
    if bias is not None:
        raise ValueError("grouped_mm has no bias, as torch._grouped_mm has none; add it by tilewise.grouped(epilogue=)")
    if out_dtype is not None and out_dtype != _result_type(mat_a.dtype):
        raise ValueError(f"out_dtype is {out_dtype}; of {mat_a.dtype} it is {_result_type(mat_a.dtype)}")
    dims = mat_a.dim(), mat_b.dim()
    if dims == (3, 3):
        if offs is not None:
            raise ValueError("offs is for a matrix of two dimensions; (groups, m, k) and (groups, k, n) have none")
        return matmul(mat_a, mat_b, math)
    if offs is None or dims not in ((2, 3), (3, 2), (2, 2)):
        raise ValueError(f"grouped_mm takes matrices of 2 and 3, 3 and 2, or 2 and 2 dimensions with offs, not {dims}")
    if dims == (3, 2):
        return _grouped(mat_b.t(), mat_a.mT, offs, math).t()
    return _grouped(mat_a, mat_b, offs, math)


def _grouped(a: Tensor, b: Tensor, ends: Tensor, math: str) -> Tensor:
    if not _unwatched(a, b, ends):
        return torch.ops.tilewise.grouped_mm(a, b, ends, math)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _Grouped.apply(a, b, ends, math)
    return _multiply_grouped(a, b, ends, math)


def matmul(a: Tensor, b: Tensor, math: str = "strict", *, epilogue: Optional[str | Callable] = None, **operands):
    """a @ b for tensors of two dimensions or more, (..., m, k) and (..., k, n), of one type; differentiable.

    Leading dimensions are broadcast. math: for float32 "strict", "tf32", "f32x3" or "emulated"; for 8-bit floats
    "strict" or "fast"; for float64 "strict" or "emulated". int8 gives int32, 8-bit floats give float32. Raises tilewise.Error as tilewise.matmul() does.

    epilogue: what becomes of the sums, for two matrices and a result of floats: a text (docs/epilogues.md) or a function
    (tilewise.epilogues), with its operands by name. With further results ("aux[i,j] = x", a dictionary of the function) the
    value is (result, {"aux": aux}). One operator for torch.compile. It has no derivative.
    """
    if epilogue is not None:
        return _matmul_epilogue(a, b, math, epilogue, operands)
    if operands:
        raise TypeError(f"matmul() has no argument {next(iter(operands))!r}; operands of an epilogue need epilogue=")
    if not _unwatched(a, b):
        return torch.ops.tilewise.matmul(a, b, math)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _Matmul.apply(a, b, math)
    return _multiply(a, b, math)


def _matmul_epilogue(a: Tensor, b: Tensor, math: str, epilogue: str | Callable, operands: dict[str, Any]):
    if a.dim() != 2 or b.dim() != 2 or not _result_type(a.dtype).is_floating_point:
        raise ValueError(f"an epilogue is for two matrices and a result of floats, not for {a.dim()} and {b.dim()} dimensions of "
                         f"{a.dtype}")
    if callable(epilogue):
        epilogue, operands = _trace(epilogue, operands)
    tensors = {name: value for name, value in operands.items() if isinstance(value, Tensor)}
    numbers = {name: float(value) for name, value in operands.items() if name not in tensors}
    c, *further = torch.ops.tilewise.matmul_epilogue(a, b, math, epilogue, list(tensors.values()), list(tensors),
                                                     list(numbers.values()), list(numbers))
    return (c, dict(zip([name for name, _, _ in _written(epilogue)], further))) if further else c


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, math: str = "strict",
           activation: Optional[str] = None) -> Tensor:
    """x weight^T + bias: x (..., k), weight (n, k), bias (n) or None; differentiable. Arguments: see matmul().

    activation: "relu", "gelu", "gelu_tanh", "silu", "sigmoid" or "tanh" of that, for results that are floats. Bias and
    activation are the epilogue of one kernel. torch.autocast casts the operands like those of
    torch.nn.functional.linear.
    """
    return _linear(x, weight, bias, math, 0, _activation_of(activation))


def _cast(x: Tensor, *others: Optional[Tensor]):
    """The operands as torch.autocast casts them."""
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype in (torch.float32, torch.float16, torch.bfloat16):
        to = torch.get_autocast_dtype(kind)
        return [None if tensor is None else tensor.to(to) for tensor in (x, *others)]
    return [x, *others]


def _wants_gradient(*tensors: Optional[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _as_rows(x: Tensor) -> Tensor:
    return x if x.dim() == 2 else x.reshape(_math.prod(x.shape[:-1]), x.shape[-1])


def _linear(x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int, activation: str = "") -> Tensor:
    x, weight, bias = _cast(x, weight, bias)
    rows = _as_rows(x)
    gradient = _wants_gradient(x, weight, bias)
    if activation and gradient:
        result = torch.ops.tilewise.linear_act(rows, weight, bias, math, activation)[0]
    elif not _unwatched(x, weight, bias):
        result = torch.ops.tilewise.linear(rows, weight, bias, math, packed, activation)
    elif gradient:
        result = _Linear.apply(rows, weight, bias, math, packed)
    else:
        result = _multiply_linear(rows, weight, bias, math, packed, activation)
    return result if x.dim() == 2 else result.reshape(*x.shape[:-1], weight.shape[0])


def mlp(x: Tensor, w1: Tensor, b1: Optional[Tensor], w2: Tensor, b2: Optional[Tensor],
        activation: Optional[str] = "gelu", math: str = "strict") -> Tensor:
    """activation(x w1^T + b1) w2^T + b2: x (..., k), w1 (h, k), b1 (h), w2 (n, h), b2 (n); differentiable once.

    The kernel of the first product computes its bias and activation. In the backward pass the kernel of the second
    product's gradient computes the activation's derivative and the gradient of b1. Arguments: see linear().
    """
    activation = _activation_of(activation)
    x, w1, b1, w2, b2 = _cast(x, w1, b1, w2, b2)
    rows = _as_rows(x)
    if _wants_gradient(x, w1, b1, w2, b2) or not _unwatched(x, w1, b1, w2, b2):
        result = torch.ops.tilewise.mlp(rows, w1, b1, w2, b2, math, activation)[0]
    else:
        result = _multiply_linear(_multiply_linear(rows, w1, b1, math, 0, activation), w2, b2, math)
    return result if x.dim() == 2 else result.reshape(*x.shape[:-1], w2.shape[0])


def _in_front(x: Tensor, at: Optional[int], dims: int) -> Tensor:
    """x with the dimension that vmap maps moved to the front, followed by ones up to `dims` further dimensions."""
    if at is None:
        return x
    x = x.movedim(at, 0)
    return x.reshape(x.shape[0], *[1] * (dims - (x.dim() - 1)), *x.shape[1:])


def _matmul_vmap(info, in_dims, a: Tensor, b: Tensor, math: str):
    dims = max(a.dim() - (in_dims[0] is not None), b.dim() - (in_dims[1] is not None))
    return matmul(_in_front(a, in_dims[0], dims), _in_front(b, in_dims[1], dims), math), 0


def _linear_vmap(info, in_dims, x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, packed: int = 0,
                 activation: str = ""):
    product = matmul(_in_front(x, in_dims[0], 2), _in_front(weight, in_dims[1], 2).mT, math)
    if product.dim() == 2:
        product = product.expand(info.batch_size, *product.shape)
    product = product if bias is None else product + _in_front(bias, in_dims[2], 2)
    return _ACTIVATIONS[activation].forward(product), 0


def _linear_act_vmap(info, in_dims, x: Tensor, weight: Tensor, bias: Optional[Tensor], math: str, activation: str):
    before, _ = _linear_vmap(info, in_dims, x, weight, bias, math)
    return (_ACTIVATIONS[activation].forward(before), before), (0, 0)


def _mlp_vmap(info, in_dims, x: Tensor, w1: Tensor, b1: Optional[Tensor], w2: Tensor, b2: Optional[Tensor], math: str,
              activation: str):
    (hidden, before), _ = _linear_act_vmap(info, in_dims[:3], x, w1, b1, math, activation)
    y, _ = _linear_vmap(info, (0, *in_dims[3:5]), hidden, w2, b2, math)
    return (y, before, hidden), (0, 0, 0)


torch.library.register_vmap("tilewise::matmul", _matmul_vmap)
torch.library.register_vmap("tilewise::linear", _linear_vmap)
torch.library.register_vmap("tilewise::linear_act", _linear_act_vmap)
torch.library.register_vmap("tilewise::mlp", _mlp_vmap)


# The operator takes a packed weight by its number, and uses it as long as the weight has not changed since the pack.
_packed: dict[int, tuple[tuple, Packed]] = {}
_numbers = itertools.count(1)
_number_of: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()


def _state_of(weight: Tensor) -> tuple:
    version = 0 if weight.is_inference() else weight._version
    return weight.data_ptr(), version, weight.shape, weight.stride(), weight.dtype


class Linear(torch.nn.Linear):
    """torch.nn.Linear, multiplied by Tilewise. `math`, `activation`: see linear(). pack_weights() packs the weight once."""

    math = "strict"
    activation: Optional[str] = None

    def forward(self, x: Tensor) -> Tensor:
        packed = 0
        if _packed and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            packed = _number_of.get(self, 0)
        return _linear(x, self.weight, self.bias, self.math, packed, _activation_of(self.activation))

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


from ._quantized import QuantizedLinear, quantize_  # noqa: E402: they need this module
from ._scaled import quantize, scaled_mm  # noqa: E402
