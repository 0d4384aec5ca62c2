#!/usr/bin/env python3
"""Products with narrow weights beside those of bf16, and beside PyTorch's of int4, in turns.

C (m x n, bf16) = A W^T, A in bf16, W (n x k) in bf16, in i4 with bf16 scales of 128 steps of k ("i4"), in i8 or e4m3 with scales
of columns. A time is that of a captured graph of several products with as many different weights as exceed the L2, divided
by the number of products; the median of rounds in which all run in turn. With --tune all are tuned first, for so many
seconds each. The ratio is the time of bf16 over that of the narrow weights.

    bench/record.py h200_narrow -- python3 bench/narrow.py --tune 8
"""
import argparse
import csv
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from scaled import times_of

EPILOGUES = {"bf16": "", "i4": "acc(s:bf16[k/128,j])", "i8": "acc*s:f32[j]", "e4m3": "acc*s:f32[j]"}
BYTES = {"bf16": 2, "i4": 0.5, "i8": 1, "e4m3": 1}
AT_LEAST = 160e6  # bytes of weights, of which the L2 keeps a third


def tune(cases, kinds, seconds):
    """Tunes all products by one list."""
    program = os.environ.get("TILEWISE_AUTOTUNE", "autotune")
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["m", "n", "k", "layout", "dtype", "dtype_b", "epilogue"])
        for (n, k), m in cases:
            rows.writerows([m, n, k, "nt", "bf16", kind if kind != "bf16" else "", EPILOGUES[kind]] for kind in kinds)
        file.flush()
        subprocess.run([program, "tune", "--device", "0", "--problems", file.name, "--budget", f"{seconds}s", "-q"], check=True,
                       stdout=sys.stderr)


def weights_of(torch, tilewise, kind, n, k):
    """A weight and its scales, as arguments of matmul()."""
    if kind == "bf16":
        return torch.randn(n, k, device="cuda").bfloat16().T, {}
    if kind == "i4":
        scales = (torch.rand(math.ceil(k / 128), n, device="cuda") + 0.5).bfloat16()
        return tilewise.Int4(torch.randint(-128, 128, (n, k // 2), device="cuda").to(torch.int8)).T, {"s": scales}
    scales = torch.rand(n, device="cuda") + 0.5
    if kind == "i8":
        return torch.randint(-128, 128, (n, k), device="cuda").to(torch.int8).T, {"s": scales}
    return torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn).T, {"s": scales}


def in_turn(calls):
    """A function that makes one of the calls after another."""
    turn = itertools.cycle(calls)
    return lambda: next(turn)()


def products_of(torch, tilewise, kinds, m, n, k):
    """By name the products of one size, and the number that a graph has of each."""
    x = torch.randn(m, k, device="cuda").bfloat16()
    products, count = {}, 4
    for kind in kinds:
        copies = max(2, math.ceil(AT_LEAST / (n * k * BYTES[kind])))
        count = max(count, copies)
        calls = []
        for _ in range(copies):
            w, named = weights_of(torch, tilewise, kind, n, k)
            out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
            more = {"epilogue": EPILOGUES[kind], **named} if named else {}
            calls.append(lambda w=w, out=out, more=more: tilewise.matmul(x, w, out=out, **more))
        products[kind] = in_turn(calls)
    if "i4" in kinds and m <= 128:
        q = torch.randint(0, 256, (n, k // 2), device="cuda").to(torch.uint8)
        copies = max(2, math.ceil(AT_LEAST / (n * k / 2)))
        theirs = [torch._convert_weight_to_int4pack(q, 8) for _ in range(copies)]
        scales = torch.rand(k // 128, n, 2, device="cuda").bfloat16()
        products["torch_i4"] = in_turn([lambda w=w: torch._weight_int4pack_mm(x, w, 128, scales) for w in theirs])
    return products, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", default="4096x4096,14336x4096,4096x14336,28672x8192", help="n x k")
    parser.add_argument("--rows", default="1,16,64,128")
    parser.add_argument("--kinds", default="bf16,i4,i8,e4m3")
    parser.add_argument("--tune", type=float, help="seconds of a search before")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    import torch
    import tilewise

    torch.manual_seed(1)
    kinds = options.kinds.split(",")
    weights = [tuple(int(part) for part in text.split("x")) for text in options.weights.split(",")]
    sizes = list(itertools.product(weights, (int(m) for m in options.rows.split(","))))
    if options.tune:
        tune(sizes, kinds, options.tune)
    cases = []
    for (n, k), m in sizes:
        products, count = products_of(torch, tilewise, kinds, m, n, k)
        times = times_of(torch, products, options.rounds, count)
        case = {"m": m, "n": n, "k": k, **{f"{name}_us": round(us, 2) for name, us in times.items()},
                **{f"{kind}_ratio": round(times["bf16"] / times[kind], 3) for kind in kinds if kind != "bf16"}}
        if "torch_i4" in times:
            case["over_torch_i4"] = round(times["torch_i4"] / times["i4"], 3)
        cases.append(case)
        print(json.dumps(case), file=sys.stderr)
    summary = {}
    for kind in kinds[1:]:
        for name, few, many in (("few", 1, 16), ("more", 17, 128), ("many", 129, 1 << 40)):
            ratios = [case[f"{kind}_ratio"] for case in cases if few <= case["m"] <= many]
            if ratios:
                summary[f"{kind} {name} rows"] = {"geometric_mean": round(statistics.geometric_mean(ratios), 3),
                                                  "minimum": min(ratios), "worst_three": sorted(ratios)[:3]}
    print(json.dumps({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "summary": summary, "cases": cases}, indent=1))


if __name__ == "__main__":
    main()
