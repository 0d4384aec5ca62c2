"""tune(), cover(), query() and bundle(): the program runs in its own process, and results are rows."""
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tilewise
from tilewise import programs

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")
QUICK = {"device": "host", "budget": 2, "max_evaluations": 2, "progress": False}


def test_a_tuned_problem_serves_products_of_this_process(database):
    before = tilewise.explain(24, 20, 16, device="host")
    rows = tilewise.tune((24, 20, 16), database=database, **QUICK)
    assert len(rows) == 1
    row = rows[0]
    assert (row["m"], row["n"], row["k"], row["dtype"], row["layout"]) == (24, 20, 16, "f32", "nn")
    assert row["time_us"] > 0 and row["tflops"] == pytest.approx(2e-6 * 24 * 20 * 16 / row["time_us"])
    after = tilewise.explain(24, 20, 16, device="host")
    assert before["match"] != "exact" and after["match"] == "exact"
    assert after["configuration"] == row["configuration"]
    a, b = np.ones((24, 16), np.float32), np.ones((16, 20), np.float32)
    np.testing.assert_array_equal(tilewise.matmul(a, b, device="host"), a @ b)


def test_the_configured_database_is_that_of_the_programs(database):
    tilewise.tune(9, **QUICK)
    assert [row["m"] for row in tilewise.query()] == [row["m"] for row in tilewise.query(database=database)] == [9]


def test_lists_of_problems_and_their_rows(database):
    problems = [{"m": 8, "n": 8, "k": 8}, {"m": 9, "n": 8, "k": 8, "layout": "nt"}]
    rows = tilewise.tune(problems=problems, database=database, **QUICK)
    assert [(row["m"], row["layout"]) for row in rows] == [(8, "nn"), (9, "nt")]
    stored = tilewise.query(database=database)
    assert {(row["m"], row["layout"]) for row in stored} == {(8, "nn"), (9, "nt")}
    assert {row["time_us"] for row in stored} == {row["time_us"] for row in rows}
    with pytest.raises(tilewise.InvalidArgument, match="no stored GPU"):
        tilewise.query(database=database, gpu="other")


def a_program(tmp_path, monkeypatch, script):
    file = tmp_path / "program"
    file.write_text("#!/bin/sh\n" + script)
    file.chmod(0o755)
    monkeypatch.setenv("TILEWISE_AUTOTUNE", str(file))


def test_progress_is_told_and_messages_are_not(tmp_path, monkeypatch):
    a_program(tmp_path, monkeypatch, "echo 'nn 8x8x8  search, 9 s left' >&2\necho 'autotune: warning: x' >&2\necho '{}'\n")
    lines = []
    assert programs.run("query", [], lines.append) == {}
    assert lines == ["nn 8x8x8  search, 9 s left"]


def test_a_program_that_dies_is_an_error_with_its_messages(tmp_path, monkeypatch):
    a_program(tmp_path, monkeypatch, "echo 'autotune: error: no room' >&2\nexit 7\n")
    with pytest.raises(tilewise.OutOfMemory, match="no room"):
        programs.run("query", [])
    a_program(tmp_path, monkeypatch, "kill -9 $$\n")
    with pytest.raises(tilewise.Error, match="status -9"):
        programs.run("query", [])
    monkeypatch.setenv("TILEWISE_AUTOTUNE", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        programs.run("query", [])


def test_children_are_ended_by_a_signal_that_is_not_ignored(tmp_path, monkeypatch):
    # With SIGINT ignored, SIGTERM ends it.
    a_program(tmp_path, monkeypatch, "trap '' INT\ntrap 'echo \"{}\"; exit 143' TERM\necho begun >&2\n"
              "while :; do sleep 0.05; done\n")

    def fail(line):
        raise KeyError(line)

    with pytest.raises(KeyError, match="begun"):
        programs.run("query", [], fail)


def test_a_status_that_is_lost_is_no_success(tmp_path, monkeypatch):
    # As if SIGCHLD is ignored: the status reads 0.
    for kind, error in (("database", tilewise.Error), ("usage", tilewise.InvalidArgument), ("no_device", tilewise.DeviceError)):
        a_program(tmp_path, monkeypatch, f"""echo '{{"error": {{"kind": "{kind}", "message": "planted"}}}}'\n""")
        with pytest.raises(error, match="planted") as raised:
            programs.run("query", [])
        assert raised.value.kind == ("invalid_argument" if kind == "usage" else kind)
    a_program(tmp_path, monkeypatch, "echo 'autotune: error: planted' >&2\n")
    with pytest.raises(tilewise.Error, match="planted"):
        programs.run("query", [])


def test_a_callback_that_fails_ends_the_program_and_is_raised(tmp_path, monkeypatch):
    a_program(tmp_path, monkeypatch, "for i in $(seq 4000); do echo line $i is long enough to fill a pipe soon >&2; done\necho '{}'\n")

    def fail(line):
        raise KeyError(line)

    with pytest.raises(KeyError, match="line 1 "):
        programs.run("query", [], fail)
    a_program(tmp_path, monkeypatch, "printf '\\377 x\\n' >&2\necho '{}'\n")
    lines = []
    assert programs.run("query", [], lines.append) == {} and len(lines) == 1


def test_errors_are_the_programs(database):
    with pytest.raises(tilewise.InvalidArgument, match="--budget"):
        tilewise.tune(8, database=database, **{**QUICK, "budget": "soon"})
    with pytest.raises(tilewise.InvalidArgument, match="sizes or problems"):
        tilewise.tune(database=database)
    with pytest.raises(tilewise.DeviceError):
        tilewise.tune(8, database=database, **{**QUICK, "device": 99})


def test_sizes_as_people_write_them():
    assert programs._sizes(1024) == "1024"
    assert programs._sizes("1024,2048") == "1024,2048"
    assert programs._sizes((1, 2, 3)) == "1x2x3"
    assert programs._sizes(np.int64(1024)) == "1024"
    assert programs._sizes([(1, 2, 3), "4x5x6", "64,128"]) == "1x2x3,4x5x6,64,128"
    assert programs._sizes(((1, 2, 3), (4, 5, 6))) == "1x2x3,4x5x6"
    assert programs._sizes(zip((1, 2), (3, 4), (5, 6))) == "1x3x5,2x4x6"
    assert programs._sizes(tuple(np.array([1, 2, 3]))) == "1x2x3"


@pytest.mark.parametrize("sizes", [
    (24, 24), [24, 24], [1, 2, 3], np.array([3, 4, 5]), np.array([24]), [24], (24,), (1, 2, 3, 4), [1024, (1, 2, 3)],
    [[1, 2, 3]], np.array([[1, 2, 3]]), [(1, 2)], [(1, 2, 3.0)], (1.5, 2, 3), {24, 25}, range(3), 24.0, [None], np.array(3.0)])
def test_sizes_that_may_mean_two_things_show_both_spellings(sizes, database):
    with pytest.raises(tilewise.InvalidArgument) as raised:
        tilewise.tune(sizes, database=database, **QUICK)
    assert "(m, n, k)" in str(raised.value) and '"24,64"' in str(raised.value)
    assert not database.exists()


def test_no_sizes(database):
    for sizes in ([], (), np.array([], int)):
        with pytest.raises(tilewise.InvalidArgument, match="empty"):
            tilewise.tune(sizes, database=database, **QUICK)


def test_numbers_of_numpy_in_problems(database, tmp_path):
    problem = {"m": np.int64(8), "n": np.int32(9), "k": np.uint16(10), "batch": np.int64(2), "weight": np.float32(0.5)}
    assert [(row["m"], row["n"], row["k"], row["batch"]) for row in
            tilewise.tune(problems=[problem], database=database, **QUICK)] == [(8, 9, 10, 2)]
    del problem["weight"]
    tilewise.bundle(tmp_path / "app.tilewise", [problem], database=database, gpu="CPU")
    for value in (np.array([8]), object(), 8j):
        with pytest.raises(tilewise.InvalidArgument, match="its values are numbers and texts"):
            tilewise.tune(problems=[{"m": value, "n": 8, "k": 8}], database=database, **QUICK)


def test_devices_of_the_programs(database):
    assert [row["m"] for row in tilewise.tune((8, 8, 8), database=database, **{**QUICK, "device": "cpu"})] == [8]
    for name in ("HOST", "", -1):
        with pytest.raises(tilewise.InvalidArgument, match="host"):
            tilewise.tune((8, 8, 8), database=database, **{**QUICK, "device": name})


@pytest.mark.parametrize("start", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"])
def test_an_interrupt_keeps_what_was_measured(database, start):
    # A program that began with SIGINT ignored, as in `sh -c '... &'`, can still handle it in Python.
    code = (f"import signal\n{start}import tilewise\n"
            "def interrupt(*_): raise KeyboardInterrupt\nsignal.signal(signal.SIGTERM, interrupt)\n"
            f"tilewise.tune(16, device='host', budget=60, database={str(database)!r}, progress=False)\n")
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                               stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (database.exists() and database.stat().st_size > 0):
        time.sleep(0.1)
    time.sleep(3)
    process.send_signal(signal.SIGTERM if start else signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode != 0 and b"KeyboardInterrupt" in messages
    assert [row["m"] for row in tilewise.query(database=database)] == [16]


def test_a_bundle_serves_without_a_database(database, tmp_path):
    tilewise.tune((8, 8, 8), database=database, **QUICK)
    file = tmp_path / "app.tilewise"
    tilewise.bundle(file, [{"m": 8, "n": 8, "k": 8}], database=database, gpu="CPU")
    tilewise.configure(bundle=str(file), database=str(tmp_path / "none.db"), compile_missing=False)
    assert tilewise.explain(8, 8, 8, device="host")["match"] == "exact"
