#!/usr/bin/env python3
"""Draws docs/speed.svg, the picture of README.md: every shape of the comparisons as its speed over the best cuBLAS column, by
type. Needs matplotlib (pip install matplotlib). bench/tables.py --check says when the picture is older than its files.
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


def main():
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tilewise", "font.family": "sans-serif", "font.size": 11})
    figure, axes = plt.subplots(figsize=(8, 4))
    names = []
    for place, (name, kind) in enumerate(tables.PICTURE):
        section = next(s for s in tables.sections(tables.load(name)) if s["kind"] == kind)
        ratios = sorted(r for r in tables.figures(section["shapes"], "ratio"))
        # Neighbours side by side, in the order of their ratios.
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
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    figure.tight_layout()
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    # Readable on a dark page, too; the comment tells of which files it is.
    text = re.sub(r"(<svg [^>]*>)", rf"\1\n <!-- {tables.picture_hash()} -->", drawn.getvalue(), count=1)
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    pathlib.Path(tables.ROOT / "docs" / "speed.svg").write_text(text)


if __name__ == "__main__":
    main()
