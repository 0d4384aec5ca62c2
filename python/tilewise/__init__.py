"""Matrix products tuned on the GPU that runs them: searched for once, stored, then served.

    import tilewise
    tilewise.tune([(1023, 1023, 1023)], dtype="bf16")     # once
    c = tilewise.matmul(a, b)                             # PyTorch, CuPy, Numba, NumPy

Thread-safe. Products are enqueued on the framework's current stream, like its own operations.
"""

from __future__ import annotations

import os as _os
import sys as _sys

from . import _tilewise, programs
from ._int4 import Int4
from ._tilewise import Packed, grouped, matmul, pack, quantize
from .errors import DeviceError, Error, InvalidArgument, NotFound, OutOfMemory, Unsupported
from .many import tune_many
from .programs import bundle, cover, query, tune

__all__ = [
    "matmul", "grouped", "pack", "Packed", "quantize", "Int4", "prepare", "explain", "fingerprint", "configure", "tune", "tune_many", "cover", "query",
    "bundle",
    "Error", "InvalidArgument", "NotFound", "Unsupported", "DeviceError", "OutOfMemory", "__version__",
]
__version__ = _tilewise.version()


def _device_of(device):
    """The device that None means: PyTorch's current one, or the first."""
    if device is not None:
        return device
    torch = _sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else 0


def prepare(m, n, k, *, layout="nn", dtype="f32", out=None, math="strict", batch=1, last_m=None, device=None,
            epilogue=None, invariant=False, grouped="none", distribution="even", dtype_b=None):
    """Loads (and if necessary compiles) the kernels of a product of tightly packed matrices now.

    The first product is then as fast as the next and can be captured into a CUDA graph. Raises Error. Thread-safe.
    m, n, k: sizes of C (m x n) = op(A) op(B). last_m: prepares every number of rows from m to this, at most 65,536.
    layout: "nn", "nt", "tn" or "tt"; t: stored transposed. dtype: type of A and B, dtype_b: of B where it is narrower
    ("i4", "i8", "e4m3" beside "f16" or "bf16"), out: type of C; names as in lists of problems ("f32", "f64", "f16",
    "bf16", "i8", "e4m3", "e5m2"; out also "i32"). device: an index, or "host" (also
    "cpu"); None: PyTorch's current device, or 0. epilogue: its text; operands of another type than the result's are
    stated, as in "acc + bias:f32[j]". invariant: see matmul(). grouped: of grouped(), "rows" (m the rows of all groups),
    "counts" or "depth" (k that of all); batch is the number of groups then.
    """
    _tilewise.prepare(m, n, k, layout, dtype, out, math, batch, last_m, _device_of(device), epilogue, invariant, grouped,
                      distribution, dtype_b)


def explain(m, n, k, *, layout="nn", dtype="f32", out=None, math="strict", batch=1, device=None,
            epilogue=None, invariant=False, grouped="none", distribution="even", dtype_b=None):
    """The stored record that would serve a product, and the reason, as a dictionary.

    Arguments: see prepare(). "match" is "exact", "predicted" or "default"; "why" is a sentence; times are in
    microseconds, 0 if not known. "order" is the order in which the products of an element are added, empty if it is
    not fixed. "emulated_runs" and "native_runs" count this process's products in the mode "emulated" that have run so
    far, by how their error was bounded (docs/emulation.md). Compiles and loads no kernel. Raises Error. Thread-safe.
    """
    return _tilewise.explain(m, n, k, layout, dtype, out, math, batch, _device_of(device), epilogue, invariant, grouped,
                             distribution, dtype_b)


def fingerprint(problems, *, device=None):
    """32 hexadecimal digits: a hash of the GPU model and of the orders of sums in which invariant products are served.

    problems: dictionaries with n and k and, if they differ, layout, dtype, dtype_b, out, math and epilogue, as in tune(); m, batch,
    align, weight and order do not count. Equal digits in two processes (ranks, or a program and its restart) mean that their invariant
    products of these problems have equal bits. Compiles and loads no kernel. Raises Error. Thread-safe.
    """
    names = ("n", "k", "layout", "dtype", "out", "math", "epilogue", "dtype_b")
    usual = {"layout": "nn", "dtype": "f32", "out": None, "math": "strict", "epilogue": None, "dtype_b": None}
    products = []
    for problem in problems:
        unknown = set(problem) - {*names, "m", "batch", "align", "weight", "order"}
        if unknown or "n" not in problem or "k" not in problem:
            raise InvalidArgument(f"a problem has n and k, and perhaps {', '.join(usual)}; this one is {problem!r}")
        given = {name: value for name, value in problem.items() if value not in (None, "")}
        products.append(tuple(given.get(name, usual.get(name)) for name in names))
    return _tilewise.fingerprint(products, _device_of(device))


def configure(**options):
    """Sets the options of this process's products; options that are not named return to their defaults.

    database: file; bundle: file of bundle(), read after the database; compile_missing: whether a product may compile
    its kernel; nvrtc: the run-time compiler's library or folder; trust_files; on_miss: "serve", "record", "error" or
    "tune", for problems without a record of their own; missed_list: file for "record"; tune_seconds; autotune: the
    program; host_memory_limit: device memory in bytes that one product of arrays in host memory may use. Paths are str,
    bytes or os.PathLike. Raises TypeError for an unknown name or a value of another type; Error. Thread-safe.
    Later products use the new options. Loaded kernels stay loaded, because CUDA graphs may use them.
    """
    for name, default in (("nvrtc", _nvrtc_of_wheels), ("autotune", _program_or_empty)):
        if options.get(name) is None:
            options[name] = default()
    _tilewise.configure(**options)
    database = options.get("database")
    programs.database_of_products = None if database is None else _os.fsdecode(database)


def _program_or_empty():
    from .programs import program

    try:
        return program()
    except FileNotFoundError:
        return ""


def _nvrtc_of_wheels():
    """The folder of NVRTC in pip's wheels (the extra "nvrtc"); empty: NVRTC is searched for in the system."""
    if _os.environ.get("TILEWISE_NVRTC"):
        return ""
    import importlib.util

    try:
        found = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return ""
    for root in (found.submodule_search_locations or []) if found else []:
        for part in ("cu13/lib", "cu12/lib", "cuda_nvrtc/lib"):
            folder = _os.path.join(root, part)
            if _os.path.isdir(folder) and any(name.startswith("libnvrtc.so") for name in _os.listdir(folder)):
                return folder
    return ""


configure()
# The child of a fork() makes its own Matmul.
_os.register_at_fork(after_in_child=_tilewise.renew)
