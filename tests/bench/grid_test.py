#!/usr/bin/env python3
"""bench/grid.py with made-up programs: grid_test.py ROOT"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()

# Prints the devices, or the output of `tune` and `compare`; logs each call; fails as FOLDER/fail
# states.
PROGRAM = """#!/usr/bin/env python3
import json, pathlib, sys
folder = pathlib.Path({folder!r})
words = [pathlib.Path(sys.argv[0]).name] + sys.argv[1:]
with open(folder / "calls", "a") as calls:
    calls.write(" ".join(words) + "\\n")
failing = folder / "fail"
fail = json.loads(failing.read_text()) if failing.exists() else {{}}
gpus = json.loads((folder / "gpus").read_text())
problem = {{"layout": "nn", "m": 64, "n": 64, "k": 64}}
if words[1] == "devices":
    print(json.dumps({{"devices": [{{"gpu": name + "|9.0|1", "name": name, "index": i, "target": "sm_90a"}}
                                   for i, name in enumerate(gpus)]}}))
    sys.exit()
for word, status in fail.items():
    if word in words[0:2]:
        print(json.dumps({{"interrupted": True}}) if status == 130 else "")
        sys.exit(status)
if words[1] == "tune":
    print(json.dumps({{"interrupted": False, "results": [
        {{"problem": problem, "gpu": name + "|9.0|1", "evaluated": 5, "rejected": 1, "seconds": 2.0, "stored": "new",
          "already_done": False}} for name in dict.fromkeys(gpus)]}}))
else:
    kind = words[words.index("--types") + 1]
    time_us = {{"measurement": {{"median_us": 10.0, "spread": 0.0, "host_us": 1.0}}, "detail": ""}}
    print(json.dumps({{"toolkit": "t", "timing": {{"cold": True, "rounds": 9}}, "notes": [],
        "kinds": [{{"kind": kind, "rates": {{"flops": 1e12, "bytes": 1e12}}, "shapes": [
            {{"problem": problem, "match": "exact", "columns": {{c: time_us for c in
              ("tuned", "cublas", "cublas_pedantic", "cublas_lt_best")}}, "tflops": 1.0, "better_cublas_us": 12.0, "ratio": 1.2,
              "floor_us": 5.0, "over_floor": 2.0, "error": None}}]}}]}}))
"""


class Grid(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "bench/results").mkdir(parents=True)
        for script in ("grid.py", "record.py", "tables.py"):
            shutil.copy(ROOT / "bench" / script, self.folder / "bench")
        for program in ("cli/autotune", "bench/compare"):
            path = self.folder / "build" / program
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PROGRAM.format(folder=str(self.folder)))
            path.chmod(0o755)
        self.shapes = self.folder / "shapes.csv"
        self.shapes.write_text("layout,m,n,k\nnn,64,64,64\n")
        self.gpus("NVIDIA H200")

    def gpus(self, *names):
        (self.folder / "gpus").write_text(json.dumps(names))

    def fail(self, **how):
        (self.folder / "fail").write_text(json.dumps(how))

    def grid(self, *more):
        (self.folder / "calls").write_text("")
        done = subprocess.run([sys.executable, self.folder / "bench/grid.py", "run", "--shapes", self.shapes, *more],
                              capture_output=True, text=True)
        self.calls = [line.split()[:2] for line in (self.folder / "calls").read_text().splitlines() if "devices" not in line]
        self.lines = (self.folder / "calls").read_text()
        return done

    def result(self, name="run"):
        return json.loads((self.folder / f"bench/results/{name}.json").read_text())

    def test_each_type_is_tuned_and_compared_in_one_result(self):
        done = self.grid("--types", "f32,tf32,bf16:f32", "--budget", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        run = self.result()
        self.assertEqual([section["kind"] for section in run["result"]["kinds"]], ["f32", "tf32", "bf16:f32"])
        self.assertEqual(run["result"]["tuning"]["tf32"][0]["evaluated"], 5)
        self.assertEqual(run["gpu"], "NVIDIA H200")
        for key in ("command", "commit", "date", "seconds", "peak_memory_mb"):
            self.assertIn(key, run)
        self.assertIn("--dtype f32 --math tf32 --budget 7", self.lines)
        self.assertIn("--dtype bf16 --out f32", self.lines)
        self.assertIn("geometric mean 1.200x", done.stdout)

    def test_an_interrupted_run_goes_on_where_it_was(self):
        self.fail(compare=130)
        self.assertNotEqual(self.grid().returncode, 0)
        self.assertEqual(self.calls, [["autotune", "tune"], ["compare", "--device"]])
        self.assertFalse((self.folder / "bench/results/run.json").exists())
        self.fail()
        self.assertEqual(self.grid().returncode, 0)
        self.assertEqual(self.calls, [["compare", "--device"]])
        self.assertEqual(self.grid().returncode, 0)
        self.assertEqual(self.calls, [])

    def test_a_search_that_fails_is_an_error_and_nothing_is_kept(self):
        self.fail(tune=1)
        done = self.grid()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("goes on here", done.stderr)
        self.assertFalse((self.folder / "bench/results/run.json").exists())

    def test_another_command_does_not_take_over_the_folder(self):
        self.grid()
        done = self.grid("--budget", "9")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("of another command", done.stderr)
        self.shapes.write_text("layout,m,n,k\nnn,65,64,64\n")
        self.assertIn("of another command", self.grid().stderr)

    def test_kinds_of_gpus_have_results_of_their_own_and_alike_ones_share(self):
        self.gpus("NVIDIA H200", "NVIDIA H200", "NVIDIA A100")
        self.assertEqual(self.grid().returncode, 0)
        self.assertEqual(self.lines.count("compare --device 0"), 1)
        self.assertEqual(self.lines.count("compare --device 2"), 1)
        self.assertEqual(self.lines.count("autotune tune --device all"), 1)
        self.assertEqual(self.result("run-NVIDIA-A100-9-0-1")["gpu"], "NVIDIA A100")
        self.assertEqual(len(self.result("run-NVIDIA-H200-9-0-1")["result"]["tuning"]["f32"]), 1)

    def test_bad_input_is_named(self):
        self.assertIn("f33 is no kind", self.grid("--types", "f33").stderr)
        self.assertIn("no cli/autotune", self.grid("--build", "/nowhere").stderr)


unittest.main()
