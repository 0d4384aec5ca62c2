#!/usr/bin/env python3
"""Tilewise in PyTorch compared with PyTorch itself, on a GPU: host time of a call, GPU time of products, a training step
of a Linear layer, in eager mode and from CUDA graphs. Prints one JSON document with medians of interleaved rounds.

    autotune tune --sizes 1023,1537,4095,5124x700x2048,4096 --dtype bf16 --db tuned.db
    bench/record.py h200_python -- python3 bench/python_calls.py --db tuned.db
"""
import argparse
import json
import statistics
import time

import torch

import tilewise
import tilewise.torch


def rounds_of(functions, rounds, measure):
    """The median measure of each function; every round measures the functions in turn."""
    values = [[] for _ in functions]
    for function in functions:
        measure(function)
    for _ in range(rounds):
        for kept, function in zip(values, functions):
            kept.append(measure(function))
    return [statistics.median(kept) for kept in values]


def host_us(function, calls=100):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    spent = time.perf_counter() - begin
    torch.cuda.synchronize()
    return spent / calls * 1e6


def wall_us(function, at_least=3000.0):
    """Time of one of many consecutive calls as a program sees it: the longer of host and GPU time."""
    torch.cuda.synchronize()
    calls = 4
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        torch.cuda.synchronize()
        spent = (time.perf_counter() - begin) * 1e6
        if spent >= at_least or calls >= 400:
            return spent / calls
        calls = min(400, max(calls + 1, int(calls * 1.3 * at_least / spent)))


def gpu_us(function, calls=100):
    """GPU time of one of many calls that all wait in the stream when the first begins."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    host = host_us(function, 10)
    torch.cuda._sleep(int(2000 * (1.5 * host * calls + 100)))  # cycles: 2 GHz at most
    begin.record()
    for _ in range(calls):
        function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def captured(function):
    """A CUDA graph of the function."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def random(*shape, dtype):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--db", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--sizes", default="1023x1023x1023,1537x1537x1537,4095x4095x4095,5124x700x2048,1024x1024x1024,"
                                           "4096x4096x4096")
    parser.add_argument("--layers", default="1023x1023x1023,2047x4095x1023,4095x4095x4095", help="rows x outputs x inputs")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    tilewise.configure(database=options.db)
    dtype = getattr(torch, options.dtype)
    parse = lambda text: [tuple(map(int, size.split("x"))) for size in text.split(",")]
    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "dtype": options.dtype}

    a, b = random(64, 64, dtype=dtype), random(64, 64, dtype=dtype)
    out = torch.empty(64, 64, device="cuda", dtype=dtype)
    functions = {"torch.mm": lambda: torch.mm(a, b), "tilewise.matmul": lambda: tilewise.matmul(a, b),
                 "tilewise.torch.matmul": lambda: tilewise.torch.matmul(a, b),
                 "torch.mm out": lambda: torch.mm(a, b, out=out), "tilewise.matmul out": lambda: tilewise.matmul(a, b, out)}
    with torch.no_grad():
        result["host_us"] = dict(zip(functions, rounds_of(list(functions.values()), 4 * options.rounds, host_us)))

    result["products"] = []
    for m, n, k in parse(options.sizes):
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        functions = [lambda: torch.mm(a, b), lambda: tilewise.matmul(a, b)]
        theirs, ours = rounds_of(functions, options.rounds, gpu_us)
        calls = rounds_of(functions, options.rounds, wall_us)
        error = (tilewise.matmul(a, b).float() - torch.mm(a, b).float()).abs().max().item()
        result["products"].append({"m": m, "n": n, "k": k, "torch_us": theirs, "tilewise_us": ours,
                                   "ratio": theirs / ours, "ratio_with_host_time": calls[0] / calls[1],
                                   "largest_difference": error,
                                   "match": tilewise.explain(m, n, k, dtype="bf16" if dtype == torch.bfloat16 else "f16")["match"]
                                   if dtype in (torch.bfloat16, torch.float16) else None})

    result["training_steps"] = []
    for rows, outputs, inputs in parse(options.layers):
        x = random(rows, inputs, dtype=dtype).requires_grad_()
        layers = [torch.nn.Linear(inputs, outputs, device="cuda", dtype=dtype) for _ in range(2)]
        tilewise.torch.swap_linear(torch.nn.Sequential(layers[1]))
        gradient = random(rows, outputs, dtype=dtype)

        def step(layer):
            layer.zero_grad(set_to_none=True)
            x.grad = None
            layer(x).backward(gradient)

        theirs, ours = rounds_of([lambda: step(layers[0]), lambda: step(layers[1])], options.rounds, wall_us)
        graphed = rounds_of([captured(lambda: step(layer)).replay for layer in layers], options.rounds, wall_us)
        result["training_steps"].append({"rows": rows, "outputs": outputs, "inputs": inputs, "torch_us": theirs,
                                         "tilewise_us": ours, "ratio": theirs / ours, "torch_graph_us": graphed[0],
                                         "tilewise_graph_us": graphed[1], "ratio_graph": graphed[0] / graphed[1]})
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
