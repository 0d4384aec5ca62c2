"""tune_many(): tunes problems as tasks of an executor, on all its machines. All communication is the executor's."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import socket
import tempfile
from typing import Any, Callable, Iterable, Mapping

from . import errors, programs

_EMPTY = {"format": "tilewise", "version": 1, "records": []}


def tune_many(problems: Iterable[Mapping[str, Any]], *, executor: concurrent.futures.Executor, layout: str = "nn",
              dtype: str = "f32", out: str | None = None, math: str | None = None, batch: int | None = None,
              epilogue: str | None = None, device: str | int | None = None, budget: float | str | None = None,
              database: str | os.PathLike[str] | None = None, gpu: str | None = None, force: bool = False,
              scratch: str | os.PathLike[str] | None = None, progress: bool | Callable[[dict[str, Any]], None] = True,
              **options: Any) -> list[dict[str, Any]]:
    """Tunes each problem in a task of an executor, and imports the measurements into this process's database.

    problems: dictionaries with m, n, k (C is m x n, the sum has k terms) and, if they differ, layout, dtype, out, math,
    batch, align, epilogue, order, as in tune(); a weight is not used. layout: "nn", "nt", "tn", "tt", several with commas, or "all"; a
    problem without its own layout becomes one task for each. Equal dictionaries are one problem.
    executor: a concurrent.futures.Executor (or an object with a submit() that returns such futures), whose workers have
    this package: ProcessPoolExecutor, Dask's client.get_executor(), mpi4py's MPIPoolExecutor. A worker must run one
    task at a time: times of products that share a GPU are wrong.
    device: the device of each worker, as in tune(). budget: seconds a problem, or "2m".
    database: the caller's; None: that of configure(). A problem with a winner there is not tuned again, unless force.
    gpu: only winners of GPUs whose key contains this text count; None: those of any GPU.
    scratch: a folder on the workers with one database for each machine, whose kernels and records later tasks there
    use; None: a temporary one for each task.
    progress: True: a bar of tqdm if it is installed, otherwise lines; a function of a row, which the caller's thread
    calls when a problem is done; or False. Further options are those of `autotune tune`, with underscores.

    Returns a row for each problem, in their order, with the keys of tune()'s rows, host (the machine that measured) and
    error (a text, or None). stored: "imported"; "already tuned" if it was skipped; None with an error. A problem that
    fails, or whose worker fails, has an error; the others continue. Imported records are marked as imported and keep
    host, driver and date. Importing twice changes nothing, and records that were measured on this machine stay.

    Raises InvalidArgument for bad arguments, Error if the database cannot be read or written, and the errors of
    progress. These and Ctrl-C cancel the tasks that have not begun; imported records stay. Thread-safe.
    """
    if not callable(getattr(executor, "submit", None)):
        raise errors.of_kind("invalid_argument", f"executor has no submit(): {executor!r}")
    every = _distinct(problems, layout)
    if options.get("invariant") or any(one.get("order") == "kept" for one in every):
        raise errors.of_kind("invalid_argument", "products that are tuned apart need an order before: tune(invariant=True) "
                             "chooses it, and order= names it")
    defaults = {"layout": layout, "dtype": dtype, "out": out, "math": math, "batch": batch, "epilogue": epilogue,
                "order": options.pop("order", None)}
    words = programs._words({**defaults, "device": device, "budget": budget, "force": force, **options})
    of_caller = programs._options({"db": None if database is None else os.fsdecode(database)})
    # A database that cannot be written is an error before hours of tuning.
    _import(json.dumps(_EMPTY), of_caller)
    rows: list[dict[str, Any] | None] = [None] * len(every)
    if not force:
        rows = _stored(every, {name: value for name, value in defaults.items() if name != "layout"}, of_caller, gpu)
    shown = _Shown(progress, len(every))
    tasks: dict[concurrent.futures.Future, int] = {}
    try:
        for at, problem in enumerate(every):
            if rows[at] is None:
                try:
                    place = None if scratch is None else os.fsdecode(scratch)
                    tasks[executor.submit(tune_for_export, problem, words, place)] = at
                except Exception as failure:  # a pool whose workers died accepts no more tasks
                    rows[at] = _failed(problem, defaults, failure)
            if rows[at] is not None:
                shown.row(rows[at])
        for task in concurrent.futures.as_completed(list(tasks)):
            at = tasks.pop(task)
            rows[at] = _taken(task, every[at], defaults, of_caller)
            shown.row(rows[at])
    finally:
        for task in tasks:
            task.cancel()
        shown.end()
        programs._renew()
    return rows  # type: ignore[return-value]  # every problem has one now


def tune_for_export(problem: Mapping[str, Any], words: list[str], scratch: str | None) -> dict[str, Any]:
    """A task: tunes one problem on this machine. "row": as in tune(), with "host"; "export": the text of its export.

    words: options of `autotune tune`. scratch: as in tune_many(). Raises Error.
    """
    with tempfile.TemporaryDirectory() as folder:
        if scratch is not None:
            os.makedirs(scratch, mode=0o700, exist_ok=True)
        file = pathlib.Path(folder) / "problems.json"
        file.write_text(programs._as_json([problem]))
        database = ["--db", os.path.join(scratch or folder, socket.gethostname() + ".db")]
        results = programs.run("tune", ["--problems", str(file), *words, *database])["results"]
        exported = programs.run("export", database)
    result = results[0]
    winner = result.get("winner")
    row = programs._row(result)
    row["host"] = winner["environment"]["host"] if winner else socket.gethostname()
    return {"row": row, "export": json.dumps(_of_problem(exported, result["problem"]))}


def _of_problem(exported: Mapping[str, Any], problem: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an export about one problem."""
    part = {name: exported[name] for name in ("format", "version")}
    for name in ("records", "baselines"):
        part[name] = [one for one in exported[name] if one["problem"] == problem]
    kept = {record["id"] for record in part["records"]}
    part["winners"] = [winner for winner in exported["winners"] if winner["record"] in kept]
    part["general"] = [record for record in exported["general"] if record in kept]
    return part


def _distinct(problems: Iterable[Mapping[str, Any]], layout: str) -> list[dict[str, Any]]:
    """The distinct problems, each with one layout."""
    if isinstance(problems, (str, bytes, os.PathLike, Mapping)):
        raise errors.of_kind("invalid_argument", "problems is a list of dictionaries with m, n and k")
    layouts = ["nn", "nt", "tn", "tt"] if layout == "all" else layout.split(",")
    found: dict[str, dict[str, Any]] = {}
    for problem in problems:
        if not isinstance(problem, Mapping) or not all(size in problem for size in "mnk"):
            raise errors.of_kind("invalid_argument", f"a problem is a dictionary with m, n and k, not {problem!r}")
        for one in [problem["layout"]] if problem.get("layout") else layouts:
            # Through JSON: NumPy's numbers become Python's.
            text = json.dumps({**problem, "layout": one, "weight": 1}, sort_keys=True, default=programs._plain)
            found.setdefault(text, json.loads(text))
    return list(found.values())


def _import(export: str, database: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "export.json"
        file.write_text(export)
        programs.run("import", [str(file), *database])


def _stored(problems: list[dict[str, Any]], defaults: Mapping[str, Any], database: list[str],
            gpu: str | None) -> list[dict[str, Any] | None]:
    """For each problem: the row of its stored winner, or None."""
    rows: list[dict[str, Any] | None] = [None] * len(problems)
    for of_gpu in programs.run("db", ["info", *database])["gpus"]:
        key = of_gpu["gpu"] if isinstance(of_gpu, Mapping) else of_gpu
        if gpu is None or gpu.lower() in key.lower():
            for at, answer in enumerate(_answers(problems, defaults, database, key)):
                if rows[at] is None and answer and answer["match"] == "exact":
                    rows[at] = programs._row({"gpu": key, "problem": answer["problem"], "winner": answer["record"]})
                    rows[at].update(host=answer["record"]["environment"]["host"], stored="already tuned", error=None)
    return rows


def _answers(problems: list[dict[str, Any]], defaults: Mapping[str, Any], database: list[str],
             gpu: str) -> list[dict[str, Any] | None]:
    """The answer of `autotune query` for each problem on a GPU; None for a bad problem."""
    if not problems:
        return []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "problems.json"
        file.write_text(programs._as_json(problems))
        words = programs._words({**defaults, "problems": file, "gpu": gpu})
        try:
            answers = programs.run("query", [*words, *database])["answers"]
        except errors.InvalidArgument:
            answers = []
    if len(answers) == len(problems):
        return answers
    # Different dictionaries may be one problem, which has one answer; a bad problem spoils the list.
    if len(problems) == 1:
        return [None]
    return [answer for problem in problems for answer in _answers([problem], defaults, database, gpu)]


def _taken(task: concurrent.futures.Future, problem: Mapping[str, Any], defaults: Mapping[str, Any],
           database: list[str]) -> dict[str, Any]:
    """The row of a task that is done. Imports its export."""
    try:
        result = task.result()
    except (Exception, concurrent.futures.CancelledError) as failure:  # of the search, or of the executor if its worker died
        return _failed(problem, defaults, failure)
    try:
        _import(result["export"], database)
    except errors.InvalidArgument as failure:  # the worker has another version
        return _failed(problem, defaults, failure)
    row = {**result["row"], "stored": "imported", "error": None}
    if row["time_us"] is None:
        row.update(stored=None, error="no kernel was measured")
    return row


def _failed(problem: Mapping[str, Any], defaults: Mapping[str, Any], failure: BaseException) -> dict[str, Any]:
    named = {**{name: value for name, value in defaults.items() if value is not None}, **problem}
    row = programs._row({"problem": {"batch": 1, "math": "strict", **named}})
    return {**row, "out": named.get("out", row["out"]), "host": None, "error": str(failure) or type(failure).__name__}


class _Shown:
    """Progress: rows to a function, or lines to programs._Progress."""

    def __init__(self, wanted: bool | Callable[[dict[str, Any]], None], of: int):
        self._call = wanted if callable(wanted) else None
        self._lines = programs._Progress(wanted is True)
        self._done, self._of = 0, of

    def row(self, row: dict[str, Any]) -> None:
        self._done += 1
        if self._call:
            self._call(row)
            return
        size = f"{row['layout']} {row['m']}x{row['n']}x{row['k']} {row['dtype']}"
        what = row["error"] or f"{row['time_us']:.4g} us on {row['host']}"
        with contextlib.suppress(OSError):  # a closed standard error does not end hours of tuning
            self._lines.line(f"{self._done} of {self._of} problems: {size}: {what}")

    def end(self) -> None:
        self._lines.end()
