"""Epilogues as Python functions of numbers, for the argument epilogue of tilewise.matmul().

    from tilewise.epilogues import gelu

    def layer(acc, bias, residual):
        x = acc + bias
        return gelu(x) + residual, {"before": x}

    c = tilewise.matmul(x, w, epilogue=layer, bias=bias, residual=residual, before=before)

The function is called once with symbols and traced into the text that docs/epilogues.md describes. Its arguments are acc,
the sums, and operands by their names. The shape of an operand tells what it belongs to, as broadcasting does: (n,) or
(1, n) a column of the result, (m, 1) a row, (m, n) an element; a number or an array without dimensions is a scalar. The
function returns the value for the result, or that and a dictionary of further results: values, or column_sum(value).
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterable, Mapping, Union

from .errors import of_kind

__all__ = ["abs", "clamp", "column_sum", "erf", "exp", "gelu", "gelu_tanh", "log", "maximum", "minimum", "relu", "rsqrt",
           "sigmoid", "silu", "sqrt", "tanh", "trace", "where"]

Number = Union[int, float, "Value"]


class Value:
    """A number that is not known yet: a part of an expression, and the parts that it is made of."""

    __slots__ = ("_form", "_parts")

    def __init__(self, form: str, *parts: Number):
        self._form = form  # with {} for each part
        self._parts = tuple(map(_value, parts))

    def _with(self, sign: str, other: Number, swapped: bool = False) -> Value:
        if not isinstance(other, (int, float, Value)):
            return NotImplemented
        x, y = (other, self) if swapped else (self, other)
        return Value(f"({{}} {sign} {{}})", x, y)

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
        return Value("(-{})", self)

    def __abs__(self) -> Value:
        return abs(self)

    def __lt__(self, other: Number) -> Condition:
        return Condition(self, "<", other)

    def __le__(self, other: Number) -> Condition:
        return Condition(self, "<=", other)

    def __gt__(self, other: Number) -> Condition:
        return Condition(self, ">", other)

    def __ge__(self, other: Number) -> Condition:
        return Condition(self, ">=", other)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition(self, "==", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition(self, "!=", other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("the values of an epilogue are not known while it is traced; use where(condition, x, y)")


class Condition:
    """A comparison, for where()."""

    __slots__ = ("_sign", "_parts")

    def __init__(self, x: Number, sign: str, y: Number):
        self._sign, self._parts = sign, (x, y)

    __bool__ = Value.__bool__


class _Sum:
    def __init__(self, value: Number):
        self.value = _value(value)


def _value(value: object) -> Value:
    if isinstance(value, Value):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
        if number - number == 0:  # finite
            return Value(repr(number) if number >= 0 else f"(-{-number!r})")
    raise TypeError(f"an epilogue is made of numbers, operands and acc, not of {value!r}")


def _texts(values: list[Value], taken: Iterable[str]) -> tuple[str, list[str]]:
    """Statements that name what several values share, by names that are not taken, and the text of each value."""
    numbers: dict[tuple, int] = {}  # of each different part
    parts: list[tuple[str, tuple[int, ...]]] = []  # those of a part before the part
    known: dict[int, int] = {}  # by id(): `values` keep all parts
    waiting = list(reversed(values))
    while waiting:
        value = waiting[-1]
        missing = [part for part in value._parts if id(part) not in known]
        if id(value) not in known and missing:
            waiting += missing
            continue
        waiting.pop()
        if id(value) not in known:
            key = value._form, tuple(known[id(part)] for part in value._parts)
            known[id(value)] = numbers.setdefault(key, len(parts))
            if numbers[key] == len(parts):
                parts.append(key)
    roots = [known[id(value)] for value in values]
    uses = [0] * len(parts)
    for number in [*roots, *(of for _, made_of in parts for of in made_of)]:
        uses[number] += 1
    prefix = "t"
    while any(name.startswith(prefix) and name[len(prefix):].isdigit() for name in taken):
        prefix += "t"
    statements, texts = [], []
    for form, made_of in parts:
        text = form.format(*(texts[number] for number in made_of))
        if made_of and uses[len(texts)] > 1:
            name = f"{prefix}{len(statements)}"
            statements.append(f"{name} = {text}; ")
            text = name
        texts.append(text)
    return "".join(statements), [texts[root] for root in roots]


def _function(name: str, count: int, doc: str) -> Callable[..., Value]:
    def function(*x: Number) -> Value:
        if len(x) != count:
            raise TypeError(f"{name}() takes {count} values, not {len(x)}")
        return Value(f"{name}({', '.join(['{}'] * count)})", *x)

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
    return Value(f"where({{}} {condition._sign} {{}}, {{}}, {{}})", *condition._parts, x, y)


def column_sum(value: Number) -> _Sum:
    """The sum over the rows of the result, for each column: a further result."""
    return _Sum(value)


def _index(operand: Any) -> str:
    shape = tuple(getattr(operand, "shape", ()))
    if not shape:
        return ""
    if len(shape) == 1 or (shape[-2] == 1 and shape[-1] != 1):
        return "[j]"
    return "[i]" if shape[-1] == 1 else "[i,j]"


def _as_read(operand: Any) -> Any:
    """A column of m numbers, or a row of n, is read as a vector."""
    shape, index = tuple(getattr(operand, "shape", ())), _index(operand)
    if index == "[i]":
        return operand.reshape(shape[:-1])
    return operand.reshape(*shape[:-2], shape[-1]) if index == "[j]" and len(shape) > 1 else operand


def trace(function: Callable[..., Any], operands: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The text of an epilogue, and its operands in the shapes that the text describes. Raises InvalidArgument.

    tune(), prepare() and explain() take the text.
    """
    names = list(inspect.signature(function).parameters)
    if not names or names[0] != "acc":
        raise of_kind("invalid_argument", f"the first argument of an epilogue is acc, not {(names or ['none'])[0]}")
    for name in names[1:]:
        if name not in operands:
            raise of_kind("invalid_argument", f"the operand {name} of the epilogue is missing: pass {name}=")
    try:
        made = function(Value("acc"), *(Value(name + _index(operands[name])) for name in names[1:]))
        c, further = made if isinstance(made, tuple) else (made, {})
        values = [value.value if isinstance(value, _Sum) else _value(value) for value in (*further.values(), c)]
        text, texts = _texts(values, [*operands, *further])
        for (name, value), one in zip(further.items(), texts):
            text += f"{name}[j] = sum({one}); " if isinstance(value, _Sum) else f"{name}[i,j] = {one}; "
        text += texts[-1]
    except (TypeError, ValueError, AttributeError) as failure:
        raise of_kind("invalid_argument", f"the epilogue cannot be traced: {failure}") from failure
    return text, {name: _as_read(operand) if name in names else operand for name, operand in operands.items()}
