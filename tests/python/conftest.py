"""Fixtures: a database of each test's own. Without it products find none."""
import os

import pytest

os.environ.setdefault("TILEWISE_DB", "/nonexistent/tilewise.db")
os.environ.setdefault("TILEWISE_HOST_FLAGS", "-O0")  # faster compiles outweigh slower kernels


@pytest.fixture
def database(tmp_path):
    """A database file that this process's products use, too."""
    import tilewise

    file = tmp_path / "test.db"
    tilewise.configure(database=str(file))
    yield file
    tilewise.configure()
