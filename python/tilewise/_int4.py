"""Matrices of 4-bit integers, as which matmul() reads arrays of bytes."""

from __future__ import annotations


class Int4:
    """A matrix of 4-bit integers (-8 to 7), the b of a matmul() whose a is f16 or bf16.

    array: of 8-bit integers, signed or not, of any framework that matmul() takes. Each byte has two numbers that are
    neighbours along the last dimension, the first in the low bits: an array of (..., n, k / 2) is a matrix of (..., n, k).
    The array is not copied. Weights that are stored as n x k are the b of a product as Int4(array).T. Immutable.
    """

    __slots__ = ("array", "transposed")
    __tilewise_int4__ = True

    def __init__(self, array, transposed=False):
        if str(array.dtype).endswith("uint8"):
            is_torch = type(array).__module__.split(".")[0] == "torch"
            array = array.view(__import__("torch").int8 if is_torch else "int8")
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "transposed", transposed)

    def __setattr__(self, name, value):
        raise AttributeError("an Int4 is immutable")

    @property
    def T(self):
        """The transpose, of the same memory."""
        return Int4(self.array, not self.transposed)

    @property
    def shape(self):
        """Sizes in numbers, not in bytes."""
        *leading, rows, columns = self.array.shape
        return (*leading, 2 * columns, rows) if self.transposed else (*leading, rows, 2 * columns)
