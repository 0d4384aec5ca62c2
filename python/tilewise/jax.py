"""Tilewise on JAX's arrays. JAX cannot order its work on the product's stream, so a product is done when it returns.
jit does not trace products."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._tilewise import fill as _fill

__all__ = ["matmul"]


def matmul(a: Any, b: Any, *, math: str = "strict", accuracy: float | None = None,
           device: str | int | None = None) -> jax.Array:
    """a @ b for concrete arrays (..., m, k) and (..., k, n) of one type on one device; see tilewise.matmul().

    int8 gives int32, 8-bit floats float32. Raises tilewise.Error; TypeError for traced arrays.
    """
    for name, x in (("a", a), ("b", b)):
        if isinstance(x, jax.core.Tracer):
            raise TypeError(f"{name} is traced: call tilewise.jax.matmul outside of jit, grad and vmap")
    kind = np.dtype(a.dtype)
    result = jnp.int32 if kind == jnp.int8 else jnp.float32 if kind.itemsize == 1 else kind
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    place = next(iter(a.devices()))
    # A new buffer that no other array shares, so nothing reads it before it has its values.
    with jax.default_device(place):
        out = jax.block_until_ready(jnp.empty((*batch, a.shape[-2], b.shape[-1]), result))
    jax.block_until_ready((a, b))
    _fill(a, b, out, math, accuracy, device)
    if place.platform == "gpu":
        _synchronize(place.local_hardware_id)
    return out


def _synchronize(index: int) -> None:
    """Waits for the legacy default stream of a device's primary context, on which the product runs."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: Any) -> None:
        status = getattr(cuda, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with {status}")

    device, context, popped = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxPushCurrent_v2", context)
    try:
        call("cuStreamSynchronize", None)
    finally:
        call("cuCtxPopCurrent_v2", ctypes.byref(popped))
        call("cuDevicePrimaryCtxRelease_v2", device)
