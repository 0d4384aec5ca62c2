#!/usr/bin/env python3
"""What the first call of each of some products takes where nothing is stored: with the images that ship
(autotune images) and without. Each case is a process of its own, with empty folders. Prints one JSON document.

    bench/record.py h200_first_calls -- python3 bench/first_calls.py --images tilewise-0.1.0-sm_90a.images
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile


def worker(options):
    import time

    import torch

    import tilewise

    def first(m, n, k):
        a, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        tilewise.matmul(a, b, out)
        called = time.perf_counter() - begin
        torch.cuda.synchronize()
        right = torch.allclose(out.float(), a.float() @ b.float(), rtol=0.02, atol=0.5)
        return {"m": m, "n": n, "k": k, "ms": round(called * 1e3, 3), "right": right}

    # The first product of the process opens the device; its time is apart.
    print(json.dumps({"process": first(5, 64, 64), "calls": [first(m, n, k) for n, k in options.sizes for m in options.rows]}))


def numbers(text):
    return [int(one) for one in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True, help="the file")
    parser.add_argument("--rows", type=numbers, default=numbers("1,4,7,17,33,65,100,200,300,500,777,1000,2000,3000"))
    parser.add_argument("--sizes", type=lambda text: [tuple(map(int, one.split("x"))) for one in text.split(",")],
                        default=[(4096, 4096), (14336, 4096), (1000, 3000)], help="NxK, with commas")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    import tilewise

    package = os.path.dirname(tilewise.__file__)
    there = os.path.join(package, os.path.basename(options.images))
    results = {}
    for name in ("without", "with"):
        if name == "with":
            shutil.copy(options.images, there)
        elif os.path.exists(there):
            os.remove(there)
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "HOME": folder, "XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder,
                           "TILEWISE_DB": os.path.join(folder, "t.db")}
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--worker", "--images", options.images,
                                   "--rows", ",".join(map(str, options.rows)), "--sizes", ",".join(f"{n}x{k}" for n, k in options.sizes)],
                                  env=environment, stdout=subprocess.PIPE, text=True, check=True)
        results[name] = json.loads(done.stdout)
    times = {name: [call["ms"] for call in result["calls"]] for name, result in results.items()}
    print(json.dumps({"bytes": os.path.getsize(options.images),
                      **{name: {"median_ms": statistics.median(ms), "most_ms": max(ms), "below_3_ms": sum(one <= 3 for one in ms),
                                "of": len(ms), "right": all(call["right"] for call in results[name]["calls"])} for name, ms in times.items()},
                      "results": results}, indent=1))


if __name__ == "__main__":
    main()
