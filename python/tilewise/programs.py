"""What the program `autotune` does, as functions: it runs in a process of its own, as on the command line."""

from __future__ import annotations

import json
import numbers
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Iterable, Mapping

from . import errors

_STATUS = {2: "invalid_argument", 3: "no_device", 4: "compiler", 5: "database", 7: "out_of_memory"}


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
    """_words(). Without "db" it is the database of this process's products."""
    values = dict(values)
    if values.get("db") is None:
        values["db"] = database_of_products
    return _words(values)


def _words(values: Mapping[str, Any]) -> list[str]:
    """--name value for each that is not None; True: a flag."""
    words: list[str] = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    return words


def _sizes(sizes: Iterable[Any]) -> str:
    """N, (m, n, k) or "MxNxK", several."""
    def text(size: Any) -> str:
        return "x".join(map(str, size)) if isinstance(size, (tuple, list)) else str(size)

    if isinstance(sizes, (str, numbers.Integral)):
        return str(sizes)
    if isinstance(sizes, tuple) and len(sizes) == 3 and all(isinstance(size, numbers.Integral) for size in sizes):
        return text(sizes)
    return ",".join(text(size) for size in sizes)


class _Progress:
    """Lines of autotune's progress: to a function, to tqdm's bar where it is installed, or nowhere."""

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
    """Runs `autotune COMMAND ... --json`; what it printed. An interrupt (Ctrl-C) is passed on, and what was
    measured until then is kept. Raises errors.Error with its message."""
    shown = _Progress(progress)
    with subprocess.Popen([program(), command, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, encoding="utf-8", errors="replace", start_new_session=True) as process:
        messages: list[str] = []
        failures: list[BaseException] = []

        def read() -> None:
            # To the end in any case: a full pipe would stop the program.
            for line in process.stderr:
                line = line.rstrip()
                if re.match(r"autotune: (error|warning)", line):
                    messages.append(line)
                elif line and not failures:
                    try:
                        shown.line(line)
                    except BaseException as failure:  # the caller's function; raised below
                        failures.append(failure)
                        process.send_signal(signal.SIGINT)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            output = process.stdout.read()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
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
    if status not in (0, 130) and not (status == 6 and document and "error" not in document):
        text = (document or {}).get("error", {}).get("message") if isinstance(document, dict) else None
        text = text or "\n".join(messages) or f"autotune ended with status {status}"
        raise errors.of_kind(_STATUS.get(status, "unexpected"), text)
    return document


def _renew() -> None:
    """Products from now on see what was stored."""
    from . import _tilewise

    _tilewise.renew()


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
    problem, winner = result["problem"], result.get("winner")
    types = problem["dtype"].split(",")  # of A, B, C and the sums, or one for all
    row: dict[str, Any] = {
        "gpu": result.get("gpu") or (winner or {}).get("gpu", ""), "layout": problem["layout"], "m": problem["m"],
        "n": problem["n"], "k": problem["k"], "dtype": types[0], "out": types[2] if len(types) > 2 else types[0], "math": problem["math"],
        "batch": problem["batch"], "time_us": None, "tflops": None, "kernel_template": None, "configuration": None,
        "cublas_us": None, "evaluated": result.get("evaluated"), "stored": result.get("stored"),
    }
    if winner:
        row["time_us"] = winner["measurement"]["median_us"]
        row["tflops"] = 2e-6 * problem["m"] * problem["n"] * problem["k"] * problem["batch"] / row["time_us"]
        row["kernel_template"] = winner["candidate"]["kernel_template"]
        row["configuration"] = winner["candidate"]["configuration"]
    times = [one["measurement"]["median_us"] for one in result.get("baselines", []) if one.get("measurement")]
    row["cublas_us"] = min(times) if times else None
    return row


def tune(sizes=None, *, problems=None, layout="nn", dtype="f32", out=None, math=None, batch=None, device=None,
         budget=None, database=None, progress=True, **options) -> list[dict[str, Any]]:
    """Finds the fastest kernel for each problem and stores it; a row for each, which pandas.DataFrame takes.

    sizes: N, (m, n, k), "MxNxK", or several. problems: instead, a list of dictionaries with m, n, k and where they
    differ layout, dtype, out, math, batch, align, weight; or the path of a CSV or JSON file of these. budget: seconds
    a problem, or "2m". device: an index, a list of them, "all" or "host". progress: True: a bar of tqdm where it is
    installed, else lines; a function of a line; or False. Further options are those of `autotune tune`, with
    underscores. database: None: that of configure(). Times are in microseconds. Ctrl-C ends the search and keeps what was measured. Raises Error.
    """
    words = _options({"layout": layout, "dtype": dtype, "out": out, "math": math, "batch": batch, "device": device,
                      "budget": budget, "db": database, **options})
    with tempfile.TemporaryDirectory() as folder:
        if (sizes is None) == (problems is None):
            raise errors.of_kind("invalid_argument", "give either sizes or problems")
        if problems is None:
            words += ["--sizes", _sizes(sizes)]
        elif isinstance(problems, (str, os.PathLike)):
            words += ["--problems", os.fspath(problems)]
        else:
            file = pathlib.Path(folder) / "problems.json"
            file.write_text(json.dumps(list(problems)))
            words += ["--problems", str(file)]
        try:
            document = run("tune", words, progress)
        finally:
            _renew()  # an interrupt keeps what was measured
    return [_row(result) for result in document["results"]]


def cover(*, dtype="f32", layout="all", m=None, n=None, k=None, budget=None, device=None, database=None,
          progress=True, **options) -> dict[str, Any]:
    """Measures a range of sizes, so that each is served near its best; what `autotune cover --json` prints.

    m, n, k: ranges, as "1..4096" or "64,4096"; None: autotune's own. Other arguments as of tune(). Raises Error.
    """
    words = _options({"dtype": dtype, "layout": layout, "m": m, "n": n, "k": k, "budget": budget, "device": device,
                      "db": database, **options})
    try:
        return run("cover", words, progress)
    finally:
        _renew()


def query(*, gpu=None, database=None) -> list[dict[str, Any]]:
    """The stored winners, a row for each as of tune(). gpu: only GPUs whose name contains this. Raises Error."""
    document = run("query", _options({"gpu": gpu, "db": database}))
    return [_row({"gpu": of_gpu["gpu"], "problem": winner["problem"], "winner": winner})
            for of_gpu in document["gpus"] for winner in of_gpu["winners"]]


def bundle(output, problems, *, database=None, **options) -> Any:
    """Writes what serves a list of problems (as of tune()) into one file to ship; see `autotune bundle --help`."""
    with tempfile.TemporaryDirectory() as folder:
        file = problems
        if not isinstance(problems, (str, os.PathLike)):
            file = pathlib.Path(folder) / "problems.json"
            file.write_text(json.dumps(list(problems)))
        return run("bundle", ["--problems", os.fspath(file), "-o", os.fspath(output),
                              *_options({"db": database, **options})])
