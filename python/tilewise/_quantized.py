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
_library.define("quantized_linear(Tensor x, Tensor weight, Tensor scales, Tensor? bias, int group, Tensor? zeros=None, Tensor? order=None)"
                " -> Tensor")


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


def _dequantized(weight: Tensor, scales: Tensor, group: int, zeros: Optional[Tensor]) -> Tensor:
    numbers = _numbers(weight)
    if zeros is not None:
        numbers = numbers - _spread(zeros, group, numbers.shape[1])
    return numbers * _spread(scales, group, numbers.shape[1])


def _now(x: Tensor, weight: Tensor, scales: Tensor, bias: Optional[Tensor], group: int, zeros: Optional[Tensor] = None,
         order: Optional[Tensor] = None) -> Tensor:
    x, weight, scales, bias, zeros, order = _operators._detached(x, weight, scales, bias, zeros, order)
    if x.dtype not in _KINDS or x.shape[-1] != _columns(weight):
        raise ValueError(f"x has the shape {tuple(x.shape)} and is of {x.dtype}; a layer of {_columns(weight)} inputs with narrow "
                         f"weights takes (..., {_columns(weight)}) of float16 or bfloat16")
    if order is not None:
        x = x[..., order]
    if _operators._by_torch(x):
        with torch.autocast(x.device.type, enabled=False):  # which would multiply in fewer bits
            y = x.float() @ _dequantized(weight, scales, group, zeros).T
        return (y if bias is None else y + bias.float()).to(x.dtype)
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    out = x.new_empty((rows.shape[0], weight.shape[0]))
    operands = {"s": scales}
    if zeros is not None:
        text, operands["z"] = f"acc(s[k/{group},j], z[k/{group},j])", zeros
    else:
        text = f"acc(s[k/{group},j])" if group else "acc*s[j]"
    where = {"device": None if x.is_cuda else "host", "invariant": _operators.is_batch_invariant()}
    if bias is not None:
        text, operands["bias"] = text + " + bias[j]", bias
    b = Int4(weight).T if weight.dtype == torch.uint8 else weight.T
    _operators._product(rows, b, out, epilogue=text, **where, **operands)
    return out.reshape(*x.shape[:-1], weight.shape[0])


for _key in ("CPU", "CUDA"):
    _library.impl("quantized_linear", _now, _key)


@torch.library.register_fake("tilewise::quantized_linear")
def _fake(x: Tensor, weight: Tensor, scales: Tensor, bias: Optional[Tensor], group: int, zeros: Optional[Tensor] = None,
          order: Optional[Tensor] = None) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _bytes_of(whole: Tensor) -> Tensor:
    """Integers from -8 to 7, (n, k) with an even k, as the stored weight."""
    low, high = whole[:, 0::2] & 15, whole[:, 1::2] & 15
    return (low | high << 4).to(torch.uint8).contiguous()


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
    return _bytes_of(whole), scales


def _quantized_from(weight: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """The stored weight of i4, its scales, and zero points: 16 steps from the least weight of a group to the largest, or to 0."""
    n, k = weight.shape
    padded = torch.nn.functional.pad(weight.float(), (0, -k % group)).reshape(n, -1, group)
    least, largest = padded.amin(2).clamp(max=0), padded.amax(2).clamp(min=0)
    scales = ((largest - least) / 15).to(weight.dtype).clamp(min=torch.finfo(weight.dtype).tiny)
    zeros = (-8 - least / scales.float()).round().clamp(-8, 7)
    numbers = weight.float() / _spread(scales.T, group, k) + _spread(zeros.T, group, k)
    return _bytes_of(numbers.round().clamp(-8, 7).to(torch.int8)), scales.T.contiguous(), zeros.T.contiguous().to(torch.int8)


def _fields(words: Tensor, bits: int) -> Tensor:
    """(rows, columns) of 32-bit integers as the integers without a sign in them, (rows, columns, 32 / bits), the lowest bits first."""
    if words.dtype not in (torch.int32, torch.uint32) or words.dim() != 2:
        raise ValueError(f"packed weights are {words.dtype} of {words.dim()} dimensions; they are matrices of int32")
    return words.view(torch.int32)[:, :, None] >> torch.arange(0, 32, bits, dtype=torch.int32, device=words.device) & (1 << bits) - 1


class QuantizedLinear(torch.nn.Module):
    """torch.nn.Linear with narrow weights, for inference: x (..., in_features) of float16 or bfloat16. No derivative.

    weight: "i4" with a scale of each `group` inputs of an output (a power of two from 32; in_features is even), "i8" or "e4m3"
    with one scale of each output (`group` 0), or with scales of groups, too. A scale is the largest magnitude of its weights
    over the largest number of the type, rounded to the layer's type; weights are rounded to nearest. zero_points (of "i4"): a
    group's 16 numbers go from its least weight to its largest. Buffers: weight (bytes; of i4 two in a byte, the first in the low
    bits), scales, zeros (in the numbers of the weight: a weight is (number - zero) scale), order (of the inputs), bias.
    torch.compile keeps the product as one operator. batch_invariant() holds for it. from_gptq() and from_awq() make layers of other
    libraries' weights.
    """

    def __init__(self, linear: torch.nn.Linear, weight: str = "i4", group: Optional[int] = None, zero_points: bool = False):
        super().__init__()
        group = (128 if weight == "i4" else 0) if group is None else group
        if weight not in _LARGEST:
            raise ValueError(f"weight is {weight!r}; it is one of {', '.join(_LARGEST)}")
        if group and (group < 32 or group & (group - 1)) or weight == "i4" and not group:
            raise ValueError(f"group is {group}; it is a power of two from 32" + ("" if weight == "i4" else ", or 0: one scale of each output"))
        if linear.weight.dtype not in _KINDS or weight == "i4" and linear.in_features % 2:
            raise ValueError(f"the layer has {linear.in_features} inputs and weights of {linear.weight.dtype}; narrow weights are made of "
                             "float16 or bfloat16, and i4 of an even number of inputs")
        if zero_points and weight != "i4":
            raise ValueError(f"zero_points are of i4, not of {weight}")
        made = linear.weight.detach()
        stored, scales, *zeros = _quantized_from(made, group) if zero_points else _quantized(made, weight, group)
        self._set(weight, group, stored, scales, zeros[0] if zeros else None, None, None if linear.bias is None else linear.bias.detach().clone())

    def _set(self, kind: str, group: int, weight: Tensor, scales: Tensor, zeros: Optional[Tensor], order: Optional[Tensor],
             bias: Optional[Tensor]) -> None:
        self.in_features, self.out_features, self.kind, self.group = _columns(weight), weight.shape[0], kind, group
        for name, buffer in (("weight", weight), ("scales", scales), ("zeros", zeros), ("order", order), ("bias", bias)):
            self.register_buffer(name, buffer)

    @classmethod
    def _of_unsigned(cls, bits: int, numbers: Tensor, zeros: Tensor, scales: Tensor, order: Optional[Tensor],
                     bias: Optional[Tensor]) -> QuantizedLinear:
        """Of integers of so many bits, without a sign, (k, n), and zero points among them, (groups, n)."""
        k, n = numbers.shape
        groups = scales.shape[0]
        # One group may be longer than k.
        group = max(32, 1 << (k - 1).bit_length()) if groups == 1 else k // groups
        if scales.shape != zeros.shape or scales.shape[1] != n or group < 32 or group & (group - 1) or groups > 1 and k % groups or k % 2:
            raise ValueError(f"weights of {k} inputs and {n} outputs have scales {tuple(scales.shape)} and zero points {tuple(zeros.shape)}; "
                             "both are (groups, outputs), and the inputs of a group a power of two from 32")
        if scales.dtype not in _KINDS:
            raise ValueError(f"scales are of {scales.dtype}; they are of float16 or bfloat16, as the layer's inputs")
        layer = cls.__new__(cls)
        torch.nn.Module.__init__(layer)
        shifted = (zeros - (1 << bits - 1)).to(torch.int8)
        weight = (numbers - (1 << bits - 1)).T.to(torch.int8)
        layer._set(f"i{bits}", group, _bytes_of(weight) if bits == 4 else weight.contiguous(), scales.contiguous(),
                   shifted if shifted.any() else None, order, bias)
        return layer

    @classmethod
    def from_gptq(cls, qweight: Tensor, qzeros: Tensor, scales: Tensor, g_idx: Optional[Tensor] = None, bias: Optional[Tensor] = None,
                  checkpoint_format: str = "gptq", bits: int = 4) -> QuantizedLinear:
        """A layer of weights of 4 or 8 bits as GPTQ's files have them.

        qweight: (in_features bits / 32, out_features) of int32, eight or four inputs in a word. qzeros: (groups, out_features bits / 32)
        of int32, as many outputs in a word. scales: (groups, out_features). The lowest bits are the first. g_idx: the group of each input, where they
        are not in order ("act-order"): the layer permutes its inputs. checkpoint_format: that of the file's configuration; "gptq"
        stores zero points less 1 (whole words, so that a zero borrows from its neighbour), "gptq_v2" as they are. Some files with zero points of 8 state "gptq". Source: the layout that
        AutoGPTQ's files and those of its successors have.
        """
        if checkpoint_format not in ("gptq", "gptq_v2"):
            raise ValueError(f"checkpoint_format is {checkpoint_format!r}; it is gptq or gptq_v2")
        if bits not in (4, 8):
            raise ValueError(f"bits are {bits}; they are 4 or 8")
        numbers = _fields(qweight, bits).permute(0, 2, 1).reshape(-1, qweight.shape[1])
        if checkpoint_format == "gptq":
            qzeros = qzeros.view(torch.int32) + (0x11111111 if bits == 4 else 0x01010101)  # modulo 2^32
        zeros = _fields(qzeros, bits).reshape(qzeros.shape[0], -1)
        order = None
        if g_idx is not None:
            groups, counts = torch.arange(len(scales), device=g_idx.device), g_idx.long().bincount(minlength=len(scales))
            if g_idx.shape != numbers.shape[:1] or len(counts) != len(groups) or (counts != numbers.shape[0] // len(scales)).any():
                raise ValueError(f"g_idx has the shape {tuple(g_idx.shape)} and {len(counts)} groups; it has one of {len(scales)} groups for "
                                 f"each of {numbers.shape[0]} inputs, which all groups have equally many of")
            order = g_idx.long().argsort(stable=True)
            if (order == torch.arange(len(order), device=order.device)).all():
                order = None
            else:
                numbers = numbers[order]
        return cls._of_unsigned(bits, numbers, zeros, scales, order, bias)

    @classmethod
    def from_awq(cls, qweight: Tensor, qzeros: Tensor, scales: Tensor, bias: Optional[Tensor] = None) -> QuantizedLinear:
        """A layer of 4-bit weights as AWQ's files have them ("gemm").

        qweight: (in_features, out_features / 8) of int32; qzeros: (groups, out_features / 8) of int32. A word has eight outputs,
        from the lowest bits on the numbers 0, 2, 4, 6, 1, 3, 5, 7 of them. scales: (groups, out_features). Source: the layout that
        AutoAWQ's files have.
        """
        columns = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7], device=qweight.device)  # where each output is
        outputs = [_fields(words, 4)[:, :, columns].reshape(words.shape[0], -1) for words in (qweight, qzeros)]
        return cls._of_unsigned(4, *outputs, scales, None, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.tilewise.quantized_linear(x, self.weight, self.scales, self.bias, self.group, self.zeros, self.order)

    def dequantized(self) -> Tensor:
        """The weights times their scales, (out_features, in_features) of float32."""
        in_order = _dequantized(self.weight, self.scales, self.group, self.zeros)
        return in_order if self.order is None else in_order[:, self.order.argsort()]

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, weight={self.kind!r}, group={self.group}"


def quantize_(model: torch.nn.Module, weight: str = "i4", group: Optional[int] = None,
              keep: Optional[Callable[[str, torch.nn.Linear], bool]] = None, zero_points: bool = False) -> int:
    """Replaces every torch.nn.Linear in the model by a QuantizedLinear. Returns how many.

    weight, group, zero_points: see QuantizedLinear. keep(name, layer): true for layers that stay unchanged, such as the last one of a language
    model. Only layers of exactly the type torch.nn.Linear or tilewise.torch.Linear are replaced. The model itself is no Linear.
    Raises ValueError for a layer that cannot be replaced; those before it are replaced then.
    """
    count = 0
    for name, module in list(model.named_modules()):
        for child_name, child in list(module.named_children()):
            path = f"{name}.{child_name}" if name else child_name
            if type(child) in (torch.nn.Linear, _operators.Linear) and not (keep and keep(path, child)):
                setattr(module, child_name, QuantizedLinear(child, weight, group, zero_points))
                count += 1
    return count
