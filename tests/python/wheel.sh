#!/usr/bin/env bash
# The wheel that pip makes, installed and tested in an environment of its own: first with NumPy alone, then with PyTorch, JAX,
# Dask and what runs the notebook.
# Usage: wheel.sh TREE SCRATCH PYTHON CMAKE_OPTION... Skipped (77) without TILEWISE_FULL=1: it compiles everything again.
set -euo pipefail
tree=$1 scratch=$2 python=$3
shift 3
[[ ${TILEWISE_FULL:-} == 1 ]] || exit 77
rm -rf "$scratch"
mkdir -p "$scratch"
"$python" -m venv "$scratch/venv"
export CMAKE_ARGS="$*"
"$scratch/venv/bin/python" -m pip install --disable-pip-version-check -q "$tree[test]"
cd "$scratch"
"$scratch/venv/bin/python" - <<'CODE'
import pathlib
import tilewise
from tilewise import programs
assert pathlib.Path(tilewise.__file__).is_relative_to(pathlib.Path.cwd()), tilewise.__file__
assert pathlib.Path(programs.program()).is_relative_to(pathlib.Path.cwd()), programs.program()
CODE
# The images, of one kind of products.
CMAKE_ARGS="$* -DTILEWISE_IMAGE_KINDS=f32x3" "$scratch/venv/bin/python" -m pip install --disable-pip-version-check -q "$tree/python/images"
"$scratch/venv/bin/python" - <<'CODE'
import pathlib
import tilewise
(images,) = pathlib.Path(tilewise.__file__).parent.glob("*.images")
assert images.stat().st_size > 100_000
CODE
"$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider "$tree/tests/python"
"$scratch/venv/bin/python" -m pip install --disable-pip-version-check -q torch jax distributed nbformat nbclient ipykernel
"$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider "$tree/tests/python"
