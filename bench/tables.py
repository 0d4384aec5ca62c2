#!/usr/bin/env python3
"""Writes the tables of docs/performance.md from bench/results/*.json: each stands between a line
`<!-- table NAME -->` and `<!-- end -->`. With --check it changes nothing and fails when one is old.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"


def load(name):
    return json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text())


def size_of(problem):
    return f"{problem['layout']} {problem['m']}x{problem['n']}x{problem['k']}"


def tune_table(name):
    run = load(name)
    rows = ["| problem | median us | spread | samples | TFLOP/s | cuBLAS us | ratio | evaluated | seconds |",
            "|---|---|---|---|---|---|---|---|---|"]
    for r in run["result"]["results"]:
        m = r["winner"]["measurement"]
        base = min((b["measurement"]["median_us"] for b in r["baselines"]), default=None)
        rows.append(f"| {size_of(r['problem'])} | {m['median_us']:.2f} | {100 * m['spread']:.2f}% | {m['samples']} "
                    f"| {r['tflops']:.2f} | {base:.2f} | {base / m['median_us']:.2f}x | {r['evaluated']} "
                    f"| {r['seconds']:.0f} |")
    gpu = f"{run['gpu']}, driver {run['driver']}, {run['power_limit_w']:.0f} W"
    rows.append("")
    rows.append(f"`{run['command']}`, {gpu}, commit {run['commit']}, {run['date']}, "
                f"{'cold' if run['result']['results'][0]['winner']['measurement']['cold'] else 'warm'}"
                + (f"; {run['seconds']:.0f} s in all" if "seconds" in run else "")
                + (f", largest process {run['peak_process_mb']} MB" if "peak_process_mb" in run else "")
                + (f", {run['peak_memory_mb']} MB of host memory" if "peak_memory_mb" in run else "")
                + (f", database {run['database_mb']} MB" if "database_mb" in run else "") + ".")
    return "\n".join(rows)


def serve_table(names):
    rows = ["| problem | answered | served us | bare us | ratio | first product ms | commit |", "|---|---|---|---|---|---|---|"]
    for name in names.split(","):
        run = load(name)
        r, h = run["result"], run["result"]["host_time"]
        rows.append(f"| {r['problem'].split(' f32')[0]} | {r['match']} | {h['served_us']:.2f} | {h['bare_us']:.2f} "
                    f"| {h['ratio']:.2f} | {r['first_product']['total_us'] / 1000:.2f} | {run['commit']} |")
    return "\n".join(rows)


def table(kind, names):
    return {"tune": tune_table, "serve": serve_table}[kind](names)


def main():
    text = PAGE.read_text()
    made = re.sub(r"<!-- table (\w+) ([\w,]+) -->\n.*?<!-- end -->",
                  lambda m: f"<!-- table {m[1]} {m[2]} -->\n{table(m[1], m[2])}\n<!-- end -->", text, flags=re.S)
    if "--check" in sys.argv:
        sys.exit(0 if made == text else "docs/performance.md is older than bench/results: run bench/tables.py")
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
