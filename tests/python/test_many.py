"""tune_many(): problems as tasks of executors, on the CPU."""
import concurrent.futures
import json
import multiprocessing
import os

import numpy as np
import pytest

import tilewise
from tilewise import many, programs

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")
QUICK = {"device": "host", "budget": 2, "max_evaluations": 2, "progress": False}
FOUR = [{"m": 8, "n": 8, "k": 8}, {"m": 9, "n": 8, "k": 8}, {"m": 8, "n": 9, "k": 8, "layout": "nt"}, {"m": 8, "n": 8, "k": 9}]
SIZES = [(8, 8, 8), (9, 8, 8), (8, 9, 8), (8, 8, 9)]


def exported(database):
    return programs.run("export", ["--db", str(database)])


def sizes(rows):
    return [(row["m"], row["n"], row["k"]) for row in rows]


def test_processes_tune_and_the_callers_database_has_it_all(database):
    seen = []
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        rows = tilewise.tune_many(FOUR, executor=pool, database=database, **{**QUICK, "progress": seen.append})
    assert sizes(rows) == SIZES and sorted(sizes(seen)) == sorted(SIZES)
    assert [row["layout"] for row in rows] == ["nn", "nn", "nt", "nn"]
    assert all(row["error"] is None and row["stored"] == "imported" and row["host"] and row["time_us"] > 0 for row in rows)
    stored = tilewise.query(database=database)
    assert {(row["m"], row["n"], row["k"], row["time_us"]) for row in stored} == {(row["m"], row["n"], row["k"], row["time_us"]) for row in rows}
    # Measured by a worker: marked as imported, with the machine's name.
    records = exported(database)["records"]
    assert {record["origin"] for record in records} == {"imported"} and len(records) >= 4
    assert {record["environment"]["host"] for record in records} == {rows[0]["host"]}
    assert tilewise.explain(8, 8, 8, device="host")["match"] == "exact"
    assert np.array_equal(tilewise.matmul(np.eye(8, dtype="f"), np.eye(8, dtype="f"), device="host"), np.eye(8))


class Counting(concurrent.futures.ThreadPoolExecutor):
    """Counts its tasks."""

    def __init__(self):
        super().__init__(1)
        self.problems = []

    def submit(self, function, problem, *rest):
        self.problems.append((problem["m"], problem["n"], problem["k"]))
        return super().submit(function, problem, *rest)


def test_what_is_tuned_is_skipped_unless_forced(database):
    tilewise.tune((8, 8, 8), database=database, **QUICK)
    with Counting() as pool:
        rows = tilewise.tune_many(FOUR[:2], executor=pool, database=database, **QUICK)
        assert pool.problems == [(9, 8, 8)] and sizes(rows) == SIZES[:2]
        assert [row["stored"] for row in rows] == ["already tuned", "imported"]
        assert rows[0]["time_us"] == tilewise.query(database=database)[0]["time_us"] and rows[0]["host"]
        tilewise.tune_many(FOUR[:2], executor=pool, database=database, **QUICK)
        assert len(pool.problems) == 1
        tilewise.tune_many(FOUR[:1], executor=pool, database=database, gpu="H200", **QUICK)
        assert len(pool.problems) == 2
        tilewise.tune_many(FOUR[:1], executor=pool, database=database, force=True, **QUICK)
        assert len(pool.problems) == 3
    # Local measurements stay.
    origins = {record["origin"] for record in exported(database)["records"] if record["problem"]["m"] == 8}
    assert "measured" in origins and [row["stored"] for row in rows] == ["already tuned", "imported"]


def test_equal_problems_are_one_and_a_list_without_layouts_is_each(database):
    same = [{"m": 8, "n": 8, "k": 8}, {"m": np.int64(8), "n": 8, "k": 8, "layout": "nn", "weight": 3}]
    with Counting() as pool:
        assert len(tilewise.tune_many(same, executor=pool, database=database, **QUICK)) == 1
        rows = tilewise.tune_many(same, executor=pool, database=database, layout="nn,tt", **QUICK)
    assert len(pool.problems) == 2 and [(row["layout"], row["stored"]) for row in rows] == [("nn", "already tuned"), ("tt", "imported")]
    # Other dictionaries describe the same problem.
    with Counting() as pool:
        rows = tilewise.tune_many([FOUR[0], {**FOUR[0], "dtype": "f32"}, FOUR[3]], executor=pool, database=database, **QUICK)
    assert pool.problems == [(8, 8, 9)] and [row["stored"] for row in rows] == ["already tuned", "already tuned", "imported"]


def test_a_problem_that_fails_is_a_row_and_the_others_go_on(database):
    problems = [{"m": 8, "n": 8, "k": 8, "dtype": "f99"}, FOUR[1], {"m": 1 << 39, "n": 1 << 39, "k": 8}]
    with Counting() as pool:
        rows = tilewise.tune_many(problems, executor=pool, database=database, **QUICK)
        again = tilewise.tune_many(problems, executor=pool, database=database, **QUICK)
    assert len(pool.problems) == 3 + 2 and again[1]["stored"] == "already tuned"
    assert [row["error"] is None for row in again] == [False, True, False]
    assert [row["error"] is None for row in rows] == [False, True, False]
    assert "f99" in rows[0]["error"] and rows[0]["time_us"] is None and rows[0]["dtype"] == "f99" and rows[0]["stored"] is None
    assert set(rows[0]) == set(rows[1]) and sizes(rows)[1:] == [(9, 8, 8), (1 << 39, 1 << 39, 8)]
    assert sizes(tilewise.query(database=database)) == [(9, 8, 8)]


def die(*_):
    os._exit(1)


def test_a_pool_that_breaks_leaves_a_row_for_each(database):
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(die).exception()
        rows = tilewise.tune_many(FOUR, executor=pool, database=database, **QUICK)
    assert sizes(rows) == SIZES and all(row["error"] for row in rows)


class Twice(concurrent.futures.ThreadPoolExecutor):
    """Runs each task twice, like an engine that lost a worker after its work was done."""

    def submit(self, function, *arguments):
        super().submit(function, *arguments).result()
        return super().submit(function, *arguments)


def test_a_task_that_runs_twice_is_stored_once(database, tmp_path):
    with Twice(1) as pool:
        rows = tilewise.tune_many(FOUR[:2], executor=pool, database=database, scratch=tmp_path / "scratch", **QUICK)
    assert sizes(tilewise.query(database=database)) == sizes(rows)
    records = exported(database)["records"]
    keys = {json.dumps([record["problem"], record["candidate"], record["source_hash"]]) for record in records}
    assert len(keys) == len(records)
    # With a scratch folder the second run finds the result of the first.
    assert len(list((tmp_path / "scratch").glob("*.db"))) == 1
    # The same export changes nothing the second time.
    task = many.tune_for_export(FOUR[0], programs._words({**QUICK, "progress": None}), str(tmp_path / "scratch"))
    assert {record["problem"]["m"] for record in json.loads(task["export"])["records"]} == {8}
    many._import(task["export"], ["--db", str(database)])
    assert exported(database) == {**exported(database), "records": records}


def test_bad_arguments_are_errors_before_any_task(database, tmp_path):
    with Counting() as pool:
        with pytest.raises(tilewise.InvalidArgument, match="submit"):
            tilewise.tune_many(FOUR, executor=None, database=database)
        for bad in ("problems.csv", {"m": 8, "n": 8, "k": 8}, [(8, 8, 8)], [{"m": 8}]):
            with pytest.raises(tilewise.InvalidArgument, match="m, n and k"):
                tilewise.tune_many(bad, executor=pool, database=database)
        with pytest.raises(tilewise.Error, match="none"):
            tilewise.tune_many(FOUR, executor=pool, database="/proc/none/x.db")
        assert tilewise.tune_many([], executor=pool, database=database, progress=False) == []
    assert pool.problems == []


def test_a_callback_that_fails_cancels_what_has_not_begun(database):
    def fail(row):
        raise KeyError(row["m"])

    with Counting() as pool:
        with pytest.raises(KeyError):
            tilewise.tune_many(FOUR, executor=pool, database=database, **{**QUICK, "progress": fail})
    assert 1 <= len(tilewise.query(database=database)) < 4


def test_an_order_is_named_and_not_chosen_apart(database):
    with Counting() as pool:
        with pytest.raises(tilewise.InvalidArgument, match="need an order before"):
            tilewise.tune_many(FOUR[:1], executor=pool, database=database, invariant=True, **QUICK)
        with pytest.raises(tilewise.InvalidArgument, match="need an order before"):
            tilewise.tune_many([{**FOUR[0], "order": "kept"}], executor=pool, database=database, **QUICK)
        tilewise.tune_many(FOUR[:1], executor=pool, database=database, **QUICK)
        rows = tilewise.tune_many(FOUR[:1], executor=pool, database=database, order="fused", **QUICK)
    assert rows[0]["order"] == "fused" and rows[0]["stored"] == "imported", "the problem in any order is another"
    assert {row["order"] for row in tilewise.query(database=database)} == {"", "fused"}
