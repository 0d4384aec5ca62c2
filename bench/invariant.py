#!/usr/bin/env python3
"""Batch-invariant products on a GPU: whether rows have the same bits in every batch, and what that costs.

For each n and k: covers the range of m in the kept order and in any order, compares the rows of products of random m bit
for bit with one product of all rows, and times products of some m: invariant, in any order, torch.mm with the workspace
variables that vLLM sets on Hopper (they are set for this process), and a persistent Triton kernel that adds k in one
order. Then the logits of a transformer block alone and in batches. Prints one JSON document.

    bench/record.py h100_invariant -- python3 bench/invariant.py --db /tmp/invariant.db --budget 60
"""
import argparse
import json
import os
import random
import subprocess
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"
os.environ["CUBLASLT_WORKSPACE_SIZE"] = "1"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from drop_in_torch import gpu_us  # noqa: E402

PAIRS = "4096x4096,14336x4096,4096x14336,7168x2048,1023x4095,1024x8192,512x16384"
MOST = 8192


def triton_product(torch):
    """A function of a (m, k) and b^T (n, k) that returns their product; None without Triton."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return None

    @triton.jit
    def kernel(a, b, c, m, n, k, ld_a, ld_b, ld_c, BLOCKS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
               GROUP: tl.constexpr):
        rows, columns = tl.cdiv(m, M), tl.cdiv(n, N)
        for tile in range(tl.program_id(0), rows * columns, BLOCKS):
            group = tile // (GROUP * columns)
            height = min(rows - group * GROUP, GROUP)
            row = group * GROUP + tile % (GROUP * columns) % height
            column = tile % (GROUP * columns) // height
            i = row * M + tl.arange(0, M)
            j = column * N + tl.arange(0, N)
            sums = tl.zeros((M, N), dtype=tl.float32)
            for step in range(0, tl.cdiv(k, K)):
                q = step * K + tl.arange(0, K)
                x = tl.load(a + i[:, None] * ld_a + q[None, :], mask=(i[:, None] < m) & (q[None, :] < k), other=0.0)
                y = tl.load(b + j[None, :] * ld_b + q[:, None], mask=(j[None, :] < n) & (q[:, None] < k), other=0.0)
                sums = tl.dot(x, y, sums)
            tl.store(c + i[:, None] * ld_c + j[None, :], sums.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))

    blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def product(a, b):
        c = torch.empty(a.shape[0], b.shape[0], device=a.device, dtype=a.dtype)
        kernel[(blocks,)](a, b, c, a.shape[0], b.shape[0], a.shape[1], a.stride(0), b.stride(0), c.stride(0), BLOCKS=blocks,
                          M=128, N=128, K=64, GROUP=8, num_warps=8, num_stages=3)
        return c

    return product


def cover(options, n, k, dtype, invariant):
    command = [options.autotune, "cover", "--device", "0", "--dtype", dtype, "--layout", "nt", "--m", f"1..{MOST}", "--n", str(n),
               "--k", str(k), "--budget", f"{options.budget}s", "--db", options.db, "--json", "-q"]
    done = subprocess.run(command + (["--invariant"] if invariant else []), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["orders"][0] if invariant else None


def rows_that_differ(torch, tilewise, a, b, products, generator, device):
    """How many of `products` runs of rows have other bits than in the product of all rows, and an example."""
    whole, wrong, example = tilewise.matmul(a, b.t(), invariant=True, device=device), 0, None
    for nth in range(products):
        m = 1 if nth == 0 else generator.randint(1, a.shape[0])
        first = generator.randint(0, a.shape[0] - m)
        some = tilewise.matmul(a[first:first + m], b.t(), invariant=True, device=device)
        if not torch.equal(some, whole[first:first + m]):
            wrong, example = wrong + 1, example or [m, first]
    return wrong, example


def cublas_rows_that_differ(torch, a, b, generator, products=40):
    """An m and a first row whose bits torch.mm changes; None without one."""
    whole = torch.mm(a, b.t())
    for _ in range(products):
        m = generator.choice([1, 2, 5, 16, 33, 64, 100, 128, 256, 500, 1000])
        first = generator.randint(0, a.shape[0] - m)
        if not torch.equal(torch.mm(a[first:first + m], b.t()), whole[first:first + m]):
            return [m, first]
    return None


def logits_that_differ(torch, tilewise, dtype):
    """A transformer block with attention by its formula: sequences whose logits differ from those alone, of 2 to 64."""
    torch.manual_seed(1)
    width, heads, length, words = 512, 8, 64, 1000

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(words, width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
            self.head = torch.nn.Linear(width, words)

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k, v = self.qkv(self.norm(x)).reshape(*tokens.shape, 3, heads, -1).permute(2, 0, 3, 1, 4)
            weights = torch.softmax((q @ k.mT).float() / q.shape[-1] ** 0.5, -1).to(x.dtype)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
            x = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
            return self.head(self.norm(x))

        @staticmethod
        def norm(x):  # in one order for each row: torch's own reductions may follow the number of rows
            return torch.nn.functional.layer_norm(x.float(), x.shape[-1:]).to(x.dtype)

    model = Block().to("cuda", dtype)
    tokens = torch.randint(0, words, (64, length), device="cuda")
    with torch.no_grad(), tilewise.torch.batch_invariant():
        alone = [model(tokens[i:i + 1]) for i in range(64)]
        return {str(batch): sum(not torch.equal(model(tokens[:batch])[i], alone[i][0]) for i in range(batch))
                for batch in (2, 3, 8, 17, 64)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--autotune", default=os.environ.get("TILEWISE_AUTOTUNE", "autotune"))
    parser.add_argument("--budget", type=float, default=60, help="seconds of each cover")
    parser.add_argument("--pairs", default=PAIRS, help="n and k")
    parser.add_argument("--types", default="bf16,f16")
    parser.add_argument("--products", type=int, default=500, help="random m compared bit for bit, of each pair")
    parser.add_argument("--timed", type=int, default=16, help="m that are timed, of each pair")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    import torch

    import tilewise
    import tilewise.torch

    tilewise.configure(database=options.db)
    generator = random.Random(5)
    by_triton = triton_product(torch)
    pairs = []
    for dtype in options.types.split(","):
        kind = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
        for pair in options.pairs.split(","):
            n, k = map(int, pair.split("x"))
            order = cover(options, n, k, dtype, True)
            cover(options, n, k, dtype, False)
            tilewise.configure(database=options.db)
            a, b = (torch.randn(rows, k, device="cuda", dtype=kind) for rows in (MOST, n))
            tilewise.prepare(1, n, k, layout="nt", dtype=dtype, last_m=MOST, invariant=True)
            wrong, example = rows_that_differ(torch, tilewise, a, b, options.products, generator, None)
            row = {"dtype": dtype, "n": n, "k": k, "order": order["order"], "orders": order["measured"],
                   "compared": options.products, "wrong": wrong, "example": example, "cublas_changes": cublas_rows_that_differ(torch, a, b, generator), "times": []}
            # Evenly spread in the logarithm, and one of each tenth of the range.
            sizes = {1, MOST} | {round(MOST ** (i / options.timed)) for i in range(options.timed)} \
                | {generator.randint(1, MOST) for _ in range(options.timed)}
            for m in sorted(sizes):
                x = a[:m]
                out = torch.empty(m, n, device="cuda", dtype=kind)
                candidates = {"invariant": lambda: tilewise.matmul(x, b.t(), out, invariant=True),
                              "free": lambda: tilewise.matmul(x, b.t(), out), "cublas": lambda: torch.mm(x, b.t(), out=out)}
                if by_triton:
                    candidates["triton"] = lambda: by_triton(x, b)
                row["times"].append({"m": m, **{name: gpu_us(torch, call, options.rounds, calls=20)
                                                for name, call in candidates.items()}})
            pairs.append(row)
            print(json.dumps(row), file=sys.stderr)  # what is known after an interrupt
    blocks = {dtype: logits_that_differ(torch, tilewise, {"bf16": torch.bfloat16, "f16": torch.float16}[dtype])
              for dtype in options.types.split(",")}
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "budget": options.budget, "pairs": pairs,
                      "sequences_that_differ": blocks}))


if __name__ == "__main__":
    main()
