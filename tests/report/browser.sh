#!/usr/bin/env bash
# The page of `autotune report` in a real browser: Debian's chromium, driven by pip's playwright, with pip's plotly.
# Usage: browser.sh PYTHON AUTOTUNE MAKE_SAMPLES SCRATCH. Skipped (77) without TILEWISE_FULL=1, and where there is no chromium.
set -euo pipefail
python=$1 autotune=$2 make_samples=$3 scratch=$4
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
[[ ${TILEWISE_FULL:-} == 1 ]] || exit 77
browser=/usr/lib/chromium/chromium
[[ -x $browser ]] || browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "there is no chromium"
  exit 77
}
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
"$python" -m venv venv
venv/bin/python -m pip install --disable-pip-version-check -q plotly playwright
for sample in one:1:400 many:1000:100; do
  IFS=: read -r name problems candidates <<<"$sample"
  "$make_samples" "$name.db" "$problems" "$candidates"
  "$autotune" report --db "$name.db" -o "$name.html" --plotly venv
done
echo '{"format": "tilewise", "version": 1}' | "$autotune" import - --db empty.db
"$autotune" report --db empty.db -o empty.html --plotly venv
venv/bin/python "$here/browser.py" "$browser" "$scratch"
