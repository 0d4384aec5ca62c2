#!/usr/bin/env bash
# The symbols that a shared library exports, by name.
#   exports.sh LIBRARY            prints them
#   exports.sh LIBRARY LIST       compares them with those in the file LIST
set -euo pipefail
exported() { nm -D --defined-only --demangle "$1" | sed -E 's/^[0-9a-f]* +[A-Za-z] //' | LC_ALL=C sort -u; }
if [[ $# == 1 ]]; then
  exported "$1"
elif [[ ! -e $1 ]]; then
  echo "skipped: $1 is not built"
elif ! difference=$(diff -U 0 --label "$2" --label "$1" "$2" <(exported "$1")); then
  printf '%s\n\n' "$difference"
  echo "libtilewise.so exports other symbols than the list has. '-': programs linked with an older library no longer start."
  echo "'+': marked with TILEWISE_API (include/tilewise/export.h). Where this is meant, write the list anew:"
  echo "  $0 $1 > $2"
  exit 1
fi
