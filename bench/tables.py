#!/usr/bin/env python3
"""Writes the tables of README.md, docs/ and bench/results/README.md from bench/results/*.json: each stands between
a line `<!-- table KIND NAMES -->` and `<!-- end -->`. With --check it changes nothing and fails if a table or a picture
of bench/picture.py is old.

    tune NAME, serve NAME,.., ladder NAME, pack NAME, threads NAME,.., streams NAME,..
    compare NAME or NAME:TYPE      every shape of a run of bench/compare, or of one type in it
    types NAME,NAME,..             one row a type, over the runs of these names
    speeds NAME,NAME,..            the same in fewer columns
    targets NAME,NAME,..           the targets of bench/targets.json next to the results of these runs
    untuned NAME,NAME,..           one row for the sizes of one layout, n and k of runs of bench/untuned --problems
"""
import fnmatch
import hashlib
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "ladder.md", ROOT / "docs" / "notebook.md",
         ROOT / "docs" / "python.md", ROOT / "docs" / "drop_in.md", ROOT / "docs" / "emulation.md", ROOT / "docs" / "coverage.md",
         ROOT / "docs" / "cost-model.md", ROOT / "docs" / "search.md", ROOT / "bench" / "results" / "README.md"]
# The runs and kinds of the picture.
PICTURE = [("h200_compare", "f32"), ("h100_compare_bf16", "bf16"), ("h100_compare_f16", "f16"),
           ("h100_compare_tf32", "tf32"), ("h100_compare_f32x3", "f32x3"), ("h200_compare_f64", "f64"),
           ("h100_compare_i8", "i8"), ("h100_compare_e4m3", "e4m3:bf16")]


def load(name):
    return json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text())


def size_of(problem):
    batch = f"*{problem['batch']}" if problem.get("batch", 1) != 1 else ""
    epilogue = f" `{problem['epilogue']}`" if "epilogue" in problem else ""
    return f"{problem['layout']} {problem['m']}x{problem['n']}x{problem['k']}{batch}{epilogue}"


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
        rows.append(f"| {r['problem'].split(' align')[0].removesuffix(' f32 strict')} | {r['match']} | {h['served_us']:.2f} | {h['bare_us']:.2f} "
                    f"| {h['ratio']:.2f} | {r['first_product']['total_us'] / 1000:.2f} | {run['commit']} |")
    return "\n".join(rows)


def microseconds(measurement):
    return f"{measurement['median_us']:.2f}" if measurement else "-"


def times(value):
    return f"{value:.2f}x" if value is not None else "-"


def host_time(measurement):
    return f"{measurement['host_us']:.1f}" if measurement and measurement["host_us"] > 0 else "-"


def provenance(run):
    """The facts that a result must have, in one line."""
    toolkit = run.get("toolkit") or (run["result"].get("toolkit") if "result" in run else None)
    return (f"`{run['command']}`, {run['gpu']}, driver {run['driver']}{', ' + toolkit if toolkit else ''}, "
            f"{run['max_sm_clock_mhz']:.0f} MHz at most, {run['power_limit_w']:.0f} W, "
            f"commit {run['commit']}, {run['date']}")


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def figures(shapes, name):
    return [shape[name] for shape in shapes if shape.get(name) is not None]


def sections(run):
    """A run's kinds. A run from before there were several is strict f32."""
    return run["result"].get("kinds") or [{"kind": "f32", **run["result"]}]


def unit(kind):
    return "TOP/s" if kind.startswith("i8") else "TFLOP/s"


def compare_rows(section):
    rows = [f"| shape | served | tuned us | spread | {unit(section['kind'])} | cuBLAS us | pedantic us | best Lt us "
            "| ratio | over floor | host us | cuBLAS host us |", "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for shape in section["shapes"]:
        tuned, cublas, pedantic, lt = (shape["columns"][c]["measurement"] for c in (
            "tuned", "cublas", "cublas_pedantic", "cublas_lt_best"))
        if not tuned:
            rows.append(f"| {size_of(shape['problem'])} | failed " + "| - " * 10 + "|")
            continue
        over_bare = f", {shape['over_bare']:.3f}x of the product without it" if shape.get("over_bare") else ""
        rows.append(f"| {size_of(shape['problem'])}{over_bare} | {shape['match']} | {microseconds(tuned)} "
                    f"| {100 * tuned['spread']:.2f}% | {shape['tflops']:.2f} | {microseconds(cublas)} "
                    f"| {microseconds(pedantic)} | {microseconds(lt)} | {times(shape['ratio'])} "
                    f"| {times(shape['over_floor'])} | {host_time(tuned)} | {host_time(cublas)} |")
    return rows


def worst_of(shapes, count=3):
    compared = sorted((s for s in shapes if s["ratio"] is not None), key=lambda s: s["ratio"])
    return ", ".join(f"{size_of(s['problem'])} {s['ratio']:.3f}x" for s in compared[:count])


def cublas_over_floor(shapes):
    return geometric_mean([s["better_cublas_us"] / s["floor_us"] for s in shapes
                           if s["better_cublas_us"] and s["floor_us"]])


def refusals(shapes):
    """Why there is no time in a cuBLAS column: each reason once, with its shapes."""
    said = {}
    for shape in shapes:
        for name, column in shape["columns"].items():
            if name != "tuned" and not column["measurement"] and column["detail"] and not shape["error"]:
                said.setdefault(f"no {name}: {column['detail']}", []).append(size_of(shape["problem"]))
    return [f"{reason} ({'all shapes' if len(of) == len(shapes) else ', '.join(of)})." for reason, of in said.items()]


def compare_summary(section):
    shapes = section["shapes"]
    ratios, lines = figures(shapes, "ratio"), []
    if section["kind"] == "f32x3":
        lines.append("The cuBLAS columns are its strict f32.")
    if ratios:
        lines.append(f"Against the better cuBLAS column, {len(ratios)} shapes: geometric mean "
                     f"{geometric_mean(ratios):.3f}x, minimum {min(ratios):.3f}x; "
                     f"{sum(r < 1 for r in ratios)} below 1.00, {sum(r < 0.97 for r in ratios)} below 0.97. "
                     f"Worst: {worst_of(shapes)}.")
    over, rates = geometric_mean(figures(shapes, "over_floor")), section["rates"]
    if over:
        theirs = cublas_over_floor(shapes)
        lines.append(f"Time over the physical floor ({rates['flops'] * 1e-12:.1f} {unit(section['kind'])}, "
                     f"{rates['bytes'] * 1e-12:.2f} TB/s, 2 us), geometric mean: {over:.3f}x"
                     + (f", the better cuBLAS column {theirs:.3f}x" if theirs else "") + ".")
    errors = figures(shapes, "error_over_strict")
    if errors:
        lines.append(f"Norm-wise error over that of strict f32 on the same data: {max(errors):.2f}x at most.")
    lines += [f"Failed: {size_of(s['problem'])}: {s['error']}." for s in shapes if s["error"]]
    return lines


def compare_table(name):
    name, _, kind = name.partition(":")
    run, parts = load(name), []
    chosen = [section for section in sections(run) if kind in ("", section["kind"])]
    if not chosen:
        sys.exit(f"bench/results/{name}.json has no {kind}")
    for section in chosen:
        heading = [f"**{section['kind']}**", ""] if len(chosen) > 1 else []
        reasons = refusals(section["shapes"]) if "kinds" in run["result"] else []
        parts.append("\n".join(heading + compare_rows(section) + [""] + compare_summary(section) + reasons))
    timing = run["result"]["timing"]
    return "\n\n".join(parts) + (f"\n{provenance(run)}, {'cold' if timing['cold'] else 'warm'}, "
                                 f"{timing['rounds']} rounds" + (f", {run['seconds']:.0f} s." if "seconds" in run else "."))


def types_table(names):
    rows = ["| type | shapes | without cuBLAS | geometric mean | minimum | below 1.00 | over floor "
            "| cuBLAS over floor | worst |", "|---|---|---|---|---|---|---|---|---|"]
    for name in names.split(","):
        for section in sections(load(name)):
            shapes = section["shapes"]
            ratios = figures(shapes, "ratio")
            rows.append(f"| {section['kind']} ([{name}](../bench/results/{name}.json)) | {len(shapes)} "
                        f"| {sum(s['better_cublas_us'] is None for s in shapes)} | {times(geometric_mean(ratios))} "
                        f"| {times(min(ratios, default=None))} | {sum(r < 1 for r in ratios)} "
                        f"| {times(geometric_mean(figures(shapes, 'over_floor')))} "
                        f"| {times(cublas_over_floor(shapes))} | {worst_of(shapes)} |")
    return "\n".join(rows)


def speeds_table(names):
    rows = ["| type | shapes | geometric mean | minimum | below 1.00 | worst three |", "|---|---|---|---|---|---|"]
    for name in names.split(","):
        for section in sections(load(name)):
            shapes = section["shapes"]
            ratios = figures(shapes, "ratio")
            kind = section["kind"] + (" batches" if any(s["problem"].get("batch", 1) > 1 for s in shapes) else "")
            rows.append(f"| {kind} | {len(ratios)} | {times(geometric_mean(ratios))} | {times(min(ratios))} "
                        f"| {sum(r < 1 for r in ratios)} | {worst_of(shapes)} |")
    return "\n".join(rows)


LADDER = "h100_ladder_4096"


def made_of(shown):
    return "made of " + hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def ladder_hash():
    return made_of([[rung["name"], tflops_of(rung)] for rung in load(LADDER)["result"]["rungs"]])


def picture_hash():
    """Hash of the ratios in the picture."""
    shown = [(name, kind, [figures(s["shapes"], "ratio") for s in sections(load(name)) if s["kind"] == kind])
             for name, kind in PICTURE]
    return made_of(shown)


STATISTICS = {"geometric mean": geometric_mean, "minimum": lambda values: min(values, default=None),
              "maximum": lambda values: max(values, default=None),
              "below 1.00": lambda values: sum(v < 1 for v in values) if values else None}
FIGURES = {"ratio": "times cuBLAS", "over_floor": "times the floor", "tflops": "TFLOP/s",
           "error_over_strict": "times strict f32's error"}


def belongs(shape, target):
    text = size_of(shape["problem"])

    def any_of(patterns):
        return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)
    return ((shape["problem"].get("batch", 1) != 1) == target.get("batched", False)
            and any_of(target["shapes"]) and not any_of(target.get("except", [])))


def target_row(kind, target, shapes):
    figure = target.get("figure", "ratio")
    reached = STATISTICS[target["statistic"]](figures(shapes, figure))
    least = "at_least" in target
    bound = target["at_least"] if least else target["at_most"]
    complete = not any(shape["error"] for shape in shapes)
    met = complete and reached is not None and (reached >= bound if least else reached <= bound)
    # Without cuBLAS, the floor is the only comparison.
    alone = [s for s in shapes if s["better_cublas_us"] is None and s["over_floor"] is not None]
    floor = f"{len(alone)} at {geometric_mean(figures(alone, 'over_floor')):.2f}x the floor" if alone else "-"
    text = "-" if reached is None else f"{reached}" if isinstance(reached, int) else f"{reached:.3f}"
    return (f"| {kind} | {target['group']} | {len(shapes)} | {target['statistic']}, {FIGURES[figure]} "
            f"| {'at least' if least else 'at most'} {bound:g} | {text} | {'yes' if met else 'no'} | {floor} |")


def targets_table(names):
    measured = {}
    for name in names.split(","):
        for section in sections(load(name)):
            measured.setdefault(section["kind"], []).extend(section["shapes"])
    rows = ["| type | group | shapes | figure | target | reached | met | without cuBLAS |",
            "|---|---|---|---|---|---|---|---|"]
    for target in json.loads((ROOT / "bench" / "targets.json").read_text()):
        for kind in target["kinds"]:
            shapes = [shape for shape in measured.get(kind, []) if belongs(shape, target)]
            if shapes:
                rows.append(target_row(kind, target, shapes))
    return "\n".join(rows)


def pack_table(name):
    run = load(name)
    rows = ["| operand | element | pack | pack us | TB/s | copy us | TB/s | of the copy rate |",
            "|---|---|---|---|---|---|---|---|"]
    for r in run["result"]["packs"]:
        math = r.get("math", "strict")  # older runs have strict alone
        element = r["type"] if math == "strict" else f"{r['type']} by {math}"
        rows.append(f"| {r['rows']}x{r['columns']} | {element} | {r['pack']} | {r['pack_us']:.2f} "
                    f"| {r['pack_tbps']:.2f} | {r['copy_us']:.2f} | {r['copy_tbps']:.2f} | {100 * r['share']:.0f}% |")
    return "\n".join(rows + ["", f"{provenance(run)}, cold, {run['result']['rounds']} rounds."])


def duration(microseconds):
    return f"{microseconds:.1f} us" if microseconds < 1e3 else (
        f"{microseconds / 1e3:.2f} ms" if microseconds < 1e6 else f"{microseconds / 1e6:.2f} s")


def tflops_of(rung):
    """The speed of a rung in TFLOP/s; older runs have FLOP/s as "flops"."""
    return rung["tflops"] if "tflops" in rung else rung["flops"] and rung["flops"] / 1e12


def arithmetic_of(rung):
    """The arithmetic of a rung; older runs have it in the name only."""
    if "arithmetic" in rung:
        return rung["arithmetic"]
    return {"cpu": "f64", "tuned, tf32": "tf32", "tuned, f32x3": "f32x3"}.get(rung["name"], "f32")


def ladder_table(name):
    run = load(name)
    ladder = run["result"]
    peak = ladder["peak_tflops"] if "peak_tflops" in ladder else ladder["peak_flops"] and ladder["peak_flops"] / 1e12
    rates = [tflops_of(r) for r in ladder["rungs"]]
    scale, unit = (1, "TFLOP/s") if max(filter(None, rates), default=0) >= 1 else (1e3, "GFLOP/s")
    rows = [f"| rung | step | time | {unit} | speedup | of f32 peak | bytes/flop | error/bound | norm-wise error |",
            "|---|---|---|---|---|---|---|---|---|"]

    def figure(value, text):
        return text.format(value) if value is not None else "-"

    for i, r in enumerate(ladder["rungs"]):
        time = duration(r["measurement"]["median_us"]) if r["measurement"] else r["outcome"]
        scaled = f" ({r['detail']})" if r["detail"] else ""
        before = next((j for j in reversed(range(i)) if rates[j] and arithmetic_of(ladder["rungs"][j]) == arithmetic_of(r)),
                      None)
        speedup = "-"
        if rates[i] and before is not None:
            speedup = f"{rates[i] / rates[before]:.2f}x" + ("" if before == i - 1 else f" ({before + 1})")
        share = 100 * rates[i] / peak if rates[i] and peak and arithmetic_of(r) == "f32" else None
        rows.append(f"| {r['rung']} | {r['name']}{scaled} | {time} | {figure(rates[i] and rates[i] * scale, '{:.2f}')} "
                    f"| {speedup} | {figure(share, '{:.1f}%')} "
                    f"| {figure(r['bytes_per_flop'], '{:.3f}')} | {figure(r['error_ratio'], '{:.4f}')} "
                    f"| {figure(r.get('normwise_error'), '{:.1e}')} |")
    if peak:
        rows.append(f"| | f32 peak | - | {peak * scale:.2f} | - | 100.0% | - | - | - |")
    rows.append("")
    rows.append(f"{provenance(run)}, {'cold' if ladder['cold'] else 'warm'}, {run['seconds']:.0f} s.")
    return "\n".join(rows)


def python_table(name):
    run = load(name)
    r = run["result"]
    rows = ["| product, GPU time | torch.mm us | tilewise.matmul us | ratio | with host time |", "|---|---|---|---|---|"]
    for p in r["products"]:
        rows.append(f"| {p['m']}x{p['n']}x{p['k']} | {p['torch_us']:.1f} | {p['tilewise_us']:.1f} | {p['ratio']:.2f} "
                    f"| {p['ratio_with_host_time']:.2f} |")
    rows += ["", "| training step of Linear, rows x outputs x inputs | PyTorch us | Tilewise us | ratio | in a CUDA graph | ratio |",
             "|---|---|---|---|---|---|"]
    for p in r["training_steps"]:
        rows.append(f"| {p['rows']}x{p['outputs']}x{p['inputs']} | {p['torch_us']:.0f} | {p['tilewise_us']:.0f} | {p['ratio']:.2f} "
                    f"| {p['torch_graph_us']:.0f} and {p['tilewise_graph_us']:.0f} | {p['ratio_graph']:.2f} |")
    rows += ["", "| host time of a call, 64x64x64 | us |", "|---|---|"]
    rows += [f"| {call} | {us:.1f} |" for call, us in r["host_us"].items()]
    rows += ["", f"{provenance(run)}, PyTorch {r['torch']}, {r['dtype']}."]
    return "\n".join(rows)


def drop_in_table(name):
    run = load(name)
    r = run["result"]
    rows = ["| torch.mm | cuBLAS us | drop-in us | ratio | error of cuBLAS | error of the drop-in |", "|---|---|---|---|---|---|"]
    for p in r["products"]:
        rows.append(f"| {p['size']} | {p['torch_us']:.1f} | {p['drop_in_us']:.1f} | {p['ratio']:.2f} | {p['torch_error']:.1e} "
                    f"| {p['drop_in_error']:.1e} |")
    rows += ["", f"{provenance(run)}, PyTorch {r['torch']}, bfloat16; norm-wise errors."]
    return "\n".join(rows)


def threads_table(names):
    runs = [load(name) for name in names.split(",")]
    numbers = [str(t["threads"]) for t in runs[0]["result"]["threads"]]
    rows = ["| threads | " + " | ".join(numbers) + " |", "|---|" + "---|" * len(numbers)]
    for run in runs:
        problem = run["result"]["problem"].split(" strict")[0]
        rows.append(f"| {problem} | " + " | ".join(f"{t['ratio']:.2f}" for t in run["result"]["threads"]) + " |")
    return "\n".join(rows)


def streams_table(names):
    rows = ["| product | caller's memory | ms | of the bound |", "|---|---|---|---|"]
    for name in names.split(","):
        result = load(name)["result"]
        rows.append(f"| {result['problem'].split(' strict')[0]} | {result['memory']} | {result['median_ms']:.1f} | {result['of_bound']:.2f} |")
    return "\n".join(rows)


def part_table(name):
    """The table under "[key] ..." of a text file, for results that were counted or composed by hand."""
    file, _, key = name.partition(":")
    text = (ROOT / "bench" / "results" / f"{file}.txt").read_text()
    found = re.search(rf"^\[{key}\].*\n((?:\|.*\n)+)", text, flags=re.M)
    if not found:
        sys.exit(f"bench/results/{file}.txt has no table [{key}]")
    return found[1].rstrip("\n")


def emulated_table(name):
    """bench/emulated.py: times, and errors over |A| |B|."""
    run = load(name)
    rows = ["| m = n = k | data | emulated ms | cuBLAS ms | ratio | largest error | cuBLAS's | median error | cuBLAS's |",
            "|---|---|---|---|---|---|---|---|---|"]
    for case in run["result"]["cases"]:
        errors = [case[f"{of}_{which}_error"] for which in ("largest", "median") for of in ("emulated", "cublas")]
        rows.append(f"| {case['size']} | {case['data']} | {case['emulated_ms']:.2f} | {case['cublas_ms']:.2f} | {case['ratio']:.2f}x | "
                    + " | ".join(f"{error:.1e}" for error in errors) + " |")
    return "\n".join(rows)


def emulated_f32_table(name):
    """bench/emulated.py --dtype f32: the same beside f32x3 and strict f32."""
    run = load(name)
    rows = ["| product | data | kernel | emulated ms | f32x3 ms | cuBLAS ms | cuBLAS's time over ours | f32x3's over ours | largest error | strict's "
            "| f32x3's | median error | strict's |", "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for case in run["result"]["cases"]:
        errors = [case[key] for key in ("emulated_largest_error", "strict_largest_error", "f32x3_largest_error", "emulated_median_error",
                                        "strict_median_error")]
        ratio = case["f32x3_ms"] / case["emulated_ms"]
        rows.append(f"| {case['size']} | {case['data']} | `{case['kernel']}` | {case['emulated_ms']:.3f} | {case['f32x3_ms']:.3f} | "
                    f"{case['cublas_ms']:.3f} | {case['ratio']:.2f}x | {ratio:.2f}x | " + " | ".join(f"{error:.1e}" for error in errors) + " |")
    return "\n".join(rows)


def accuracy_table(name):
    """bench/emulated.py --accuracy: products within an error of the caller."""
    run = load(name)
    rows = ["| m = n = k | data | ms | cuBLAS ms | ratio | largest error |", "|---|---|---|---|---|---|"]
    for case in run["result"]["cases"]:
        rows.append(f"| {case['size']} | {case['data']} | {case['accuracy_ms']:.2f} | {case['cublas_ms']:.2f} | {case['accuracy_ratio']:.2f}x | "
                    f"{case['accuracy_largest_error']:.1e} |")
    return "\n".join(rows)


def untuned_groups(section):
    """The problems of each kind, layout, n and k, in their order."""
    groups = {}
    for row in section["problems"]:
        p = row["problem"]
        groups.setdefault((section["kind"], p["layout"], p["n"], p["k"]), []).append(row)
    return groups


def untuned_table(names):
    """bench/untuned --problems: what serves without a search of its own, beside cuBLAS."""
    rows = ["| type | layout, n, k | m | products | geometric mean | least | below 0.95 | in the portfolio |", "|---|---|---|---|---|---|---|---|"]
    notes = []
    for name in names.split(","):
        run = load(name)
        for section in run["result"]["kinds"]:
            for (kind, layout, n, k), group in untuned_groups(section).items():
                compared = [(row["served_of_cublas"], row["problem"]["m"]) for row in group if row.get("served_of_cublas")]
                ratios = [ratio for ratio, _ in compared]
                slow = ", ".join(f"{m}: {ratio:.2f}" for ratio, m in sorted(compared) if ratio < 0.95)
                own = ", ".join(str(row["problem"]["m"]) for row in group if row["in_portfolio"])
                sizes = [row["problem"]["m"] for row in group]
                rows.append(f"| {kind} | {layout}, {n}, {k} | {min(sizes)} to {max(sizes)} | {len(compared)} | {times(geometric_mean(ratios))} "
                            f"| {times(min(ratios, default=None))} | {slow or '-'} | {own or '-'} |")
                notes += [f"Failed: {size_of(row['problem'])} {kind}: {row['error']}." for row in group if "error" in row]
                silent = [size_of(row["problem"]) for row in group if "error" not in row and not row.get("served_of_cublas")]
                notes += [f"Without cuBLAS: {', '.join(silent)} {kind}."] if silent else []
        missing = [f"{section['asked'] - len(section['problems'])} of {section['asked']} products of {section['kind']}"
                   for section in run["result"]["kinds"] if section.get("asked", 0) > len(section["problems"])]
        notes += [f"Interrupted: {', '.join(missing) or 'the last products of the list'} not measured."] if run.get("status") == 130 else []
        notes.append(f"{provenance(run)}, cold, {run['seconds']:.0f} s.")
    return "\n".join(rows + ["", *notes])


TABLES = {"emulated": emulated_table, "accuracy": accuracy_table, "emulated_f32": emulated_f32_table, "part": part_table, "python": python_table, "drop_in": drop_in_table, "tune": tune_table, "serve": serve_table, "compare": compare_table, "ladder": ladder_table,
          "types": types_table, "speeds": speeds_table, "targets": targets_table, "pack": pack_table,
          "threads": threads_table, "streams": streams_table, "untuned": untuned_table}


def table(kind, names):
    for name in names.split(",") if kind != "part" else ():
        name = name.partition(":")[0]
        if not (ROOT / "bench" / "results" / f"{name}.json").exists():
            return f"bench/results/{name}.json is not there yet."
    return TABLES[kind](names)


def main():
    for name, made in {"speed.svg": picture_hash, "ladder.svg": ladder_hash}.items():
        if "--check" in sys.argv and made() not in (ROOT / "docs" / name).read_text():
            sys.exit(f"docs/{name} is older than bench/results: run bench/picture.py")
    for page in PAGES:
        text = page.read_text()
        made = re.sub(r"<!-- table (\w+) ([\w,:]+) -->\n.*?<!-- end -->",
                      lambda m: f"<!-- table {m[1]} {m[2]} -->\n{table(m[1], m[2])}\n<!-- end -->", text, flags=re.S)
        if page.parent.name == "results":
            made = made.replace("](../bench/results/", "](")
        if "--check" not in sys.argv:
            page.write_text(made)
        elif made != text:
            sys.exit(f"{page.relative_to(ROOT)} is older than bench/results: run bench/tables.py")


if __name__ == "__main__":
    main()
