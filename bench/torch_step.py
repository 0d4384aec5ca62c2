#!/usr/bin/env python3
"""A training step of an unchanged PyTorch program on a GPU, with and without the drop-in for cuBLAS: GPT-2 by
`transformers` (4 layers of 768, vocabulary 50257, 4 x 512 tokens), the same calls with almost no work, or a model of odd
sizes, in bf16 autocast. Records the step's products, tunes them, then runs the step without and with the drop-in, in turns
of one process each: as calls, and as a graph of the whole step, which takes no time of the host. The losses of both are
compared beside those of a step in f32. Prints one JSON document.

    bench/record.py h100_gpt2_step -- python3 bench/torch_step.py --db /tmp/gpt2.db --budget 10s
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def gpt2(torch, device, width=768, words=50257, length=512):
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=width, n_head=12, n_positions=length, vocab_size=words, resid_pdrop=0.0,
                                       embd_pdrop=0.0, attn_pdrop=0.0)).to(device)
    tokens = torch.randint(0, words, (4, length), device=device)
    return model, lambda: model(tokens, labels=tokens).loss


def gpt2_calls(torch, device):
    """GPT-2's step with an eighth of its width and few tokens: the calls of the host, and almost no work for the GPU."""
    return gpt2(torch, device, 96, 1000, 16)


def odd(torch, device):
    """A classifier by perceptrons: 3001 rows of 1433 features (the Cora graph's), 7 classes, layers of 1000."""
    layers = []
    for inputs, outputs in ((1433, 1000), (1000, 1000), (1000, 1000)):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.GELU(approximate="tanh")]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(1000, 7)).to(device)
    x = torch.randn(3001, 1433, device=device)
    labels = torch.randint(0, 7, (3001,), device=device)
    return model, lambda: torch.nn.functional.cross_entropy(model(x).float(), labels)


MODELS = {"gpt2": gpt2, "gpt2_calls": gpt2_calls, "odd": odd}


def as_graph(torch, step, options):
    """Milliseconds of a step that is replayed as a graph; None where it cannot be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            step()
    except RuntimeError as error:
        print(f"the step cannot be captured: {error}", file=sys.stderr)
        return None
    times = []
    for _ in range(options.rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(options.steps):
            graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / options.steps * 1e3)
    return statistics.median(times)


def worker(options):
    import torch

    device = options.device
    torch.manual_seed(0)
    model, loss_of = MODELS[options.model](torch, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=not options.f32):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(3):
        step()
    synchronize()
    times = []
    for _ in range(options.rounds):
        begin = time.perf_counter()
        for _ in range(options.steps):
            step()
        synchronize()
        times.append((time.perf_counter() - begin) / options.steps * 1e3)
    gpu_ms = graph_ms = None
    if device == "cuda":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
            for _ in range(5):
                step()
            synchronize()
        gpu_ms = sum(e.device_time for e in trace.events() if e.device_type == torch.autograd.DeviceType.CUDA) / 5e3
    losses_of_calls = [loss.item() for loss in losses]
    if device == "cuda":
        graph_ms = as_graph(torch, step, options)
    name = torch.cuda.get_device_name() if device == "cuda" else device
    print(json.dumps({"torch": torch.__version__, "gpu_ms": gpu_ms, "graph_ms": graph_ms, "device": name,
                      "ms": statistics.median(times), "losses": losses_of_calls}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--db", help="the database, new or with products tuned before")
    parser.add_argument("--autotune", default=os.path.join(ROOT, "build", "cli", "autotune"), help="the program")
    parser.add_argument("--library", help="the drop-in; default: libtilewise_cublas.so next to the program")
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--budget", default="10s", help="search time of a product, as for autotune")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=10, help="steps of a round")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--device", default="cuda", help="cpu: a try of the script, where the drop-in has nothing to do")
    parser.add_argument("--f32", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    if not options.db:
        parser.error("--db is missing: the database, such as /tmp/step.db")

    library = os.path.abspath(options.library or os.path.join(os.path.dirname(options.autotune), "libtilewise_cublas.so"))
    environment = dict(os.environ, TILEWISE_DB=options.db)

    def command(steps, rounds, f32=False):
        return [sys.executable, os.path.abspath(__file__), "--worker", "--model", options.model, "--device", options.device,
                "--steps", str(steps), "--rounds", str(rounds)] + (["--f32"] if f32 else [])

    products = options.db + ".csv"
    if os.path.exists(products):
        os.remove(products)
    subprocess.run([options.autotune, "record", "-q", "-o", products, "--", *command(1, 1)], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    search = None
    if os.path.exists(products) and os.path.getsize(products) > 0:
        tuned = subprocess.run([options.autotune, "tune", "--problems", products, "--budget", options.budget, "--json"],
                               env=environment, check=True, stdout=subprocess.PIPE, text=True)
        search = json.loads(tuned.stdout).get("application")

    def run(preload, f32=False):
        here = dict(environment, TILEWISE_DROP_IN_REPORT="1", **({"LD_PRELOAD": library} if preload else {}))
        done = subprocess.run(command(options.steps, options.rounds, f32), env=here, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stderr}\nthe step failed with status {done.returncode}")
        return json.loads(done.stdout), [line for line in done.stderr.splitlines() if line.startswith("tilewise:")]

    turns = [(run(False)[0], *run(True)) for _ in range(options.turns)]
    exact = run(False, f32=True)[0]["losses"]
    ours, theirs = (statistics.median(turn[i]["ms"] for turn in turns) for i in (1, 0))

    def on_gpu(name):
        """What a host that is slower than the GPU hides: the time of the step as a graph, or of its kernels and copies."""
        if not turns[0][0][name]:
            return {}
        ours, theirs = (statistics.median(turn[i][name] for turn in turns) for i in (1, 0))
        return {f"torch_{name}": theirs, f"drop_in_{name}": ours, f"{name[:-3]}_ratio": theirs / ours}

    # The first steps: later ones have drifted apart by rounding in either case.
    furthest = lambda losses: max(abs(x - y) / abs(y) for x, y in list(zip(losses, exact))[:10])
    print(json.dumps({"model": options.model, "torch": turns[0][0]["torch"], "device": turns[0][0]["device"], "torch_ms": theirs,
                      "drop_in_ms": ours, "ratio": theirs / ours, **on_gpu("graph_ms"), **on_gpu("gpu_ms"),
                      "runs_ms": [[turn[0]["ms"], turn[1]["ms"]] for turn in turns], "loss_error_torch": furthest(turns[0][0]["losses"]),
                      "loss_error_drop_in": furthest(turns[0][1]["losses"]), "search": search, "report": turns[0][2]}, indent=1))


if __name__ == "__main__":
    main()
