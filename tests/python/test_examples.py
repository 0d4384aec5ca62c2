"""The programs of examples/python, and the notebook if the package that runs it is installed."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("name, expected", [
    ("gradient_check.py", ["numerical gradients agree: True", "below 1e-12: True"]),
    ("transformer_block.py", ["layers swapped: 4", "below 0.02: True"])])
def test_example(name, expected):
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, str(ROOT / "examples/python" / name)], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=600)
    assert done.returncode == 0, done.stderr
    for line in expected:
        assert line in done.stdout


def test_notebook(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(ROOT / "docs/tutorial.ipynb", as_version=4)
    os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]
    try:
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    finally:
        del os.environ["PYTHONPATH"]
    printed = "".join(output.get("text", "") for cell in notebook.cells if cell.cell_type == "code"
                      for output in cell.outputs)
    assert "equal: True" in printed and "exact" in printed
