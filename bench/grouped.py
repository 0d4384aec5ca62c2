#!/usr/bin/env python3
"""Grouped products on a GPU next to torch._grouped_mm and a loop of torch.mm, in one run.

For each number of groups, of rows, each n and k, and each distribution: tunes the problem, checks the result against a loop in
float32, and times the three in turns on operands that rotate past the L2. Prints one JSON document with the floor of each
case: the larger of its bytes at 2.95 TB/s and its operations at 740 TFLOP/s.

    bench/record.py h100_grouped -- python3 bench/grouped.py --db /tmp/grouped.db --budget 8
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CASES = "8,64,128,256"
ROWS = "1024,8192,65536"
SIZES = "4096x7168,7168x2048,2048x1536"
BYTES_PER_S, FLOPS_PER_S = 2.95e12, 740e12
L2_BYTES = 100e6


def rows_of(distribution, groups, rows):
    """As vocabulary/grouping.cpp has it, which tunes for these."""
    shares = {"even": lambda g: 1.0, "zipf": lambda g: 1 / (g + 1), "one_hot": lambda g: float(g == groups // 2)}[distribution]
    every = [shares(g) for g in range(groups)]
    counts = [int(rows * (share / sum(every))) for share in every]
    rest = rows - sum(counts)
    if distribution != "even":
        counts[0] += rest
    else:
        for g in range(rest):
            counts[g % groups] += 1
    return counts


def tune(options, groups, rows, n, k, distribution):
    budget = options.budget + 2e-9 * groups * n * k  # a second to make and check each gigabyte of B
    command = [options.autotune, "tune", "--device", "0", "--dtype", "bf16", "--layout", "nt", "--groups", str(groups), "--distribution",
               distribution, "--sizes", f"{rows}x{n}x{k}", "--budget", f"{budget:.1f}s", "--db", options.db, "--json", "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr or done.stdout)


def gpu_us(torch, calls, rounds=9, least_us=3e3):
    """Median microseconds of one call, of rounds that each take about `least_us`."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for call in calls:
        call()
    begin.record()
    calls[0]()
    end.record()
    end.synchronize()
    turns = max(1, min(200, int(least_us / max(1.0, begin.elapsed_time(end) * 1e3)) // len(calls)))
    times = []
    for _ in range(rounds):
        begin.record()
        for _ in range(turns):
            for call in calls:
                call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / (turns * len(calls)))
    return statistics.median(times)


def host_us(torch, call, calls=200):
    """Microseconds of the host for one call, which is enqueued."""
    call()
    torch.cuda.synchronize()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls * 1e6)
        torch.cuda.synchronize()
    return min(times)


def measure(torch, tilewise, groups, rows, n, k, distribution):
    counts = rows_of(distribution, groups, rows)
    ends = torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32)
    bytes_of_set = 2 * (rows * k + groups * n * k + rows * n)
    sets = max(1, min(8, int(2 * L2_BYTES // bytes_of_set) + 1))
    operands = [(torch.randn(rows, k, device="cuda", dtype=torch.bfloat16), torch.randn(groups, n, k, device="cuda", dtype=torch.bfloat16),
                 torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)) for _ in range(sets)]

    def loop(a, b, c):
        begin = 0
        for g, count in enumerate(counts):
            if count:
                torch.mm(a[begin:begin + count], b[g].t(), out=c[begin:begin + count])
            begin += count

    a, b, c = operands[0]
    tilewise.grouped(a, b.mT, ends, c, distribution=distribution)
    begin, worst = 0, 0.0
    for g, count in enumerate(counts):
        if count:
            x, y = a[begin:begin + count].float(), b[g].float().t()
            bound = x.abs() @ y.abs() * 2**-7 + 1e-6
            worst = max(worst, float(((c[begin:begin + count].float() - x @ y).abs() / bound).max()))
        begin += count
    calls = {
        "ours": [lambda s=s: tilewise.grouped(s[0], s[1].mT, ends, s[2], distribution=distribution) for s in operands],
        "torch": [lambda s=s: torch._grouped_mm(s[0], s[1].mT, offs=ends) for s in operands],
        "loop": [lambda s=s: loop(*s) for s in operands],
    }
    times = {name: [] for name in calls}
    for _ in range(3):
        for name, every in calls.items():
            times[name].append(gpu_us(torch, every, rounds=3))
    used = sum(count > 0 for count in counts)
    floor = max(2 * (rows * k + used * n * k + rows * n) / BYTES_PER_S, 2 * rows * n * k / FLOPS_PER_S) * 1e6
    us = {name: round(statistics.median(every), 2) for name, every in times.items()}
    return {"groups": groups, "rows": rows, "n": n, "k": k, "distribution": distribution, "us": us, "floor_us": round(floor, 2),
            "of_floor": round(floor / us["ours"], 3), "over_best": round(min(us["torch"], us["loop"]) / us["ours"], 3),
            "error": round(worst, 4), "right": worst <= 1}


def geometric_mean(values):
    return round(statistics.geometric_mean(values), 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True, help="the database of the searches")
    parser.add_argument("--budget", type=float, default=8, help="seconds of a search, and 1 for each gigabyte of B; 0: none, what is stored serves")
    parser.add_argument("--autotune", default=os.environ.get("TILEWISE_AUTOTUNE", "autotune"))
    parser.add_argument("--seconds", type=float, default=0, help="begins no further case after that; 0: all cases")
    parser.add_argument("--groups", default=CASES)
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--sizes", default=SIZES, help="NxK, with commas")
    parser.add_argument("--distributions", default="even,zipf,one_hot")
    parser.add_argument("--part", default="1/1", help="2/3: every third case from the second on, for several GPUs")
    options = parser.parse_args()
    import torch

    import tilewise
    import tilewise.torch

    cases = [(int(g), int(m), *map(int, size.split("x")), d) for g in options.groups.split(",") for m in options.rows.split(",")
             for size in options.sizes.split(",") for d in options.distributions.split(",")]
    part, parts = map(int, options.part.split("/"))
    cases = cases[part - 1::parts]
    begin, results = time.monotonic(), []
    for case in cases:
        if options.seconds and time.monotonic() - begin > options.seconds:
            break
        if options.budget > 0:
            tune(options, *case)
        tilewise.configure(database=options.db)
        results.append(measure(torch, tilewise, *case))
        print(json.dumps(results[-1]), file=sys.stderr, flush=True)
        torch.cuda.empty_cache()
    a, b = torch.randn(64, 256, device="cuda", dtype=torch.bfloat16), torch.randn(4, 256, 256, device="cuda", dtype=torch.bfloat16)
    ends = torch.tensor([16, 32, 48, 64], device="cuda", dtype=torch.int32)
    out = torch.empty(64, 256, device="cuda", dtype=torch.bfloat16)
    one, each = b[0].t(), b.mT
    host = {"plain_us": round(host_us(torch, lambda: tilewise.matmul(a, one, out)), 2),
            "grouped_us": round(host_us(torch, lambda: tilewise.grouped(a, each, ends, out)), 2),
            "torch_plain_us": round(host_us(torch, lambda: tilewise.torch.matmul(a, one)), 2),
            "torch_grouped_us": round(host_us(torch, lambda: tilewise.torch.grouped_mm(a, each, ends)), 2)}
    print(json.dumps({
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "dtype": "bf16", "budget_s": options.budget, "cases": len(cases),
        "results": results,
        "host": host, "of_floor": geometric_mean([r["of_floor"] for r in results]),
        "over_best": geometric_mean([r["over_best"] for r in results]), "least_over_best": min(r["over_best"] for r in results),
        "wrong": sum(not r["right"] for r in results)}, indent=1))


if __name__ == "__main__":
    main()
