#!/usr/bin/env bash
# kernel_tuner_test.py with pip's kernel_tuner in an environment of its own.
# Usage: kernel_tuner.sh PYTHON ROOT AUTOTUNE SCRATCH. Skipped (77) without TILEWISE_FULL=1, and where pip cannot fetch it.
set -euo pipefail
python=$1 root=$2 autotune=$3 scratch=$4
[[ ${TILEWISE_FULL:-} == 1 ]] || exit 77
rm -rf "$scratch"
mkdir -p "$scratch"
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --disable-pip-version-check -q kernel_tuner==1.5.* || {
  echo "pip cannot fetch kernel_tuner"
  exit 77
}
"$scratch/venv/bin/python" "$root/tests/bench/kernel_tuner_test.py" "$root" "$autotune"
