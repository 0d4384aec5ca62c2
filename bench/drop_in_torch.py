#!/usr/bin/env python3
"""PyTorch with and without the drop-in for cuBLAS, on a GPU: GPU times of products, host time of a call that is passed
through, one captured graph, and products of several threads on every GPU. Each column is its own process; the two
alternate. Prints one JSON document.

    autotune --sizes 1023,1537,4095,5124x700x2048,1024,4096 --dtype bf16 --layout all --db tuned.db
    bench/record.py h100_drop_in -- python3 bench/drop_in_torch.py --db tuned.db --library libtilewise_cublas.so
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

SIZES = "1023x1023x1023,1537x1537x1537,4095x4095x4095,5124x700x2048,1024x1024x1024,4096x4096x4096"


def gpu_us(torch, function, rounds, calls=100):
    """The median over rounds of the mean GPU time of calls that all wait in the stream when the first begins."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        function()
    host = (time.perf_counter() - start) / 10 * 1e6
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        torch.cuda._sleep(int(2000 * (1.5 * host * calls + 100)))  # cycles: 2 GHz at most
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times)


def threads_and_devices(torch, threads=4, products=50):
    """The largest norm-wise error of products from several threads, each with its own stream, on every device."""
    errors, failures = [], []

    def multiply(device, seed):
        try:
            with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
                generator = torch.Generator(device="cuda").manual_seed(seed)
                a, b = (torch.randn(1023, 1023, device="cuda", generator=generator).to(torch.bfloat16) for _ in range(2))
                reference = a.double() @ b.double()
                for _ in range(products):
                    out = torch.mm(a, b)
                errors.append(((out.double() - reference).norm() / reference.norm()).item())
        except Exception as error:
            failures.append(repr(error))

    workers = [threading.Thread(target=multiply, args=(device, 10 * device + nth))
               for device in range(torch.cuda.device_count()) for nth in range(threads)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    if failures:
        raise RuntimeError("; ".join(failures))
    return {"devices": torch.cuda.device_count(), "threads_of_each": threads, "largest_error": max(errors)}


def worker(options):
    import torch

    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "products": [], "layers": []}
    random = lambda *shape: torch.randn(*shape, device="cuda").to(torch.bfloat16)
    with torch.no_grad():
        for size in options.sizes.split(","):
            m, n, k = map(int, size.split("x"))
            a, b = random(m, k), random(k, n)
            out = torch.mm(a, b)
            reference = a.double() @ b.double()
            error = ((out.double() - reference).norm() / reference.norm()).item()
            result["products"].append({"size": size, "us": gpu_us(torch, lambda: torch.mm(a, b, out=out), options.rounds),
                                       "error": error})
        a, b = random(1023, 1023), random(1023, 1023)
        out = torch.mm(a, b)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.mm(a, b, out=out)
        expected = torch.mm(a, b)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        # In a capture cuBLAS may compute products that the drop-in answers outside of it.
        result["graph_error"] = ((out.double() - expected.double()).norm() / expected.double().norm()).item()
        a, b = random(64, 64), random(64, 64)
        out = torch.mm(a, b)
        host = []
        for _ in range(40):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(500):
                torch.mm(a, b, out=out)
            host.append((time.perf_counter() - begin) / 500 * 1e6)
        result["host_us_passed_through"] = statistics.median(host)
    result["threads_and_devices"] = threads_and_devices(torch)
    print(json.dumps(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--db")
    parser.add_argument("--library")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)

    def run(preload):
        environment = dict(os.environ, TILEWISE_DB=options.db, TILEWISE_DROP_IN_REPORT="1")
        if preload:
            environment["LD_PRELOAD"] = os.path.abspath(options.library)
        command = [sys.executable, __file__, "--worker", "--sizes", options.sizes, "--rounds", str(options.rounds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout), [line for line in done.stderr.splitlines() if line.startswith("tilewise:")]

    turns = [(run(False)[0], *run(True)) for _ in range(options.turns)]
    middle = lambda pick: statistics.median(pick(turn) for turn in turns)
    first = turns[0][0]
    result = {"torch": first["torch"], "device": first["device"], "products": []}
    for i, product in enumerate(first["products"]):
        theirs = middle(lambda turn: turn[0]["products"][i]["us"])
        ours = middle(lambda turn: turn[1]["products"][i]["us"])
        result["products"].append({"size": product["size"], "torch_us": theirs, "drop_in_us": ours, "ratio": theirs / ours,
                                   "torch_error": product["error"], "drop_in_error": turns[0][1]["products"][i]["error"]})
    result["host_us_passed_through"] = {"torch": middle(lambda turn: turn[0]["host_us_passed_through"]),
                                        "drop_in": middle(lambda turn: turn[1]["host_us_passed_through"])}
    result["graph_error"] = max(turn[1]["graph_error"] for turn in turns)
    result["threads_and_devices"] = turns[0][1]["threads_and_devices"]
    result["report"] = turns[0][2]
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
