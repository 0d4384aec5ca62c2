#!/usr/bin/env python3
"""Emulated products beside cuBLAS's native ones: times in turns, and errors against |A| |B| element by element.

For each size (m x n x k, or one number) and kind of data: normal numbers, numbers whose exponents are spread evenly over
`2^10`, and uniform numbers from 0 to 1. Of f32 this library's f32x3 and strict products run, too. Times are medians of
rounds in which each product runs in turn. Errors are those of sampled rows, against products in 64 bits of precision (numpy's
longdouble, whose own error is 2^-11 of f64's). Run `autotune tune --math emulated` first, of f32 also with f32x3 and strict.

    bench/record.py h200_emulated -- python3 bench/emulated.py --sizes 4096,8192,16384
    bench/record.py h200_emulated_f32 -- python3 bench/emulated.py --dtype f32 --sizes 4096,8192 --data normal,uniform,spread
"""
import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def data_of(torch, kind, rows, columns, generator, dtype):
    if kind == "uniform":
        return torch.rand(rows, columns, generator=generator, device="cuda", dtype=dtype)
    x = torch.randn(rows, columns, generator=generator, device="cuda", dtype=dtype)
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
    parser.add_argument("--dtype", choices=["f64", "f32"], default="f64")
    parser.add_argument("--sizes", default="4096,8192,16384")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--accuracy", type=float, help="of f64: also products within this error")
    parser.add_argument("--data", default="normal,spread")
    options = parser.parse_args()
    import numpy
    import torch
    import tilewise

    generator = torch.Generator("cuda").manual_seed(1)
    cases = []
    dtype = torch.float64 if options.dtype == "f64" else torch.float32
    modes = ["emulated"] if options.dtype == "f64" else ["emulated", "f32x3", "strict"]
    for size in options.sizes.split(","):
        m, n, k = (int(part) for part in (size.split("x") if "x" in size else [size] * 3))
        for kind in options.data.split(","):
            a, b = data_of(torch, kind, m, k, generator, dtype), data_of(torch, kind, k, n, generator, dtype)
            results = {name: torch.empty(m, n, device="cuda", dtype=dtype) for name in (*modes, "cublas")}
            products = {mode: (lambda mode=mode: tilewise.matmul(a, b, out=results[mode], math=mode)) for mode in modes}
            if options.accuracy:
                results["accuracy"] = torch.empty_like(results["cublas"])
                products["accuracy"] = lambda: tilewise.matmul(a, b, out=results["accuracy"], accuracy=options.accuracy)
            products["cublas"] = lambda: torch.mm(a, b, out=results["cublas"])
            times = timed(torch, products, options.rounds)
            served = tilewise.explain(m, n, k, dtype=options.dtype, math="emulated")
            case = {"size": m if m == n == k else size, "data": kind, "kernel": served["kernel_template"],
                    **{f"{name}_ms": round(ms, 4) for name, ms in times.items()},
                    **{"ratio" if mode == "emulated" else f"{mode}_ratio": round(times["cublas"] / ms, 4)
                       for mode, ms in times.items() if mode in ("emulated", "accuracy")},
                    "tflops": round(2 * m * n * k / times["emulated"] / 1e9, 1)}
            rows = torch.arange(0, m, max(1, m // 16))[:16]
            for name, c in results.items():
                largest, median = errors_of(numpy, a, b, c, rows)
                case[name + "_largest_error"], case[name + "_median_error"] = largest, median
            cases.append(case)
            print(json.dumps(case), file=sys.stderr)
            del a, b, results, products
            torch.cuda.empty_cache()
    bound = "sqrt(k) 2^-53" if options.dtype == "f64" else "3 x 2^-22 + the sums' rounding"
    print(json.dumps({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "dtype": options.dtype, "bound": bound,
                      **({"accuracy": options.accuracy} if options.accuracy else {}),
                      "cases": cases}, indent=1))


if __name__ == "__main__":
    main()
