from typing import Any, Callable, Literal

class Packed:
    @property
    def array(self) -> Any: ...
    @property
    def nbytes(self) -> int: ...

def matmul(
    a: Any,
    b: Any | Packed,
    out: Any | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    math: Literal["strict", "tf32", "f32x3", "fast"] = "strict",
    accuracy: float | None = None,
    stream: Any | None = None,
    device: int | str | None = None,
    epilogue: str | Callable[..., Any] | None = None,
    invariant: bool = False,
    **operands: Any,
) -> Any: ...
def grouped(
    a: Any,
    b: Any,
    rows: Any,
    out: Any | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    math: Literal["strict", "tf32", "f32x3", "fast"] = "strict",
    distribution: Literal["even", "zipf", "one_hot"] = "even",
    stream: Any | None = None,
    device: int | str | None = None,
    epilogue: str | Callable[..., Any] | None = None,
    invariant: bool = False,
    **operands: Any,
) -> Any: ...
def pack(
    b: Any,
    rows: int,
    *,
    out: str | None = None,
    math: Literal["strict", "tf32", "f32x3", "fast"] = "strict",
    stream: Any | None = None,
    device: int | str | None = None,
    invariant: bool = False,
) -> Packed: ...
def quantize(x: Any, numbers: Any, scales: Any, *, stream: Any | None = None, device: int | str | None = None) -> None: ...
def fingerprint(products: list[tuple], device: int | str | None) -> str: ...
def fill(a: Any, b: Any, out: Any, math: str, accuracy: float | None, device: int | str | None) -> Any: ...
def version() -> str: ...
def configure(**options: Any) -> None: ...
def renew() -> None: ...
def explain(
    m: int, n: int, k: int, layout: str, dtype: str, out: str | None, math: str, batch: int, device: int | str,
    epilogue: str | None, invariant: bool, grouped: str, distribution: str,
    dtype_b: str | None,
) -> dict[str, Any]: ...
def prepare(
    m: int,
    n: int,
    k: int,
    layout: str,
    dtype: str,
    out: str | None,
    math: str,
    batch: int,
    last_m: int | None,
    device: int | str,
    epilogue: str | None,
    invariant: bool,
    grouped: str,
    distribution: str,
    dtype_b: str | None,
) -> None: ...
