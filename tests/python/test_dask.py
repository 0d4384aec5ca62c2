"""tune_many() on Dask: a scheduler and four workers on this machine, one of which is killed."""
import json
import os
import signal

import pytest

import tilewise
from tilewise import programs

distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
PROBLEMS = [{"m": 8 + i, "n": 8, "k": 8} for i in range(10)]


def test_a_worker_is_killed_and_nothing_is_lost_or_tuned_twice(database, tmp_path):
    seen, killed = [], []

    def kill_one(row):
        """Kills, when the first problem is done, the process of a worker that runs a task."""
        seen.append(row)
        if killed:
            return
        pids = client.run(os.getpid)
        busy = [worker for worker, tasks in client.processing().items() if tasks and worker in pids]
        assert busy
        os.kill(pids[busy[0]], signal.SIGKILL)
        killed.append(pids[busy[0]])

    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None,
                                  local_directory=str(tmp_path)) as cluster, distributed.Client(cluster) as client:
        assert len(client.run(os.getpid)) == 4
        rows = tilewise.tune_many(PROBLEMS, executor=client.get_executor(), database=database, device="host", budget=4,
                                  max_evaluations=3, progress=kill_one)
    assert len(killed) == 1
    sizes = [problem["m"] for problem in PROBLEMS]
    assert [row["m"] for row in rows] == sizes and [row["error"] for row in rows] == [None] * len(PROBLEMS)
    assert sorted(row["m"] for row in seen) == sizes
    # Each problem has a winner, and each candidate of a problem is stored once.
    stored = {row["m"]: row["time_us"] for row in tilewise.query(database=database)}
    assert stored == {row["m"]: row["time_us"] for row in rows}
    records = programs.run("export", ["--db", str(database)])["records"]
    keys = {json.dumps([record["problem"], record["candidate"], record["source_hash"]]) for record in records}
    assert len(keys) == len(records) == sum(row["evaluated"] for row in rows)
