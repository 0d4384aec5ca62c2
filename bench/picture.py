#!/usr/bin/env python3
"""Draws the pictures of the pages: docs/speed.svg, the speed of every compared shape over the best cuBLAS column, by type;
docs/ladder.svg, the teaching steps. Needs matplotlib (pip install matplotlib). bench/tables.py --check fails if a picture is
older than its files.
"""
import io
import pathlib
import re

import matplotlib

import tables

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

LABELS = {"e4m3:bf16": "e4m3", "i8": "int8"}
BELOW, ABOVE = "#b5472f", "#2f6fb5"


def save(figure, axes, name, made_of):
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
    figure.tight_layout()
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"(<svg [^>]*>)", rf"\1\n <!-- {made_of} -->", drawn.getvalue(), count=1)
    pathlib.Path(tables.ROOT / "docs" / name).write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def speeds():
    figure, axes = plt.subplots(figsize=(8, 4))
    names = []
    for place, (name, kind) in enumerate(tables.PICTURE):
        section = next(s for s in tables.sections(tables.load(name)) if s["kind"] == kind)
        ratios = sorted(r for r in tables.figures(section["shapes"], "ratio"))
        # Places points next to each other, in the order of their ratios.
        spread = [place + 0.3 * ((i * 7) % 11 - 5) / 5 for i in range(len(ratios))]
        axes.scatter(spread, ratios, s=22, c=[BELOW if r < 1 else ABOVE for r in ratios], alpha=0.75, linewidths=0)
        mean = tables.geometric_mean(ratios)
        axes.hlines(mean, place - 0.38, place + 0.38, colors="black", linewidth=1.2)
        names.append(f"{LABELS.get(kind, kind)}\n{mean:.2f}x")
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_yticks([1, 2, 4, 8, 16, 32], ["1x", "2x", "4x", "8x", "16x", "32x"])
    axes.minorticks_off()
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("speed over the best cuBLAS column")
    axes.set_title("Tuned kernels on an H200, each shape a dot, geometric mean a line", fontsize=11)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    save(figure, axes, "speed.svg", tables.picture_hash())


def ladder():
    run = tables.load(tables.LADDER)["result"]
    rungs = run["rungs"]
    rates = [tables.tflops_of(rung) for rung in rungs]
    peak = run["peak_tflops"] if "peak_tflops" in run else run["peak_flops"] / 1e12
    figure, axes = plt.subplots(figsize=(8, 4.2))
    places = range(len(rungs))
    strict = [tables.arithmetic_of(rung) == "f32" for rung in rungs]
    axes.barh(places, rates, color=[ABOVE if one else "#8fb3d9" for one in strict])
    for place, rate in zip(places, rates):
        axes.text(rate * 1.06, place, f"{rate:.1f}", va="center", fontsize=9)
    axes.axvline(peak, color=BELOW, linewidth=1)
    axes.text(peak * 1.03, -0.9, f"f32 peak {peak:.1f}", color=BELOW, fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(0.4, 800)
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500], ["0.5", "1", "2", "5", "10", "20", "50", "100", "200", "500"])
    axes.minorticks_off()
    axes.set_yticks(places, [rung["name"] for rung in rungs])
    axes.set_ylim(len(rungs) - 0.4, -1.4)
    axes.set_xlabel("TFLOP/s at 4096 on an H100; light: other arithmetic than f32's")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    save(figure, axes, "ladder.svg", tables.ladder_hash())


def main():
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tilewise", "font.family": "sans-serif", "font.size": 11})
    speeds()
    ladder()


if __name__ == "__main__":
    main()
