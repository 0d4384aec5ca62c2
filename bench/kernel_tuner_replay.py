#!/usr/bin/env python3
"""Compares the search strategies of Kernel Tuner, in its simulation mode, with those of `autotune replay` on recorded times.

    python3 -m venv kt && kt/bin/pip install kernel_tuner scikit-learn
    kt/bin/python bench/kernel_tuner_replay.py recorded.csv.gz --repeats 200 -o bench/results/kernel_tuner_replay.txt

For each strategy and both orders of the values of each parameter (ascending, descending) it prints the best time of all over
the best time found, in %, as a mean over the repeats, after 25, 50, 100 and 200 evaluations. `autotune replay` prints the same.
The repeats have the seeds 1 to N. An evaluation is a recorded configuration that was not evaluated before in the same search.
Proposals outside of the space cost nothing, and a strategy that ends early keeps its best time."""
import argparse
import concurrent.futures
import contextlib
import csv
import functools
import gzip
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
POINTS = (25, 50, 100, 200)
# Left out: brute_force, which is not a search; skopt and pyatf_strategies, wrappers of other
# packages.
STRATEGIES = ("random_sample", "minimize", "basinhopping", "diff_evo", "genetic_algorithm", "greedy_mls", "ordered_greedy_mls",
              "greedy_ils", "dual_annealing", "mls", "pso", "simulated_annealing", "firefly_algorithm", "nsga2", "nsga3",
              "adaptive_tabu_greywolf", "hybrid_vndx", "bayes_opt")
ORDERS = ("ascending", "descending")
TIMES = {"median_ms": 1, "time_ms": 1, "time": 1, "median_us": 1e-3, "time_us": 1e-3}


@functools.lru_cache(maxsize=None)
def read_space(file):
    """The names of the parameters, and the time in ms (None: failed) of each configuration, a tuple of its values."""
    text = contents(file)
    if text.lstrip().startswith("{"):
        document = json.loads(text)
        names = document["tune_params_keys"]
        return names, {tuple(entry[name] for name in names): time_in(entry) for entry in document["cache"].values()}
    rows = list(csv.reader(io.StringIO(text)))
    header = rows[0]
    at = next(i for i, name in enumerate(header) if name in TIMES)
    times = {tuple(int(value) for value in row[:at]): float(row[at]) * TIMES[header[at]] if row[at] else None for row in rows[1:]}
    return header[:at], times


def contents(file):
    with (gzip.open if str(file).endswith(".gz") else open)(file, "rt") as opened:
        return opened.read()


def time_in(entry):
    time = entry.get("time")
    return time if isinstance(time, (int, float)) and "__error__" not in entry else None


def values_of(names, times, order):
    columns = zip(*times)
    return {name: sorted(set(column), reverse=order == "descending") for name, column in zip(names, columns)}


def cache_of(names, times):
    """Kernel Tuner's cache of the space. The simulation finds configurations by their text."""
    entries = {}
    for configuration, time in times.items():
        entries[",".join(map(str, configuration))] = {
            **dict(zip(names, configuration)), "time": "RuntimeFailedConfig" if time is None else time,
            "compile_time": 0, "verification_time": 0, "benchmark_time": 0}
    return {"device_name": "recorded", "kernel_name": "recorded", "problem_size": [1], "tune_params_keys": names,
            "tune_params": values_of(names, times, "ascending"), "objective": "time", "cache": entries}


def search(strategy, order, seed, names, times, cache):
    """The configurations that one search evaluates, each once, in their order."""
    import kernel_tuner
    import numpy
    from constraint import FunctionConstraint

    random.seed(seed)
    numpy.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_kernel(
            "recorded", "", (1,), [], values_of(names, times, order), lang="C", cache=cache, simulation_mode=True, quiet=True,
            restrictions=[FunctionConstraint(lambda *values: values in times)], strategy=strategy, seed=seed,
            strategy_options={"max_fevals": POINTS[-1]})
    return list(dict.fromkeys(tuple(result[name] for name in names) for result in results))


def reached(evaluated, times, best):
    """The best time of all over the best of the first 25, 50, ... evaluations; 0 if all of them failed."""
    shares = []
    for n in POINTS:
        found = [times[one] for one in evaluated[:n] if times[one] is not None]
        shares.append(best / min(found) if found else 0.0)
    return shares


def run(strategy, order, seed, data, cache):
    """The result of reached() for one search, and its number of evaluations."""
    names, times = read_space(data)
    best = min(time for time in times.values() if time is not None)
    evaluated = search(strategy, order, seed, names, times, cache)
    return [*reached(evaluated, times, best), min(len(evaluated), POINTS[-1])]


def line(of, strategy, order, shares, rest=""):
    return f"{of:13} {strategy:22} {order:10} " + " ".join(f"{100 * share:5.1f}" for share in shares) + f"  {rest}".rstrip()


def ours(program, data, repeats, jobs):
    """Lines of `autotune replay`. Its strategies do not depend on the order, which is shuffled."""
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "data"
        plain.write_text(contents(data))
        for extra in ([], ["--shuffle-values"]):
            words = [program, "replay", str(plain), "--repeats", str(repeats), "--evaluations", str(POINTS[-1]), "--jobs", str(jobs),
                     *extra, "--json"]
            document = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
            for one in document["spaces"][0]["strategies"]:
                yield line("tilewise", one["strategy"].replace(", ", "_"), "shuffled" if extra else "ascending",
                           [one["reached"][str(n)] for n in POINTS])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="CSV of parameters and median_ms, or Kernel Tuner's cache, as of autotune replay; .gz too")
    parser.add_argument("--repeats", type=int, default=200, help="searches of each strategy and order (200)")
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="of Kernel Tuner, with commas; empty: none")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--autotune", default=os.environ.get("TILEWISE_AUTOTUNE"), help="the program, for our rows (else without)")
    parser.add_argument("-o", "--output", help="also written into this file")
    return parser.parse_args()


def lines_of(arguments):
    names, times = read_space(arguments.data)
    failed = sum(time is None for time in times.values())
    from importlib.metadata import version

    file = pathlib.Path(arguments.data).name
    yield f"Kernel Tuner {version('kernel_tuner')} in simulation mode and autotune replay on {file}: {len(times):,} configurations, {failed} failed."
    yield f"% of the best time of all over the best time found, mean over {arguments.repeats} repeats, after " + ", ".join(map(str, POINTS))
    yield "evaluations, one at a time. Kernel Tuner's strategies have their default options. Last column: mean evaluations, where a strategy"
    yield f"ends before {POINTS[-1]}. By: bench/kernel_tuner_replay.py {file} --repeats {arguments.repeats}"
    yield ""
    yield f"{'of':13} {'strategy':22} {'values':10} " + " ".join(f"{n:5}" for n in POINTS)
    if arguments.autotune:
        yield from ours(arguments.autotune, arguments.data, arguments.repeats, arguments.jobs)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        cache = pathlib.Path(folder) / "cache.json"
        cache.write_text(json.dumps(cache_of(names, times), indent=0))
        work = {}
        for strategy in filter(None, arguments.strategies.split(",")):
            for order in ORDERS:
                work[strategy, order] = [pool.submit(run, strategy, order, seed, arguments.data, str(cache))
                                         for seed in range(1, arguments.repeats + 1)]
        for (strategy, order), parts in work.items():
            rows = [part.result() for part in parts]
            *shares, evaluations = [sum(column) / len(rows) for column in zip(*rows)]
            yield line("kernel_tuner", strategy, order, shares, f"{evaluations:.0f}" if evaluations < POINTS[-1] - 0.5 else "")


def main():
    arguments = parse_arguments()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(arguments.output, "w")) if arguments.output else None
        for text in lines_of(arguments):
            print(text, flush=True)
            if file:
                print(text, file=file, flush=True)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
