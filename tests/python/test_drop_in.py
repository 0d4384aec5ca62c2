"""How Python finds the drop-in for cuBLAS."""
import ctypes
import os
import subprocess
import sys

import pytest

from tilewise import drop_in


def test_its_path_is_printed_and_it_loads():
    printed = subprocess.run([sys.executable, "-m", "tilewise.drop_in"], check=True, capture_output=True, text=True)
    assert printed.stdout == drop_in.path() + "\n"
    assert ctypes.CDLL(drop_in.path()).tilewise_drop_in_answered() == 0
    environment = dict(os.environ, LD_PRELOAD=drop_in.path())
    assert subprocess.run(["/bin/true"], env=environment, capture_output=True).stderr == b""


def test_a_library_that_is_named_comes_first_and_one_that_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWISE_DROP_IN_LIBRARY", "/some/where.so")
    assert drop_in.path() == "/some/where.so"
    monkeypatch.delenv("TILEWISE_DROP_IN_LIBRARY")
    monkeypatch.setenv("TILEWISE_AUTOTUNE", str(tmp_path / "autotune"))
    with pytest.raises(FileNotFoundError, match="TILEWISE_DROP_IN_LIBRARY"):
        drop_in.path()
