"""A transformer block with odd sizes, before and after swap_linear(). With a GPU it prints both times.

Tune its products first, once: without that they are served by prediction.
    python3 transformer_block.py --tune
"""
import sys
import time

import torch

import tilewise
import tilewise.torch

on_gpu = torch.cuda.is_available()
device, dtype = ("cuda", torch.bfloat16) if on_gpu else ("cpu", torch.float32)
width, hidden, heads, tokens = (1022, 4087, 7, 2046) if on_gpu else (42, 81, 7, 19)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.project = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, width)

    def forward(self, x):
        batch, count, _ = x.shape
        q, k, v = self.qkv(self.first(x)).reshape(batch, count, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, count, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


def milliseconds(block, x):
    for _ in range(3):
        block(x)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        block(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / 20 * 1e3


torch.manual_seed(0)
tilewise.torch.on_cpu("host")
block, x = Block().to(device, dtype), torch.randn(1, tokens, width, device=device, dtype=dtype)
if "--tune" in sys.argv:
    layers = [(3 * width, width), (width, width), (hidden, width), (width, hidden)]
    tilewise.tune(problems=[{"m": tokens, "n": n, "k": k, "layout": "nt"} for n, k in layers],
                  dtype="bf16" if on_gpu else "f32", device=None if on_gpu else "host", budget=20)
with torch.no_grad():
    before = block(x)
    time_before = milliseconds(block, x) if on_gpu else None
    print("layers swapped:", tilewise.torch.swap_linear(block))
    after = block(x)
    error = ((after - before).float().norm() / before.float().norm()).item()
    print("relative difference below 0.02:", error < 0.02)
    if on_gpu:
        print(f"before {time_before:.3f} ms, after {milliseconds(block, x):.3f} ms")
