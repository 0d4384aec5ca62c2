#!/usr/bin/env python3
"""Emulated f64 products beside cuBLAS's native ones: times in turns, and errors against |A| |B| element by element.

For each size and kind of data: normal numbers, and numbers whose exponents are spread evenly over `2^10`. Times are medians
of rounds in which each product runs in turn. Errors are those of sampled rows, against products in 64 bits of precision
(numpy's longdouble, whose own error is 2^-11 of f64's). Run `autotune tune --dtype f64 --math emulated` first.

    bench/record.py h200_emulated -- python3 bench/emulated.py --sizes 4096,8192,16384
"""
import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def data_of(torch, kind, rows, columns, generator):
    x = torch.randn(rows, columns, generator=generator, device="cuda", dtype=torch.float64)
    if kind == "normal":
        return x
    exponents = torch.randint(-5, 6, (rows, columns), generator=generator, device="cuda")
    return torch.ldexp(x, exponents)


def timed(torch, products, rounds):
    """The median time in milliseconds of each product, which run in turns."""
    times = {name: [] for name in products}
    for nth in range(rounds + 2):
        for name, product in products.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            product()
            end.record()
            end.synchronize()
            if nth >= 2:
                times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(of) for name, of in times.items()}


def errors_of(numpy, a, b, c, rows):
    """The largest and the median error of some rows of c, relative to |A| |B|."""
    left, right = a[rows].cpu().numpy().astype(numpy.longdouble), b.cpu().numpy()
    got = c[rows].cpu().numpy()
    columns = numpy.random.default_rng(1).choice(right.shape[1], min(256, right.shape[1]), replace=False)
    right = right[:, columns].astype(numpy.longdouble)
    exact = left @ right
    bound = numpy.abs(left) @ numpy.abs(right)
    error = numpy.abs(got[:, columns].astype(numpy.longdouble) - exact) / bound
    return float(error.max()), float(numpy.median(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="4096,8192,16384")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--data", default="normal,spread")
    options = parser.parse_args()
    import numpy
    import torch
    import tilewise

    generator = torch.Generator("cuda").manual_seed(1)
    cases = []
    for size in map(int, options.sizes.split(",")):
        for kind in options.data.split(","):
            a, b = (data_of(torch, kind, size, size, generator) for _ in range(2))
            results = {name: torch.empty(size, size, device="cuda", dtype=torch.float64) for name in ("emulated", "cublas")}
            products = {"emulated": lambda: tilewise.matmul(a, b, out=results["emulated"], math="emulated"),
                        "cublas": lambda: torch.mm(a, b, out=results["cublas"])}
            times = timed(torch, products, options.rounds)
            case = {"size": size, "data": kind, "emulated_ms": round(times["emulated"], 4),
                    "cublas_ms": round(times["cublas"], 4), "ratio": round(times["cublas"] / times["emulated"], 4),
                    "tflops": round(2 * size**3 / times["emulated"] / 1e9, 1)}
            rows = torch.arange(0, size, max(1, size // 16))[:16]
            for name, c in results.items():
                largest, median = errors_of(numpy, a, b, c, rows)
                case[name + "_largest_error"], case[name + "_median_error"] = largest, median
            cases.append(case)
            print(json.dumps(case), file=sys.stderr)
            del a, b, results, products
            torch.cuda.empty_cache()
    print(json.dumps({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "bound": "sqrt(k) 2^-53", "cases": cases},
                     indent=1))


if __name__ == "__main__":
    main()
