"""Fixtures: each test has its own database. Without this fixture, products find no database."""
import os

import pytest

os.environ.setdefault("TILEWISE_DB", "/nonexistent/tilewise.db")
os.environ.setdefault("TILEWISE_HOST_FLAGS", "-O0")  # faster compiles outweigh slower kernels


@pytest.fixture
def database(tmp_path):
    """A database file, which this process's products use too."""
    import tilewise

    file = tmp_path / "test.db"
    tilewise.configure(database=str(file))
    yield file
    tilewise.configure()


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """A device of PyTorch, whose products Tilewise computes, on the CPU too."""
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    import tilewise.torch

    tilewise.torch.on_cpu("host")
    yield request.param
    tilewise.torch.on_cpu("torch")
    assert not tilewise.torch.is_batch_invariant()
