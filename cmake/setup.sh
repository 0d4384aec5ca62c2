# shellcheck shell=bash
# Sourced by ./autotune and ./check: everything from a fresh machine to a built tree.
#
# Needs bash. Installing needs Debian or Ubuntu; elsewhere it lists what is missing.
# Environment:
#   TILEWISE_NO_INSTALL=1       install nothing, list what is missing (the same as --no-install)
#   TILEWISE_BUILD_DIR=folder   build there instead of build/ (./check: build-check/)
#   TILEWISE_IGNORE_TOOLKIT=1   for tests: as if no CUDA toolkit were on the machine
#   TILEWISE_PRETEND_MISSING    for tests: packages that are treated as not installed
#   TILEWISE_PLOTLY             plotly.min.js for `autotune report`, else .tilewise/plotly or the system's Python

tw_say() { printf 'tilewise: %s\n' "$*" >&2; }
tw_fail() {
  tw_say "$@"
  exit 1
}

# What is missing ---------------------------------------------------------------------------------

# tw_has_header NAME: whether the C++ compiler can include it.
tw_has_header() {
  local prefix prefixes
  IFS=':;' read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in /usr /usr/local "${prefixes[@]}"; do
    [[ -f $prefix/include/$1 ]] && return 0
  done
  printf '#include <%s>\n' "$1" | "${CXX:-c++}" -std=c++20 -E -x c++ - >/dev/null 2>&1
}

# tw_has_package PACKAGE: whether what the Debian package provides is there, from any source.
tw_has_package() {
  [[ " ${TILEWISE_PRETEND_MISSING:-} " == *" $1 "* ]] && return 1
  case $1 in
    cmake) command -v cmake ;;
    ninja-build) command -v ninja ;;
    g++) command -v "${CXX:-c++}" ;;
    libsqlite3-dev) tw_has_header sqlite3.h ;;
    libcli11-dev) tw_has_header CLI/CLI.hpp ;;
    nlohmann-json3-dev) tw_has_header nlohmann/json.hpp ;;
    libxxhash-dev) tw_has_header xxhash.h ;;
    libboost-context-dev) tw_has_header boost/context/detail/fcontext.hpp ;;
    libeigen3-dev) tw_has_header eigen3/Eigen/Core ;;
    libgtest-dev) tw_has_header gtest/gtest.h ;;
    libgmock-dev) tw_has_header gmock/gmock.h ;;
    libblas-test) compgen -G '/usr/lib/*/blas/xblat3s' ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>&1 ;;
    python3-dev) python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>&1 ;;
    chromium) [[ -x /usr/lib/chromium/chromium ]] || command -v chromium ;;
    ca-certificates) [[ -s /etc/ssl/certs/ca-certificates.crt ]] ;;
    *) tw_fail "no rule for package $1" ;;
  esac >/dev/null
}

# tw_missing PACKAGE...: the missing ones, in one line.
tw_missing() {
  local package missing=()
  for package in "$@"; do
    tw_has_package "$package" || missing+=("$package")
  done
  printf '%s' "${missing[*]}"
}

# CUDA --------------------------------------------------------------------------------------------

# The CUDA version of the NVIDIA driver (its major number); empty without a driver.
tw_driver_major() {
  { command -v nvidia-smi >/dev/null && nvidia-smi 2>/dev/null; } |
    sed -nE 's/.*CUDA[A-Z ]* Version: *([0-9]+)\..*/\1/p' | head -n 1
}

# The CUDA version of the wheels: 13, or 12 where the driver is older.
tw_wheel_major() {
  local driver
  driver=$(tw_driver_major)
  if [[ -n $driver && $driver -lt 13 ]]; then echo 12; else echo 13; fi
}

# tw_toolkit_in FOLDER MOST: whether it has cuda.h, nvrtc.h and a libnvrtc of CUDA 12 .. MOST.
tw_toolkit_in() {
  local major folder
  [[ -f $1/include/cuda.h && -f $1/include/nvrtc.h ]] || return 1
  for ((major = $2; major >= 12; major--)); do
    for folder in lib64 lib lib/x86_64-linux-gnu lib/aarch64-linux-gnu targets/x86_64-linux/lib \
      targets/sbsa-linux/lib; do
      [[ -e $1/$folder/libnvrtc.so.$major ]] && return 0
    done
  done
  return 1
}

# Prints the folder of a CUDA toolkit that works with this machine's driver.
tw_find_toolkit() {
  [[ ${TILEWISE_IGNORE_TOOLKIT:-} == 1 ]] && return 1
  local most folder nvcc
  most=$(tw_driver_major)
  nvcc=$(command -v nvcc) && nvcc=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-* /opt/cuda \
    "$nvcc" /usr; do
    if [[ -n $folder ]] && tw_toolkit_in "$folder" "${most:-99}"; then
      printf '%s' "$folder"
      return 0
    fi
  done
  return 1
}

# tw_wheels_ready MAJOR: whether all wheels of this CUDA are in .tilewise/venv.
tw_wheels_ready() { [[ -f $TW_ROOT/.tilewise/venv/cuda-$1 ]]; }

# tw_install_wheels MAJOR: installs NVRTC and the CUDA headers into .tilewise/venv.
tw_install_wheels() {
  local venv=$TW_ROOT/.tilewise/venv log=$TW_ROOT/.tilewise/wheels.log
  local wheels=('nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-runtime==13.0.*')
  [[ $1 == 12 ]] && wheels=('nvidia-cuda-nvrtc-cu12==12.*' 'nvidia-cuda-runtime-cu12==12.*')
  tw_say "no CUDA toolkit found: fetching NVIDIA's NVRTC and headers (CUDA $1) into .tilewise/"
  rm -rf "$venv"
  mkdir -p "$TW_ROOT/.tilewise" || tw_fail "cannot write to $TW_ROOT"
  if ! { python3 -m venv "$venv" &&
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "${wheels[@]}"; } \
    >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    tw_fail "pip could not fetch ${wheels[*]} (log: $log). With a CUDA toolkit of 12 or newer" \
      "installed, or CUDA_HOME set to one, nothing has to be fetched."
  fi
  touch "$venv/cuda-$1"
}

# tw_wheel_header NAME: prints the folder of a header in .tilewise/venv.
tw_wheel_header() {
  local found
  for found in "$TW_ROOT"/.tilewise/venv/lib/python3*/site-packages/nvidia/*/include/"$1"; do
    if [[ -f $found ]]; then
      dirname "$found"
      return 0
    fi
  done
  tw_fail "the NVIDIA wheels in $TW_ROOT/.tilewise/venv lack $1; remove that folder and try again"
}

# Installing --------------------------------------------------------------------------------------

# tw_install PACKAGE...: installs by apt, after a question on a terminal; fails where it cannot.
tw_install() {
  local sudo='' answer
  [[ $(id -u) == 0 ]] || sudo='sudo '
  local update="apt-get update" install="apt-get install -y --no-install-recommends $*"
  local by_hand="${sudo}$update && ${sudo}$install"
  command -v apt-get >/dev/null ||
    tw_fail "missing: $* (Debian's names; no apt-get here). Install them by this system's own means."
  [[ $TW_NO_INSTALL == 1 ]] && tw_fail "missing: $*. To install: $by_hand"
  if [[ -t 0 && -t 2 ]]; then
    read -r -p "tilewise: missing: $*. Run \"$by_hand\" now? [Y/n] " answer
    [[ $answer == '' || $answer == [Yy]* ]] || tw_fail "nothing was installed"
  elif [[ -n $sudo ]]; then
    tw_fail "missing: $*. To install: $by_hand"
  fi
  [[ -z $sudo ]] || command -v sudo >/dev/null ||
    tw_fail "missing: $*, and no sudo. As root: $update && $install"
  tw_say "installing $*"
  local log
  log=$(mktemp)
  # shellcheck disable=SC2086  # the commands are words
  if ! { $sudo $update && $sudo env DEBIAN_FRONTEND=noninteractive $install; } >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    tw_fail "apt-get failed (log: $log)"
  fi
  rm -f "$log"
}

# tw_python: a Python with what builds and tests the Python package, in .tilewise/python. Prints its path; fails where
# pip could not fetch all.
tw_python() {
  local venv=$TW_ROOT/.tilewise/python log=$TW_ROOT/.tilewise/python.log stamp wheels
  wheels=('nanobind>=2.4' numpy pytest ml_dtypes)
  stamp="ready-${wheels[*]}"
  stamp=$venv/${stamp//[ >=]/-}
  if [[ ! -f $stamp ]]; then
    [[ $TW_NO_INSTALL == 1 ]] && return 1
    mkdir -p "$TW_ROOT/.tilewise" && rm -rf "$venv" && {
      python3 -m venv "$venv" &&
        "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "${wheels[@]}"
    } >"$log" 2>&1 </dev/null || return 1
    touch "$stamp"
  fi
  printf '%s' "$venv/bin/python"
}

# tw_nvrtc_wheels: the NVRTC of several versions, each in a folder .tilewise/nvrtc-VERSION that TILEWISE_NVRTC may name.
# Prints those that are there. What pip cannot fetch is named and left out.
tw_nvrtc_wheels() {
  local version wheel folder
  for version in 12.4 12.9 13.0 newest; do
    case $version in
      12.*) wheel="nvidia-cuda-nvrtc-cu12==$version.*" ;;
      13.*) wheel="nvidia-cuda-nvrtc==$version.*" ;;
      newest) wheel='nvidia-cuda-nvrtc>=13.1' ;;
    esac
    folder=$TW_ROOT/.tilewise/nvrtc-$version
    if ! compgen -G "$folder/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.*" >/dev/null; then
      [[ $TW_NO_INSTALL != 1 ]] && mkdir -p "$TW_ROOT/.tilewise" && rm -rf "$folder" && {
        python3 -m venv "$folder" &&
          "$folder/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps "$wheel"
      } >"$folder.log" 2>&1 </dev/null || {
        tw_say "machine code of NVRTC $version is not read: pip has not fetched $wheel"
        continue
      }
    fi
    printf '%s\n' "$folder"
  done
}

# tw_plotly: the folder of pip's package plotly for `autotune report`, in .tilewise/plotly; fetched where the system's Python
# has none. Prints nothing where the program finds one by itself, or none can be had: it says then how to install it.
tw_plotly() {
  local venv=$TW_ROOT/.tilewise/plotly
  if ! compgen -G "$venv/lib/python3*/site-packages/plotly/package_data/plotly.min.js" >/dev/null; then
    [[ $TW_NO_INSTALL == 1 || -n ${VIRTUAL_ENV:-} ]] && return
    python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("plotly") is None)' 2>/dev/null && return
    tw_say "fetching pip's plotly for the report's figures into .tilewise/"
    mkdir -p "$TW_ROOT/.tilewise" && rm -rf "$venv" && {
      python3 -m venv "$venv" &&
        "$venv/bin/python" -m pip install --disable-pip-version-check --no-input plotly
    } >"$TW_ROOT/.tilewise/plotly.log" 2>&1 </dev/null || return
  fi
  printf '%s' "$venv"
}

# Building ----------------------------------------------------------------------------------------

# tw_progress WHAT LOG: after two seconds prints what runs; on a terminal also its progress.
tw_progress() {
  # Its children must not keep the caller's pipes or lock open.
  sleep 2 2>/dev/null
  tw_say "$1 (log: $2)"
  while [[ -t 2 ]]; do
    sleep 0.5 2>/dev/null
    printf '\r%s \r' "$(grep -oE '^\[[0-9]+/[0-9]+\]' "$2" | tail -n 1)" >&2
  done
}

# tw_quietly WHAT LOG COMMAND...: runs the command with its output in the log; prints errors when it
# fails.
tw_quietly() {
  local what=$1 log=$2 watcher status
  shift 2
  tw_progress "$what" "$log" >/dev/null 9>&- &
  watcher=$!
  # shellcheck disable=SC2064  # the id is known now
  trap "kill $watcher 2>/dev/null; exit 130" INT TERM
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  kill "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null
  trap - INT TERM
  [[ $status == 0 ]] && return 0
  local errors='(: error:|fatal error:|undefined reference|CMake Error|No space left|Killed)'
  { grep -hE -A 3 "$errors" "$log" || tail -n 25 "$log"; } | cut -c 1-300 | head -n 40 >&2
  tw_fail "$what failed (log: $log)"
}

# tw_provide PACKAGE...: ensures packages and CUDA headers. Sets TW_CUDA_OPTIONS.
tw_provide() {
  local missing major='' packages=(cmake ninja-build g++ libsqlite3-dev libcli11-dev
    nlohmann-json3-dev libxxhash-dev libboost-context-dev libeigen3-dev "$@")
  TW_CUDA_OPTIONS=()
  TW_CUDA=$(tw_find_toolkit) || major=$(tw_wheel_major)
  [[ -n $major ]] && ! tw_wheels_ready "$major" && packages+=(python3-venv ca-certificates)
  missing=$(tw_missing "${packages[@]}")
  [[ -z $missing ]] || tw_install $missing
  if [[ -z $major ]]; then
    TW_CUDA_OPTIONS=("-DTILEWISE_CUDA_INCLUDE=$TW_CUDA/include"
      "-DTILEWISE_NVRTC_INCLUDE=$TW_CUDA/include")
    return
  fi
  if ! tw_wheels_ready "$major"; then
    [[ $TW_NO_INSTALL == 1 ]] &&
      tw_fail "missing: a CUDA toolkit. Install one, or run without --no-install to fetch NVIDIA's wheels"
    tw_install_wheels "$major"
  fi
  TW_CUDA=$TW_ROOT/.tilewise/venv
  TW_CUDA_OPTIONS=("-DTILEWISE_CUDA_INCLUDE=$(tw_wheel_header cuda.h)"
    "-DTILEWISE_NVRTC_INCLUDE=$(tw_wheel_header nvrtc.h)") || exit 1
}

# tw_configured: whether the build folder is as an earlier run left it, with its CUDA folder still
# there. The stamp holds the tree's path, the CUDA folder and the options.
tw_configured() {
  local stamp=$TW_BUILD/.tilewise-setup tree cuda options
  [[ -f $stamp ]] || return 1
  { read -r tree && read -r cuda && read -r options; } <"$stamp" || return 1
  [[ $tree == "$TW_ROOT" && -d $cuda && $options == "$TW_OPTIONS" ]] || return 1
  [[ ${TILEWISE_IGNORE_TOOLKIT:-} != 1 || $cuda == "$TW_ROOT"/* ]] || return 1
  command -v cmake >/dev/null
}

# tw_configure OPTION...: configures TW_BUILD.
tw_configure() {
  local generator=(-G Ninja) home
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$TW_BUILD/CMakeCache.txt" 2>/dev/null)
  # The tree was moved or copied: CMake would refuse the old cache.
  [[ -z $home || $home == "$TW_ROOT" ]] || rm -rf "$TW_BUILD/CMakeCache.txt" "$TW_BUILD/CMakeFiles"
  [[ -f $TW_BUILD/CMakeCache.txt ]] && generator=()
  tw_quietly "configuring" "$TW_BUILD/configure.log" cmake "${generator[@]}" -S "$TW_ROOT" \
    -B "$TW_BUILD" -DCMAKE_BUILD_TYPE=Release "${TW_CUDA_OPTIONS[@]}" "$@"
  printf '%s\n' "$TW_ROOT" "$TW_CUDA" "$TW_OPTIONS" >"$TW_BUILD/.tilewise-setup"
}

# tw_build TARGET "PACKAGE..." OPTION...: installs, configures and builds a target in TW_BUILD. A
# lock admits one run at a time per folder.
tw_build() {
  local target=$1 extra=$2
  shift 2
  TW_OPTIONS="$*"
  mkdir -p "$TW_BUILD" 2>/dev/null
  [[ -d $TW_BUILD && -w $TW_BUILD ]] ||
    tw_fail "cannot write to $TW_BUILD (a read-only tree, or another user's)." \
      "Copy the tree, or set TILEWISE_BUILD_DIR to a folder of your own."
  exec 9>"$TW_BUILD/.lock"
  flock 9
  if ! tw_configured; then
    # shellcheck disable=SC2086  # a list of words
    tw_provide $extra
    tw_configure "$@"
  fi
  tw_quietly "building $target" "$TW_BUILD/build.log" cmake --build "$TW_BUILD" --target "$target"
  exec 9>&-
}

# tw_begin FOLDER: sets TW_BUILD (FOLDER in TW_ROOT by default) and TW_NO_INSTALL.
tw_begin() {
  TW_BUILD=${TILEWISE_BUILD_DIR:-$TW_ROOT/$1}
  [[ $TW_BUILD == /* ]] || TW_BUILD=$PWD/$TW_BUILD
  TW_NO_INSTALL=${TILEWISE_NO_INSTALL:-0}
}
