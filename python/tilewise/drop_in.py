"""The library that answers a program's calls of cuBLAS: LD_PRELOAD=$(python3 -m tilewise.drop_in) ./app."""

from __future__ import annotations

import os
import pathlib

from . import programs


def path() -> str:
    """The path of libtilewise_cublas.so: TILEWISE_DROP_IN_LIBRARY, or the one in the folder of `autotune`."""
    stated = os.environ.get("TILEWISE_DROP_IN_LIBRARY")
    if stated:
        return stated
    beside = pathlib.Path(programs.program()).resolve().parent / "libtilewise_cublas.so"
    if not beside.exists():
        raise FileNotFoundError(f"{beside} does not exist; set TILEWISE_DROP_IN_LIBRARY")
    return str(beside)


if __name__ == "__main__":
    print(path())
