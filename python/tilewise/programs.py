"""The commands of the program `autotune` as functions. The program runs in its own process, as on the command line."""

from __future__ import annotations

import json
import numbers
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Iterable, Mapping

from . import errors

_STATUS = {2: "invalid_argument", 3: "no_device", 4: "compiler", 5: "database", 7: "out_of_memory"}
# The kinds of error with exit status 2.
_KINDS = dict.fromkeys(("usage", "invalid_argument", "not_found", "unsupported", "io"), "invalid_argument")


database_of_products: str | None = None  # set by tilewise.configure()


def program() -> str:
    """The path of `autotune`: TILEWISE_AUTOTUNE, this package's own, or the one on PATH."""
    stated = os.environ.get("TILEWISE_AUTOTUNE")
    if stated:
        return stated
    own = pathlib.Path(__file__).parent / "bin" / "autotune"
    if own.exists():
        return str(own)
    found = shutil.which("autotune")
    if found is None:
        raise FileNotFoundError("the program autotune is neither in this package nor on PATH; set TILEWISE_AUTOTUNE")
    return found


def _options(values: Mapping[str, Any]) -> list[str]:
    """_words() of the options. Without "db" it adds the database of this process's products."""
    values = dict(values)
    if values.get("db") is None:
        values["db"] = database_of_products
    return _words(values)


def _words(values: Mapping[str, Any]) -> list[str]:
    """--name value for each option that is not None; True makes a flag."""
    words: list[str] = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(_word(value))
    return words


def _word(value: Any) -> str:
    """The text of a text, number or path (str, bytes or os.PathLike), or of several, with commas."""
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def _as_json(problems: Iterable[Mapping[str, Any]]) -> str:
    """The text of a JSON file of problems."""
    return json.dumps(list(problems), default=_plain)


def _plain(value: Any) -> int | float:
    """A number of NumPy as a number of Python, for JSON."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise errors.of_kind("invalid_argument",
                         f"a problem has {value!r} ({type(value).__name__}); its values are numbers and texts")


def _is_problem(sizes: Any) -> bool:
    return isinstance(sizes, tuple) and len(sizes) == 3 and all(isinstance(size, numbers.Integral) for size in sizes)


def _sizes(sizes: Any) -> str:
    """The text of tune()'s sizes: N, (m, n, k) or a text, or several of the last two."""
    if isinstance(sizes, numbers.Integral):
        return str(sizes)
    try:
        several = [sizes] if isinstance(sizes, str) or _is_problem(sizes) else list(sizes)
    except TypeError:
        several = [sizes]
    words = []
    for size in several:
        if not isinstance(size, str) and not _is_problem(size):
            raise errors.of_kind(
                "invalid_argument",
                f"sizes has {size!r} ({type(size).__name__}), which may mean one of three sizes or a square: write one "
                'problem as a tuple (m, n, k), several as a list [(64, 32, 16), (64, 64, 64)], squares as a text "24,64"; '
                "a number alone is one square")
        words.append(size if isinstance(size, str) else "x".join(map(str, size)))
    if not words:
        raise errors.of_kind("invalid_argument", "sizes is empty; write (m, n, k), or a list of these")
    return ",".join(words)


class _Progress:
    """Passes autotune's progress lines to a function, to tqdm's bar if it is installed, or nowhere."""

    def __init__(self, wanted: bool | Callable[[str], None]):
        self._call = wanted if callable(wanted) else None
        self._bar = None
        if wanted is True:
            try:
                from tqdm.auto import tqdm

                self._bar = tqdm(bar_format="{desc} {elapsed}", leave=True)
            except ImportError:
                self._call = lambda line: print(line, file=sys.stderr)

    def line(self, text: str) -> None:
        if self._call:
            self._call(text)
        elif self._bar is not None:
            self._bar.set_description_str(text[:110])

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()


def run(command: str, words: list[str], progress: bool | Callable[[str], None] = False) -> Any:
    """Runs `autotune COMMAND ... --json` and returns its output. An interrupt (Ctrl-C) ends it by SIGTERM, because it
    may ignore SIGINT as this process did; measurements until then are kept. Raises errors.Error with its message."""
    shown = _Progress(progress)
    with subprocess.Popen([program(), command, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, encoding="utf-8", errors="replace", start_new_session=True) as process:
        messages: list[str] = []
        failures: list[BaseException] = []

        def read() -> None:
            # Reads to the end in any case: a full pipe would stop the program.
            for line in process.stderr:
                line = line.rstrip()
                if re.match(r"autotune: (error|warning)", line):
                    messages.append(line)
                elif line and not failures:
                    try:
                        shown.line(line)
                    except BaseException as failure:  # the caller's function; raised below
                        failures.append(failure)
                        process.terminate()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            output = process.stdout.read()
        except KeyboardInterrupt:
            process.terminate()
            process.stdout.read()
            process.wait()
            raise
        finally:
            reader.join()
            shown.end()
        status = process.wait()
    if failures:
        raise failures[0]
    try:
        document = json.loads(output)
    except json.JSONDecodeError:
        document = None
    # If this process ignores SIGCHLD, the status is lost and reads 0: then the document decides.
    failure = document.get("error") if isinstance(document, dict) else None
    if document is None or failure or status not in (0, 6, 130, 143):
        text = (failure or {}).get("message") or "\n".join(messages) or f"autotune ended with status {status}"
        kind = _STATUS.get(status) or (_KINDS.get(failure["kind"], failure["kind"]) if failure else "unexpected")
        raise errors.of_kind(kind, text)
    return document


def _renew() -> None:
    """Makes later products use the records stored so far."""
    from . import _tilewise

    _tilewise.renew()


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
    problem, winner = result["problem"], result.get("winner")
    types = problem["dtype"].split(",")  # of A, B, C and the sums, or one for all
    row: dict[str, Any] = {
        "gpu": result.get("gpu") or (winner or {}).get("gpu", ""), "layout": problem["layout"], "m": problem["m"],
        "n": problem["n"], "k": problem["k"], "dtype": types[0], "out": types[2] if len(types) > 2 else types[0], "math": problem["math"],
        "batch": problem["batch"], "epilogue": problem.get("epilogue", ""), "order": problem.get("order", ""), "time_us": None, "tflops": None, "kernel_template": None, "configuration": None,
        "cublas_us": None, "evaluated": result.get("evaluated"), "stored": result.get("stored"),
    }
    if len(types) > 1 and types[1] != types[0]:
        row["dtype_b"] = types[1]
    products = problem["batch"]
    if "grouped" in problem:
        row["grouped"], row["distribution"] = problem["grouped"].split()
        products = 1  # m or k is that of all
    if winner:
        row["time_us"] = winner["measurement"]["median_us"]
        row["tflops"] = 2e-6 * problem["m"] * problem["n"] * problem["k"] * products / row["time_us"]
        row["kernel_template"] = winner["candidate"]["kernel_template"]
        row["configuration"] = winner["candidate"]["configuration"]
    times = [one["measurement"]["median_us"] for one in result.get("baselines", []) if one.get("measurement")]
    row["cublas_us"] = min(times) if times else None
    return row


def tune(sizes=None, *, problems=None, layout="nn", dtype="f32", out=None, math=None, batch=None, epilogue=None, device=None,
         budget=None, database=None, progress=True, **options) -> list[dict[str, Any]]:
    """Finds the fastest kernel for each problem and stores it. Returns a row for each, which pandas.DataFrame accepts.

    sizes: (m, n, k); N for a square; a text as in --sizes ("64x32x16,128"); or several: a list of tuples and texts. A
    list or array of numbers is InvalidArgument, because it may mean one problem or several.
    problems: instead of sizes, a list of dictionaries with m, n, k and, if they differ, layout, dtype, out, math,
    batch, align, epilogue, order, weight; or the path of a CSV or JSON file of these.
    budget: seconds a problem, or "2m". device: an index, a list of them, "all", or "host" (also "cpu"). database: None:
    that of configure(). progress: True: a bar of tqdm if it is installed, otherwise lines; a function of a line; or
    False. Further options are those of `autotune tune`, with underscores: invariant=True, for example.

    Times are in microseconds. Ctrl-C ends the search and keeps its measurements. Raises Error. Thread-safe.
    """
    words = _options({"layout": layout, "dtype": dtype, "out": out, "math": math, "batch": batch, "epilogue": epilogue,
                      "device": device, "budget": budget, "db": database, **options})
    with tempfile.TemporaryDirectory() as folder:
        if (sizes is None) == (problems is None):
            raise errors.of_kind("invalid_argument", "give either sizes or problems")
        if problems is None:
            words += ["--sizes", _sizes(sizes)]
        elif isinstance(problems, (str, bytes, os.PathLike)):
            words += ["--problems", os.fsdecode(problems)]
        else:
            file = pathlib.Path(folder) / "problems.json"
            file.write_text(_as_json(problems))
            words += ["--problems", str(file)]
        try:
            document = run("tune", words, progress)
        finally:
            _renew()  # an interrupt keeps the measurements
    return [_row(result) for result in document["results"]]


def cover(*, dtype="f32", layout="all", m=None, n=None, k=None, budget=None, device=None, database=None,
          progress=True, **options) -> dict[str, Any]:
    """Measures a range of sizes, so that each is served near its best. Returns the output of `autotune cover --json`.

    m, n, k: ranges such as "1..4096" or "64,4096"; None: autotune's own. Other arguments: see tune(). Raises Error.
    """
    words = _options({"dtype": dtype, "layout": layout, "m": m, "n": n, "k": k, "budget": budget, "device": device,
                      "db": database, **options})
    try:
        return run("cover", words, progress)
    finally:
        _renew()


def query(*, gpu=None, database=None) -> list[dict[str, Any]]:
    """The stored winners, a row for each as in tune(). gpu: only GPUs whose name contains this text. Raises Error."""
    document = run("query", _options({"gpu": gpu, "db": database}))
    return [_row({"gpu": of_gpu["gpu"], "problem": winner["problem"], "winner": winner})
            for of_gpu in document["gpus"] for winner in of_gpu["winners"]]


def bundle(output, problems, *, database=None, **options) -> Any:
    """Writes the kernels that serve a list of problems (as in tune()) to one file; see `autotune bundle --help`."""
    with tempfile.TemporaryDirectory() as folder:
        file = problems
        if not isinstance(problems, (str, bytes, os.PathLike)):
            file = pathlib.Path(folder) / "problems.json"
            file.write_text(_as_json(problems))
        return run("bundle", ["--problems", os.fsdecode(file), "-o", os.fsdecode(output),
                              *_options({"db": database, **options})])
