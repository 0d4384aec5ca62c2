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
