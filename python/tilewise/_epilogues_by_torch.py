"""Epilogues in PyTorch's own operators, for tensors on the CPU."""

from __future__ import annotations

import ast
import operator
import re
from typing import Any

import torch
from torch import Tensor

_FUNCTIONS = {
    "abs": torch.abs, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh,
    "erf": torch.erf, "sigmoid": torch.sigmoid, "silu": torch.nn.functional.silu, "relu": torch.relu,
    "gelu": torch.nn.functional.gelu, "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "min": torch.minimum, "max": torch.maximum, "clamp": lambda x, low, high: torch.minimum(torch.maximum(x, low), high),
    "where": torch.where,
}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Lt: operator.lt,
              ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne}


def computed(acc: Tensor, result_type: torch.dtype, epilogue: str, named: dict[str, Any], further: dict[str, Tensor]) -> Tensor:
    """The epilogue in PyTorch's own operators: its expressions are Python's but for indices and types."""
    kind = torch.float64 if result_type == torch.float64 else torch.float32
    known: dict[str, Tensor] = {"acc": acc.to(kind) + 0}  # a sum of 0 is +0
    for name, given in named.items():
        value = torch.as_tensor(given, dtype=kind, device=acc.device)
        by_row = re.search(rf"\b{name}\s*(:\s*\w+\s*)?\[\s*i\s*\]", epilogue)
        known[name] = value.reshape(-1, 1) if by_row else value

    def value_of(node: ast.AST) -> Tensor:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value_of(node.operand)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
            return _OPERATORS[type(node.ops[0])](value_of(node.left), value_of(node.comparators[0]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            if node.func.id == "sum":
                return value_of(node.args[0]).expand(acc.shape).sum(0)
            if node.func.id == "acc":
                raise ValueError(f'epilogue "{epilogue}": PyTorch has no scales of blocks of k; on_cpu("host") has')
            if node.func.id in _FUNCTIONS:
                return _FUNCTIONS[node.func.id](*map(value_of, node.args))
        if isinstance(node, ast.Name) and node.id in known:
            return known[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return torch.tensor(node.value, dtype=kind, device=acc.device)
        raise ValueError(f'epilogue "{epilogue}": {ast.unparse(node)} is no number, operand, function or operator')

    result = known["acc"]
    for statement in filter(str.strip, epilogue.split(";")):
        text = _without_indices(statement)
        assigned = re.match(r"\s*(\w+)\s*=(?!=)", text)
        text = text[assigned.end() if assigned else 0:]
        try:
            value = value_of(ast.parse(" ".join(text.split()), mode="eval").body)
        except SyntaxError as failure:
            raise ValueError(f'epilogue "{epilogue}": {failure.msg}') from failure
        if not assigned:
            result = value
        elif assigned[1] in further:
            further[assigned[1]].copy_(_stored(value.expand(further[assigned[1]].shape), further[assigned[1]].dtype))
        else:
            known[assigned[1]] = value
    return _stored(result.expand(acc.shape), result_type)


def _stored(value: Tensor, kind: torch.dtype) -> Tensor:
    """Integers are rounded to nearest and saturate, 8-bit floats saturate."""
    if not kind.is_floating_point:
        least, most = torch.iinfo(kind).min, torch.iinfo(kind).max
        return value.to(torch.float64).nan_to_num(0.0, most, least).round().clamp(least, most).to(kind)
    return value.clamp(-torch.finfo(kind).max, torch.finfo(kind).max).to(kind) if kind.itemsize == 1 else value.to(kind)


def _without_indices(statement: str) -> str:
    return re.sub(r":\s*\w+|\[[^\]]*\]", "", statement)
