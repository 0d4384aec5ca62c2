#!/usr/bin/env python3
"""Writes the tables of docs/performance.md and docs/ladder.md from bench/results/*.json: each stands between
a line `<!-- table KIND NAME -->` and `<!-- end -->`. With --check it changes nothing and fails when one is old.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "docs" / "performance.md", ROOT / "docs" / "ladder.md"]


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


def microseconds(measurement):
    return f"{measurement['median_us']:.2f}" if measurement else "-"


def times(value):
    return f"{value:.2f}x" if value is not None else "-"


def host_time(measurement):
    return f"{measurement['host_us']:.1f}" if measurement and measurement["host_us"] > 0 else "-"


def provenance(run):
    """What a result must carry, in one line."""
    toolkit = f", {run['toolkit']}" if "toolkit" in run else ""
    return (f"`{run['command']}`, {run['gpu']}, driver {run['driver']}{toolkit}, "
            f"{run['max_sm_clock_mhz']:.0f} MHz at most, {run['power_limit_w']:.0f} W, "
            f"commit {run['commit']}, {run['date']}")


def compare_table(name):
    run = load(name)
    result, summary = run["result"], run["result"]["summary"]
    rows = ["| shape | served | tuned us | spread | TFLOP/s | cuBLAS us | pedantic us | best Lt us | ratio "
            "| over floor | host us | cuBLAS host us |", "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    errors = []
    for shape in result["shapes"]:
        tuned, cublas, pedantic, lt = (shape["columns"][c]["measurement"] for c in (
            "tuned", "cublas", "cublas_pedantic", "cublas_lt_best"))
        if shape["error"]:
            errors.append(f"{size_of(shape['problem'])}: {shape['error']}")
        if not tuned:
            rows.append(f"| {size_of(shape['problem'])} | failed " + "| - " * 10 + "|")
            continue
        rows.append(f"| {size_of(shape['problem'])} | {shape['match']} | {microseconds(tuned)} "
                    f"| {100 * tuned['spread']:.2f}% | {shape['tflops']:.2f} | {microseconds(cublas)} "
                    f"| {microseconds(pedantic)} | {microseconds(lt)} | {times(shape['ratio'])} "
                    f"| {times(shape['over_floor'])} | {host_time(tuned)} | {host_time(cublas)} |")
    rows.append("")
    if summary["compared"]:
        worst = ", ".join(f"{size_of(w['problem'])} {w['ratio']:.3f}x" for w in summary["worst"])
        rows.append(f"Against the better cuBLAS column, {summary['compared']} shapes: geometric mean "
                    f"{summary['geometric_mean']:.3f}x, minimum {summary['minimum']:.3f}x; "
                    f"{summary['below_1_00']} below 1.00, {summary['below_0_97']} below 0.97. Worst: {worst}.")
    if summary["over_floor"]:
        rates = result["rates"]
        rows.append(f"Time over the physical floor ({rates['flops'] * 1e-12:.1f} TFLOP/s, "
                    f"{rates['bytes'] * 1e-12:.2f} TB/s, 2 us), geometric mean: {summary['over_floor']:.3f}x"
                    + (f", the better cuBLAS column {summary['cublas_over_floor']:.3f}x"
                       if summary["cublas_over_floor"] else "") + ".")
    rows += [f"Failed: {error}." for error in errors]
    timing = result["timing"]
    rows.append(f"{provenance(run)}, {'cold' if timing['cold'] else 'warm'}, {timing['rounds']} rounds, "
                f"{run['seconds']:.0f} s.")
    return "\n".join(rows)


def duration(microseconds):
    return f"{microseconds:.1f} us" if microseconds < 1e3 else (
        f"{microseconds / 1e3:.2f} ms" if microseconds < 1e6 else f"{microseconds / 1e6:.2f} s")


def ladder_table(name):
    run = load(name)
    ladder = run["result"]
    rows = ["| rung | step | time | GFLOP/s | before | of peak | bytes/flop | error/bound |",
            "|---|---|---|---|---|---|---|---|"]

    def figure(value, text):
        return text.format(value) if value is not None else "-"

    for r in ladder["rungs"]:
        time = duration(r["measurement"]["median_us"]) if r["measurement"] else r["outcome"]
        scaled = f" ({r['detail']})" if r["detail"] else ""
        gflops = r["flops"] / 1e9 if r["flops"] is not None else None
        share = 100 * r["share_of_peak"] if r["share_of_peak"] is not None else None
        rows.append(f"| {r['rung']} | {r['name']}{scaled} | {time} | {figure(gflops, '{:.1f}')} "
                    f"| {figure(r['times_before'], '{:.2f}x')} | {figure(share, '{:.1f}%')} "
                    f"| {figure(r['bytes_per_flop'], '{:.3f}')} | {figure(r['error_ratio'], '{:.4f}')} |")
    if ladder["peak_flops"]:
        rows.append(f"| | peak | - | {ladder['peak_flops'] / 1e9:.1f} | - | 100.0% | - | - |")
    rows.append("")
    rows.append(f"{provenance(run)}, {'cold' if ladder['cold'] else 'warm'}, {run['seconds']:.0f} s.")
    return "\n".join(rows)


TABLES = {"tune": tune_table, "serve": serve_table, "compare": compare_table, "ladder": ladder_table}


def table(kind, names):
    for name in names.split(","):
        if not (ROOT / "bench" / "results" / f"{name}.json").exists():
            return f"bench/results/{name}.json is not there yet."
    return TABLES[kind](names)


def main():
    for page in PAGES:
        text = page.read_text()
        made = re.sub(r"<!-- table (\w+) ([\w,]+) -->\n.*?<!-- end -->",
                      lambda m: f"<!-- table {m[1]} {m[2]} -->\n{table(m[1], m[2])}\n<!-- end -->", text, flags=re.S)
        if "--check" not in sys.argv:
            page.write_text(made)
        elif made != text:
            sys.exit(f"{page.relative_to(ROOT)} is older than bench/results: run bench/tables.py")


if __name__ == "__main__":
    main()
