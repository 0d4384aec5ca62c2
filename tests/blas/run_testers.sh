#!/usr/bin/env bash
# run_testers.sh LIBRARY: netlib's BLAS level 3 testers (Debian: libblas-test) with sgemm and dgemm of
# LIBRARY preloaded. Runs in ./check --full alone; without it, or without the testers, exit status 77.
set -euo pipefail
library=$1
[[ ${TILEWISE_FULL:-} == 1 ]] || { echo "skipped: part of ./check --full"; exit 77; }
folder=$(find /usr/lib -path '*/blas/xblat3s' -printf '%h\n' -quit 2>/dev/null)
[[ -n $folder ]] || { echo "skipped: no xblat3s; apt-get install libblas-test"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export TILEWISE_DB=$scratch/x.db
for type in s d; do
  name=${type^^}GEMM
  # The loader tells whose function is called.
  LD_PRELOAD=$library LD_DEBUG=bindings "$folder/xblat3$type" <"$folder/${type}blat3.in" 2>bindings
  grep -q "to $library .*${type}gemm_" bindings || { echo "${type}gemm_ of $library was not called"; exit 1; }
  cat "${type}blat3.out"
  for what in "ERROR-EXITS" "COMPUTATIONAL TESTS"; do
    grep -q "$name *PASSED THE .*$what" "${type}blat3.out" || { echo "$name failed: $what"; exit 1; }
  done
  ! grep -qE 'FAIL|FATAL|ABANDONED|SUSPECT' "${type}blat3.out" || exit 1
done
