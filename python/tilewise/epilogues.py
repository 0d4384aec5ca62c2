"""Epilogues as Python functions of numbers, for the argument epilogue of tilewise.matmul().

    from tilewise.epilogues import gelu

    def layer(acc, bias, residual):
        x = acc + bias
        return gelu(x) + residual, {"before": x}

    c = tilewise.matmul(x, w, epilogue=layer, bias=bias, residual=residual, before=before)

The function is called once with symbols and traced into the text that docs/epilogues.md describes. Its arguments are acc,
the sums, and operands by their names. The shape of an operand tells what it belongs to, as broadcasting does: (n,) a
column of the result, (m, 1) a row, (m, n) an element; a number or an array without dimensions is a scalar. The function
returns the value for the result, or that and a dictionary of further results: values, or column_sum(value).
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping, Union

from .errors import of_kind

__all__ = ["abs", "clamp", "column_sum", "erf", "exp", "gelu", "gelu_tanh", "log", "maximum", "minimum", "relu", "rsqrt",
           "sigmoid", "silu", "sqrt", "tanh", "where"]

Number = Union[int, float, "Value"]


class Value:
    """A number that is not known yet: text of an expression of the language."""

    __slots__ = ("_text",)

    def __init__(self, text: str):
        self._text = text

    def _with(self, sign: str, other: Number, swapped: bool = False) -> Value:
        if not isinstance(other, (int, float, Value)):
            return NotImplemented
        x, y = (_text(other), self._text) if swapped else (self._text, _text(other))
        return Value(f"({x} {sign} {y})")

    def __add__(self, other: Number) -> Value:
        return self._with("+", other)

    def __sub__(self, other: Number) -> Value:
        return self._with("-", other)

    def __mul__(self, other: Number) -> Value:
        return self._with("*", other)

    def __truediv__(self, other: Number) -> Value:
        return self._with("/", other)

    def __radd__(self, other: Number) -> Value:
        return self._with("+", other, True)

    def __rsub__(self, other: Number) -> Value:
        return self._with("-", other, True)

    def __rmul__(self, other: Number) -> Value:
        return self._with("*", other, True)

    def __rtruediv__(self, other: Number) -> Value:
        return self._with("/", other, True)

    def __neg__(self) -> Value:
        return Value(f"(-{self._text})")

    def __abs__(self) -> Value:
        return abs(self)

    def __lt__(self, other: Number) -> Condition:
        return Condition(self._text, "<", _text(other))

    def __le__(self, other: Number) -> Condition:
        return Condition(self._text, "<=", _text(other))

    def __gt__(self, other: Number) -> Condition:
        return Condition(self._text, ">", _text(other))

    def __ge__(self, other: Number) -> Condition:
        return Condition(self._text, ">=", _text(other))

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition(self._text, "==", _text(other))

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition(self._text, "!=", _text(other))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("the values of an epilogue are not known while it is traced; use where(condition, x, y)")


class Condition:
    """A comparison, for where()."""

    __slots__ = ("_text",)

    def __init__(self, x: str, sign: str, y: str):
        self._text = f"{x} {sign} {y}"

    __bool__ = Value.__bool__


class _Sum:
    def __init__(self, value: Number):
        self.text = _text(value)


def _text(value: object) -> str:
    if isinstance(value, Value):
        return value._text
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
        if number - number == 0:  # finite
            return repr(number) if number >= 0 else f"(-{-number!r})"
    raise TypeError(f"an epilogue is made of numbers, operands and acc, not of {value!r}")


def _function(name: str, count: int, doc: str) -> Callable[..., Value]:
    def function(*x: Number) -> Value:
        if len(x) != count:
            raise TypeError(f"{name}() takes {count} values, not {len(x)}")
        return Value(f"{name}({', '.join(_text(one) for one in x)})")

    function.__name__, function.__doc__ = name, doc
    return function


abs = _function("abs", 1, "|x|")
sqrt = _function("sqrt", 1, "The square root.")
rsqrt = _function("rsqrt", 1, "1 / sqrt(x)")
exp = _function("exp", 1, "e to the x")
log = _function("log", 1, "The natural logarithm.")
tanh = _function("tanh", 1, "The hyperbolic tangent.")
erf = _function("erf", 1, "The error function.")
sigmoid = _function("sigmoid", 1, "1 / (1 + exp(-x))")
silu = _function("silu", 1, "x sigmoid(x)")
relu = _function("relu", 1, "max(x, 0); keeps NaN.")
gelu = _function("gelu", 1, "x (1 + erf(x / sqrt 2)) / 2")
gelu_tanh = _function("gelu_tanh", 1, "The approximation of gelu by tanh.")
minimum = _function("min", 2, "The smaller value; keeps NaN.")
maximum = _function("max", 2, "The larger value; keeps NaN.")
clamp = _function("clamp", 3, "clamp(x, low, high): min(max(x, low), high)")


def where(condition: Condition, x: Number, y: Number) -> Value:
    """x where the comparison holds, else y."""
    if not isinstance(condition, Condition):
        raise TypeError("where() takes a comparison, such as x > 0")
    return Value(f"where({condition._text}, {_text(x)}, {_text(y)})")


def column_sum(value: Number) -> _Sum:
    """The sum over the rows of the result, for each column: a further result."""
    return _Sum(value)


def _index(name: str, operand: Any) -> str:
    shape = tuple(getattr(operand, "shape", ()))
    if not shape:
        return name
    if len(shape) == 1:
        return name + "[j]"
    return name + ("[i]" if shape[-1] == 1 else "[i,j]")


def trace(function: Callable[..., Any], operands: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The text of an epilogue, and its operands in the shapes that the text describes. Raises InvalidArgument."""
    names = list(inspect.signature(function).parameters)
    if not names or names[0] != "acc":
        raise of_kind("invalid_argument", f"the first argument of an epilogue is acc, not {(names or ['none'])[0]}")
    for name in names[1:]:
        if name not in operands:
            raise of_kind("invalid_argument", f"the operand {name} of the epilogue is missing: pass {name}=")
    try:
        made = function(Value("acc"), *(Value(_index(name, operands[name])) for name in names[1:]))
        c, further = made if isinstance(made, tuple) else (made, {})
        statements = []
        for name, value in further.items():
            sums = isinstance(value, _Sum)
            text = f"sum({value.text})" if sums else _text(value)
            statements.append(f"{name}{'[j]' if sums else '[i,j]'} = {text}; ")
        text = "".join(statements) + _text(c)
    except (TypeError, ValueError, AttributeError) as failure:
        raise of_kind("invalid_argument", f"the epilogue cannot be traced: {failure}") from failure
    # A column of m numbers is read as a vector.
    shaped = {name: operand.reshape(*operand.shape[:-1]) if f"{name}[i]" in text else operand
              for name, operand in operands.items()}
    return text, shaped
