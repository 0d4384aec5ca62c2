"""Linear layers with narrow weights, for inference: 4-bit integers in groups, 8-bit integers or floats by columns."""

from __future__ import annotations

from typing import Callable, Optional

import torch
from torch import Tensor

from . import torch as _operators
from ._int4 import Int4

_LARGEST = {"i4": 7, "i8": 127, "e4m3": 448}
_KINDS = (torch.float16, torch.bfloat16)
_library = torch.library.Library("tilewise", "FRAGMENT")
_library.define("quantized_linear(Tensor x, Tensor weight, Tensor scales, Tensor? bias, int group) -> Tensor")


def _columns(weight: Tensor) -> int:
    """The numbers in a row of a stored weight."""
    return weight.shape[1] * (2 if weight.dtype == torch.uint8 else 1)


def _numbers(weight: Tensor) -> Tensor:
    """A stored weight as float32: bytes without a sign have two integers of 4 bits."""
    if weight.dtype != torch.uint8:
        return weight.float()
    both = torch.stack((weight & 15, weight >> 4), dim=-1).reshape(weight.shape[0], -1)
    return (both.to(torch.int8) ^ 8).float() - 8


def _spread(scales: Tensor, group: int, k: int) -> Tensor:
    """A scale for each element of a weight, (n, k)."""
    return scales.float().T.repeat_interleave(group, 1)[:, :k] if group else scales.float()[:, None]


def _now(x: Tensor, weight: Tensor, scales: Tensor, bias: Optional[Tensor], group: int) -> Tensor:
    x, weight, scales, bias = _operators._detached(x, weight, scales, bias)
    if x.dtype not in _KINDS or x.shape[-1] != _columns(weight):
        raise ValueError(f"x has the shape {tuple(x.shape)} and is of {x.dtype}; a layer of {_columns(weight)} inputs with narrow "
                         f"weights takes (..., {_columns(weight)}) of float16 or bfloat16")
    if _operators._by_torch(x):
        y = x.float() @ (_numbers(weight) * _spread(scales, group, x.shape[-1])).T
        return (y if bias is None else y + bias.float()).to(x.dtype)
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = x.new_empty((rows.shape[0], weight.shape[0]))
    text, operands = f"acc(s[k/{group},j])" if group else "acc*s[j]", {"s": scales}
    if bias is not None:
        text, operands["bias"] = text + " + bias[j]", bias
    b = Int4(weight).T if weight.dtype == torch.uint8 else weight.T
    _operators._product(rows, b, out, device=None if x.is_cuda else "host", invariant=_operators.is_batch_invariant(), epilogue=text,
                        **operands)
    return out.reshape(*x.shape[:-1], weight.shape[0])


for _key in ("CPU", "CUDA"):
    _library.impl("quantized_linear", _now, _key)


@torch.library.register_fake("tilewise::quantized_linear")
def _fake(x: Tensor, weight: Tensor, scales: Tensor, bias: Optional[Tensor], group: int) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _quantized(weight: Tensor, kind: str, group: int) -> tuple[Tensor, Tensor]:
    """The stored weight (n, k), and its scales: (k / group, n) of groups, (n) of columns of the product."""
    n, k = weight.shape
    if group:
        padded = torch.nn.functional.pad(weight.float(), (0, -k % group)).reshape(n, -1, group)
        scales = (padded.abs().amax(2) / _LARGEST[kind]).T.contiguous()
    else:
        scales = weight.float().abs().amax(1) / _LARGEST[kind]
    scales = scales.to(weight.dtype).clamp(min=torch.finfo(weight.dtype).tiny)
    numbers = weight.float() / _spread(scales, group, k)
    if kind == "e4m3":
        return numbers.clamp(-448, 448).to(torch.float8_e4m3fn), scales
    whole = numbers.round().clamp(-_LARGEST[kind] - 1, _LARGEST[kind]).to(torch.int8)
    if kind == "i8":
        return whole, scales
    low, high = whole[:, 0::2] & 15, whole[:, 1::2] & 15
    return (low | high << 4).to(torch.uint8), scales


class QuantizedLinear(torch.nn.Module):
    """torch.nn.Linear with narrow weights, for inference: x (..., in_features) of float16 or bfloat16. No derivative.

    weight: "i4" with a scale of each `group` inputs of an output (a power of two from 32; in_features is even), "i8" or "e4m3"
    with one scale of each output (`group` 0), or with scales of groups, too. A scale is the largest magnitude of its weights
    over the largest number of the type, rounded to the layer's type; weights are rounded to nearest. Buffers: weight (bytes;
    of i4 two in a byte, the first in the low bits), scales, bias. torch.compile keeps the product as one operator.
    """

    def __init__(self, linear: torch.nn.Linear, weight: str = "i4", group: Optional[int] = None):
        super().__init__()
        group = (128 if weight == "i4" else 0) if group is None else group
        if weight not in _LARGEST:
            raise ValueError(f"weight is {weight!r}; it is one of {', '.join(_LARGEST)}")
        if group and (group < 32 or group & (group - 1)) or weight == "i4" and not group:
            raise ValueError(f"group is {group}; it is a power of two from 32" + ("" if weight == "i4" else ", or 0: one scale of each output"))
        if linear.weight.dtype not in _KINDS or weight == "i4" and linear.in_features % 2:
            raise ValueError(f"the layer has {linear.in_features} inputs and weights of {linear.weight.dtype}; narrow weights are made of "
                             "float16 or bfloat16, and i4 of an even number of inputs")
        self.in_features, self.out_features, self.kind, self.group = linear.in_features, linear.out_features, weight, group
        stored, scales = _quantized(linear.weight.detach(), weight, group)
        self.register_buffer("weight", stored)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.tilewise.quantized_linear(x, self.weight, self.scales, self.bias, self.group)

    def dequantized(self) -> Tensor:
        """The weights times their scales, (out_features, in_features) of float32."""
        return _numbers(self.weight) * _spread(self.scales, self.group, self.in_features)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, weight={self.kind!r}, group={self.group}"


def quantize_(model: torch.nn.Module, weight: str = "i4", group: Optional[int] = None,
              keep: Optional[Callable[[str, torch.nn.Linear], bool]] = None) -> int:
    """Replaces every torch.nn.Linear in the model by a QuantizedLinear. Returns how many.

    weight, group: see QuantizedLinear. keep(name, layer): true for layers that stay unchanged, such as the last one of a language
    model. Only layers of exactly the type torch.nn.Linear or tilewise.torch.Linear are replaced. The model itself is no Linear.
    Raises ValueError for a layer that cannot be replaced; those before it are replaced then.
    """
    count = 0
    for name, module in list(model.named_modules()):
        for child_name, child in list(module.named_children()):
            path = f"{name}.{child_name}" if name else child_name
            if type(child) in (torch.nn.Linear, _operators.Linear) and not (keep and keep(path, child)):
                setattr(module, child_name, QuantizedLinear(child, weight, group))
                count += 1
    return count
