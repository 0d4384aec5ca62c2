"""Subclasses of other libraries' arrays whose meaning is not in their memory alone: masks, units, wrapped tensors."""

from __future__ import annotations

import sys

_NUMPY_HOOKS = ("__array_finalize__", "__array_ufunc__", "__array_function__", "__array_wrap__", "__array_prepare__")
_TORCH_HOOKS = ("__torch_function__", "__torch_dispatch__")


def _libraries():
    """For each loaded library, its plain array types, base first, and the methods by which a subclass changes the
    meaning of arrays."""
    for name, plain, hooks in (
            ("numpy", ("ndarray", "matrix", "memmap", "recarray"), _NUMPY_HOOKS),
            ("cupy", ("ndarray",), _NUMPY_HOOKS),
            ("torch", ("Tensor", "nn.Parameter", "nn.Buffer"), _TORCH_HOOKS)):
        library = sys.modules.get(name)
        if library is not None:
            yield [kind for kind in (_named(library, path) for path in plain) if kind is not None], hooks


def _named(library, path: str):
    for part in path.split("."):
        library = getattr(library, part, None)
    return library


def meaning_of(kind: type) -> str:
    """The method by which a subclass may give its memory another meaning; "" for plain arrays."""
    for plain, hooks in _libraries():
        if not plain or not isinstance(plain[0], type) or not issubclass(kind, plain[0]):
            continue
        for hook in hooks:
            owner = next((one for one in kind.__mro__ if hook in vars(one)), None)
            if owner is not None and owner not in plain and not issubclass(plain[0], owner):
                return f"{owner.__module__}.{owner.__qualname__} has its own {hook}"
    return ""
