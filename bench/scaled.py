#!/usr/bin/env python3
"""Products of scaled 8-bit floats by tilewise.torch.scaled_mm beside torch._scaled_mm, in turns.

C (m x n, bf16) = (A scaled) (B scaled)^T in e4m3, m = n = k, with scales of the tensors ("tensor"), of each row of A and of B
("rows") or of each 128 steps of k of rows of A and of 128 rows of B ("blocks"), the first two with and without PyTorch's
use_fast_accum. A time is that of a captured graph of several products, divided by their
number; the median of rounds in which both run in turn. With --tune each product is tuned first, for so many seconds. --quantize:
also tilewise.torch.quantize of matrices of bf16, beside the same by PyTorch's operations, eager and compiled.

    bench/record.py h200_scaled -- python3 bench/scaled.py --tune 15 --grouped 8:8192x4096x7168,8:65536x4096x7168,64:8192x2048x1536
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

TEXTS = {"tensor": "acc * scale_a * scale_b", "rows": "acc * scale_a:f32[i] * scale_b:f32[j]",
         "blocks": "acc(scale_a[k/128,i] * scale_b[j/128,k/128])"}


def graph_of(torch, product, count):
    """A captured graph of several calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        product()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            product()
    return graph


def times_of(torch, products, rounds, count):
    """The median time of one product in microseconds."""
    graphs = {name: graph_of(torch, product, count) for name, product in products.items()}
    times = {name: [] for name in products}
    for nth in range(rounds + 2):
        for name, graph in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if nth >= 2:
                times[name].append(begin.elapsed_time(end) * 1e3 / count)
    return {name: statistics.median(of) for name, of in times.items()}


def tune(size, scales, fast, seconds, groups=0):
    program = os.environ.get("TILEWISE_AUTOTUNE", "autotune")
    subprocess.run([program, "tune", "--device", "0", "--sizes", size, "--layout", "nt", "--dtype", "e4m3", "--out", "bf16",
                    "--math", "fast" if fast else "strict", "--epilogue", TEXTS[scales], "--budget", f"{seconds}s", "-q",
                    *(["--groups", str(groups)] if groups else [])], check=True, stdout=sys.stderr)


def grouped_case(torch, tilewise, options, case):
    """Groups of equal numbers of rows with scales of blocks beside scales of rows. case: "groups:rows x n x k"."""
    groups, (rows, n, k) = int(case.split(":")[0]), (int(part) for part in case.split(":")[1].split("x"))
    a = torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(groups, n, k, device="cuda").to(torch.float8_e4m3fn).transpose(1, 2)
    ends = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * (rows // groups)
    out = {scales: torch.empty(rows, n, device="cuda", dtype=torch.bfloat16) for scales in ("rows", "blocks")}
    ones = {"rows": (torch.ones(rows, device="cuda"), torch.ones(groups, n, device="cuda")),
            "blocks": (torch.ones(k // 128, rows, device="cuda"), torch.ones(groups, n // 128, k // 128, device="cuda"))}
    products = {}
    for scales, of in out.items():
        if options.tune:
            tune(f"{rows}x{n}x{k}", scales, False, options.tune, groups)
        products[scales] = lambda scales=scales, of=of: tilewise.grouped(
            a, b, ends, out=of, epilogue=TEXTS[scales], scale_a=ones[scales][0], scale_b=ones[scales][1])
    times = times_of(torch, products, options.rounds, 10)
    return {"groups": groups, "size": f"{rows}x{n}x{k}", **{f"{scales}_us": round(us, 2) for scales, us in times.items()},
            "rows_over_blocks": round(times["rows"] / times["blocks"], 4),
            "equal": bool(torch.allclose(out["rows"].float(), out["blocks"].float(), rtol=1e-2, atol=1e-2))}


def quantize_case(torch, tilewise, options, case):
    """Quantization of bf16 to e4m3 in blocks of 1 x 128. case: "rows x k"."""
    rows, k = (int(part) for part in case.split("x"))
    x = torch.randn(rows, k, device="cuda").bfloat16()

    most = torch.full((), 448.0, device="cuda")  # a tensor: by a number PyTorch multiplies by its reciprocal

    def by_torch(x):
        blocks = x.float().unflatten(1, (-1, 128))
        scales = (blocks.abs().amax(2) / most).clamp(min=2.0 ** -126)
        return (blocks / scales[:, :, None]).flatten(1).to(torch.float8_e4m3fn), scales

    compiled = torch.compile(by_torch, dynamic=False)
    products = {"tilewise": lambda: tilewise.torch.quantize(x), "torch": lambda: by_torch(x), "compiled": lambda: compiled(x)}
    equal = all(torch.equal(ours.float(), theirs.float()) for ours, theirs in zip(products["tilewise"](), products["torch"]()))
    times = times_of(torch, products, options.rounds, 10)
    return {"size": case, **{f"{name}_us": round(us, 2) for name, us in times.items()}, "equal": equal,
            "gb_per_s": round(rows * k * (3 + 4 / 128) / times["tilewise"] / 1e3, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--tune", type=float, help="seconds of a search before")
    parser.add_argument("--grouped", default="", help='also groups: "8:8192x4096x7168,..."')
    parser.add_argument("--quantize", default="", help='also quantizations: "4096x4096,..."')
    parser.add_argument("--scales", default=",".join(TEXTS))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    import torch
    import tilewise
    import tilewise.torch

    torch.manual_seed(1)
    cases = []
    for size in (int(part) for part in options.sizes.split(",") if part):
        a, b = (torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        for scales in options.scales.split(","):
            along = {"tensor": (1,), "rows": (size, 1), "blocks": (size // 128, size // 128)}[scales]
            scale_a, scale_b = (torch.rand(along, device="cuda") + 0.5 for _ in range(2))
            if scales != "tensor":
                scale_b = scale_b.t()
            if scales == "blocks":
                scale_a = (torch.rand(size // 128, size, device="cuda") + 0.5).t()
            for fast in (False, True) if scales != "blocks" else (False,):
                if options.tune:
                    tune(str(size), scales, fast, options.tune)
                arguments = dict(scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)
                products = {"tilewise": lambda: tilewise.torch.scaled_mm(a, b.t(), **arguments),
                            "torch": lambda: torch._scaled_mm(a, b.t(), **arguments)}
                ours, theirs = (product().float() for product in products.values())
                times = times_of(torch, products, options.rounds, max(4, 4096 * 40 // size))
                case = {"size": size, "scales": scales, "fast_accum": fast,
                        **{f"{name}_us": round(us, 2) for name, us in times.items()},
                        "ratio": round(times["torch"] / times["tilewise"], 4),
                        "difference": float((ours - theirs).abs().max() / theirs.abs().max())}
                cases.append(case)
                print(json.dumps(case), file=sys.stderr)
    groups = [grouped_case(torch, tilewise, options, case) for case in options.grouped.split(",") if case]
    quantized = [quantize_case(torch, tilewise, options, case) for case in options.quantize.split(",") if case]
    for case in groups + quantized:
        print(json.dumps(case), file=sys.stderr)
    ratios = [case["ratio"] for case in cases]
    print(json.dumps({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__,
                      **({"geometric_mean": round(statistics.geometric_mean(ratios), 4), "minimum": min(ratios),
                          "worst_three": sorted(ratios)[:3]} if ratios else {}),
                      "cases": cases, "grouped": groups, "quantized": quantized}, indent=1))


if __name__ == "__main__":
    main()
