#!/usr/bin/env bash
# ./autotune and cmake/setup.sh with made-up apt-get, cmake, pip and nvidia-smi, each of which writes
# down how it was called. Usage: setup_test.sh TREE
set -u
source_tree=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The user who may not write everywhere is nobody: let him pass.
chmod 755 "$work"

tree="$work/a tree, with spaces"
fake=$work/fake
calls=$work/calls
mkdir -p "$tree/cmake" "$fake"
cp "$source_tree/autotune" "$tree/"
cp "$source_tree/cmake/setup.sh" "$tree/cmake/"

tool() {
  cat >"$fake/$1"
  chmod +x "$fake/$1"
}
tool apt-get <<'EOF'
#!/bin/bash
echo "apt-get $*" >>"$CALLS"
[[ -z ${APT_FAILS:-} ]] || { echo "E: no network" >&2; exit 100; }
EOF
tool cmake <<'EOF'
#!/bin/bash
echo "cmake $*" >>"$CALLS"
[[ -z ${BUILD_FAILS:-} ]] || { echo "x.cpp:1:1: error: no semicolon"; exit 1; }
if [[ $1 == --build ]]; then
  mkdir -p "$2/cli"
  printf '#!/bin/bash\nprintf "ran [%%s]" "$@"\n[[ -z $TILEWISE_PLOTLY ]] || printf " [plotly %%s]" "$TILEWISE_PLOTLY"\nexit 7\n' >"$2/cli/autotune"
  chmod +x "$2/cli/autotune"
fi
EOF
tool python3 <<'EOF'
#!/bin/bash
[[ $1 == -c && $2 == *plotly* && -n ${NO_PLOTLY:-} ]] && exit 1
[[ $1 == -c ]] && exit 0
echo "python3 $*" >>"$CALLS"
mkdir -p "$3/bin" "$3/lib/python3.99/site-packages/nvidia/cu/include"
cat >"$3/bin/python" <<'INNER'
#!/bin/bash
echo "pip $*" >>"$CALLS"
[[ -z ${PIP_FAILS:-} ]] || { echo "no route to host"; exit 1; }
here=$(dirname "$(dirname "$0")")/lib/python3.99/site-packages/nvidia/cu/include
touch "$here/cuda.h" "$here/nvrtc.h"
INNER
chmod +x "$3/bin/python"
EOF
tool nvidia-smi <<'EOF'
#!/bin/bash
[[ -n ${DRIVER:-} ]] || exit 9
echo "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: $DRIVER     |"
EOF
tool ninja <<<'#!/bin/bash'
tool c++ <<<'#!/bin/bash'
tool id <<'EOF'
#!/bin/bash
echo "${FAKE_ID:-0}"
EOF
tool sudo <<'EOF'
#!/bin/bash
echo "sudo $*" >>"$CALLS"
"$@"
EOF

failures=0
# autotune NAME=VALUE... -- ARGUMENTS: runs it from another folder; sets said and status.
autotune() {
  local settings=()
  while [[ $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  shift
  : >"$calls"
  said=$(cd / && env -u TILEWISE_NO_INSTALL -u TILEWISE_BUILD_DIR -u TILEWISE_PLOTLY -u VIRTUAL_ENV PATH="$fake:$PATH" CALLS="$calls" \
    TILEWISE_IGNORE_TOOLKIT=1 "${settings[@]}" "$tree/autotune" "$@" 2>&1 </dev/null)
  status=$?
}
fresh() { rm -rf "$tree/build" "$tree/.tilewise"; }
problem() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n  status %s, said: %s\n  calls: %s\n' "$1" "$status" "$said" "$(<"$calls")"
}
expect_status() { [[ $status == "$1" ]] || problem "$2: status is not $1"; }
expect_said() { [[ $said == *"$1"* ]] || problem "$2: did not say \"$1\""; }
expect_call() { grep -qF -- "$1" "$calls" || problem "$2: never called \"$1\""; }
expect_no_call() { ! grep -qF -- "$1" "$calls" || problem "$2: called \"$1\""; }

name="missing packages, --no-install"
autotune TILEWISE_PRETEND_MISSING="cmake libsqlite3-dev" -- --no-install devices
expect_status 1 "$name"
expect_said "missing: cmake libsqlite3-dev" "$name"
expect_said "apt-get install -y --no-install-recommends cmake libsqlite3-dev" "$name"
expect_no_call apt-get "$name"
autotune TILEWISE_PRETEND_MISSING="g++" TILEWISE_NO_INSTALL=1 -- devices
expect_status 1 "TILEWISE_NO_INSTALL"
expect_said "missing: g++" "TILEWISE_NO_INSTALL"

name="no CUDA, --no-install"
autotune -- --no-install devices
expect_status 1 "$name"
expect_said "CUDA toolkit" "$name"
expect_no_call pip "$name"

name="missing packages, not root, no terminal"
autotune FAKE_ID=1000 TILEWISE_PRETEND_MISSING="ninja-build" -- devices
expect_status 1 "$name"
expect_said "sudo apt-get update && sudo apt-get install -y --no-install-recommends ninja-build" "$name"
expect_no_call apt-get "$name"

name="what is missing is installed"
fresh
autotune TILEWISE_PRETEND_MISSING="ninja-build" -- devices
expect_call "apt-get install -y --no-install-recommends ninja-build" "$name"

name="apt-get fails"
fresh
autotune APT_FAILS=1 TILEWISE_PRETEND_MISSING="ninja-build" -- devices
expect_status 1 "$name"
expect_said "no network" "$name"

name="pip fails"
autotune PIP_FAILS=1 -- devices
expect_status 1 "$name"
expect_said "no route to host" "$name"
expect_said "CUDA_HOME" "$name"
expect_no_call "cmake" "$name"

name="fresh machine, root, no driver"
fresh
autotune TILEWISE_PRETEND_MISSING="cmake python3-venv ca-certificates" -- --sizes "1 2" ""
expect_status 7 "$name"
expect_said "ran [--sizes]ran [1 2]ran []" "$name"
expect_call "apt-get install -y --no-install-recommends cmake python3-venv ca-certificates" "$name"
expect_call "nvidia-cuda-nvrtc==13.0.*" "$name"
expect_call "-DTILEWISE_CUDA_INCLUDE=$tree/.tilewise/venv/lib/python3.99/site-packages/nvidia/cu/include" "$name"

name="built once"
before=${EPOCHREALTIME/[.,]/}
autotune TILEWISE_PRETEND_MISSING="cmake" -- devices
after=${EPOCHREALTIME/[.,]/}
expect_status 7 "$name"
[[ $said == "ran [devices]" ]] || problem "$name: is not quiet"
[[ $(<"$calls") == "cmake --build"* ]] || problem "$name: does more than build"
((after - before < 10000000)) || problem "$name: takes $((after - before)) us"

name="a driver of CUDA 12"
fresh
autotune DRIVER=12.4 -- devices
expect_status 7 "$name"
expect_call "nvidia-cuda-nvrtc-cu12==12.*" "$name"
name="a driver of CUDA 13"
fresh
autotune DRIVER=13.1 -- devices
expect_call "nvidia-cuda-nvrtc==13.0.*" "$name"

name="wheels gone"
rm -rf "$tree/.tilewise"
autotune -- devices
expect_status 7 "$name"
expect_call "pip" "$name"

name="tree moved"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n' >"$tree/build/CMakeCache.txt"
rm "$tree/build/.tilewise-setup"
autotune -- devices
expect_status 7 "$name"
[[ ! -e $tree/build/CMakeCache.txt ]] || problem "$name: keeps the old cache"

name="build fails"
autotune BUILD_FAILS=1 -- devices
expect_status 1 "$name"
expect_said "error: no semicolon" "$name"
expect_said "build/build.log" "$name"

name="called by a link"
ln -s "$tree/autotune" "$work/link"
said=$(cd / && PATH="$fake:$PATH" CALLS="$calls" TILEWISE_IGNORE_TOOLKIT=1 "$work/link" x 2>&1)
status=$?
expect_status 7 "$name"

name="a toolkit"
toolkit=$work/toolkit
mkdir -p "$toolkit/include" "$toolkit/lib64"
touch "$toolkit/include/cuda.h" "$toolkit/include/nvrtc.h" "$toolkit/lib64/libnvrtc.so.13"
fresh
autotune TILEWISE_IGNORE_TOOLKIT=0 CUDA_HOME="$toolkit" -- devices
expect_call "-DTILEWISE_CUDA_INCLUDE=$toolkit/include" "$name"
expect_no_call pip "$name"
# With TILEWISE_IGNORE_TOOLKIT=0 other toolkits of this machine count too: only the wish is tested.
name="a toolkit too new for the driver"
tw_in() {
  bash -c 'source "$1/cmake/setup.sh"; tw_toolkit_in "$2" "$3"' _ "$tree" "$toolkit" "$1"
}
tw_in 13 || problem "$name: refuses 13 for 13"
! tw_in 12 || problem "$name: takes 13 for 12"

name="plotly for the report"
autotune -- report -o x.html
expect_status 7 "$name"
expect_no_call plotly "$name, which Python has"
autotune NO_PLOTLY=1 TILEWISE_PLOTLY=/mine -- report -o x.html
expect_no_call plotly "$name, which is named"
expect_said "[plotly /mine]" "$name, which is named"
autotune NO_PLOTLY=1 -- --no-install report -o x.html
expect_no_call plotly "$name, nothing may be installed"
autotune NO_PLOTLY=1 -- devices
expect_no_call plotly "$name, another command"
autotune NO_PLOTLY=1 PIP_FAILS=1 -- report -o x.html
expect_status 7 "$name, no network: the program says what is missing"
autotune NO_PLOTLY=1 -- report -o x.html
expect_call "pip -m pip install --disable-pip-version-check --no-input plotly" "$name"
expect_said "[plotly $tree/.tilewise/plotly]" "$name"

name="each package of ./check has a rule"
# shellcheck disable=SC2013  # words
for package in $(sed -nE "s/^ *test_packages\+?=' ?([^']*)'.*/\1/p" "$source_tree/check"); do
  said=$(bash -c 'source "$1/cmake/setup.sh"; tw_has_package "$2"' _ "$tree" "$package" 2>&1)
  status=$?
  [[ $said != *"no rule"* ]] || problem "$name: $package"
  said=$(TILEWISE_PRETEND_MISSING=$package bash -c 'source "$1/cmake/setup.sh"; tw_missing "$2"' _ "$tree" "$package")
  [[ $said == "$package" ]] || problem "$name: $package is not reported as missing"
done

name="several NVRTC"
nvrtc_wheels() {
  : >"$calls"
  said=$(cd / && env -u TILEWISE_NO_INSTALL PATH="$fake:$PATH" CALLS="$calls" "$@" bash -c \
    'TW_ROOT=$1 && source "$1/cmake/setup.sh" && tw_begin build && tw_nvrtc_wheels' _ "$tree" 2>&1)
  status=$?
}
nvrtc_wheels PIP_FAILS=1
expect_status 0 "$name, no network"
expect_said "NVRTC 12.9 is not read" "$name, no network"
nvrtc_wheels TILEWISE_NO_INSTALL=1
expect_status 0 "$name, nothing may be installed"
expect_no_call pip "$name, nothing may be installed"
nvrtc_wheels A=
expect_call "nvidia-cuda-nvrtc-cu12==12.9.*" "$name"
expect_call "nvidia-cuda-nvrtc>=13.1" "$name"
expect_said "$tree/.tilewise/nvrtc-newest" "$name"

name="a tree that may not be written"
if [[ $(/usr/bin/id -u) == 0 ]] && command -v setpriv >/dev/null; then
  said=$(cd / && setpriv --reuid 65534 --regid 65534 --clear-groups env PATH="$fake:$PATH" \
    CALLS=/dev/null TILEWISE_IGNORE_TOOLKIT=1 "$tree/autotune" devices 2>&1)
  status=$?
  expect_status 7 "$name, built"
  fresh
  said=$(cd / && setpriv --reuid 65534 --regid 65534 --clear-groups env PATH="$fake:$PATH" \
    CALLS=/dev/null TILEWISE_IGNORE_TOOLKIT=1 "$tree/autotune" devices 2>&1)
  status=$?
  expect_status 1 "$name, not built"
  expect_said "read-only" "$name, not built"
fi

if [[ $failures != 0 ]]; then
  echo "$failures failures"
  exit 1
fi
echo "all well"
