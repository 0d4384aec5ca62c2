"""The gradients of tilewise.torch.linear() beside numerical ones and PyTorch's. Runs on the GPU, or slowly on the CPU."""
import torch

import tilewise.torch

device = "cuda" if torch.cuda.is_available() else "cpu"
tilewise.torch.on_cpu("host")
torch.manual_seed(0)
x = torch.randn(6, 5, dtype=torch.float64, device=device, requires_grad=True)
weight = torch.randn(7, 5, dtype=torch.float64, device=device, requires_grad=True)
bias = torch.randn(7, dtype=torch.float64, device=device, requires_grad=True)

print("numerical gradients agree:", torch.autograd.gradcheck(tilewise.torch.linear, (x, weight, bias)))

ours = torch.autograd.grad(tilewise.torch.linear(x, weight, bias).square().sum(), (x, weight, bias))
theirs = torch.autograd.grad(torch.nn.functional.linear(x, weight, bias).square().sum(), (x, weight, bias))
largest = max((a - b).abs().max().item() for a, b in zip(ours, theirs))
print("largest difference from PyTorch's below 1e-12:", largest < 1e-12)
