#!/usr/bin/env python3
"""Kernel Tuner itself reads the output of `autotune export --as`, and `autotune replay` reads files of Kernel Tuner.
Also tests bench/kernel_tuner_replay.py. Usage: kernel_tuner_test.py ROOT AUTOTUNE. Needs pip's kernel_tuner; its kernels
are C here."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT, AUTOTUNE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
del sys.argv[1:3]

import jsonschema  # noqa: E402
import kernel_tuner  # noqa: E402
from kernel_tuner import file_utils, util  # noqa: E402

OF_SMALL = ["--template", "small", "--sizes", "24", "--gpu", "CPU"]
# Kernel Tuner continues after this compiler error only.
KERNEL = """
extern "C" float busy(float* x) {
#if SIZE == 4
#error uses too much shared data
#endif
  for (int i = 0; i < SIZE * STEP; ++i) x[0] += 1;
  return SIZE * 10 + STEP;
}
"""


def autotune(*words):
    return subprocess.run([AUTOTUNE, *map(str, words)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def quietly(call, *arguments, **named):
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments, **named)


class KernelTuner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)  # Kernel Tuner leaves files where it runs

    def records(self):
        """A database with measured records of one template, the last of them failed."""
        measured, database = self.folder / "measured.db", self.folder / "with_failure.db"
        autotune("tune", "--sizes", "24", "--device", "host", "--budget", "20", "--max-evaluations", "24", "--db", measured)
        document = json.loads(autotune("export", "--db", measured))
        of_small = [record for record in document["records"] if record["candidate"]["kernel_template"] == "small"]
        self.assertGreaterEqual(len(of_small), 2)
        won = {winner["record"] for winner in document["winners"]}
        failed = [record for record in of_small if record["id"] not in won][-1]
        failed.update(outcome="compile_error", detail="made up", measurement=None)
        file = self.folder / "export.json"
        file.write_text(json.dumps(document))
        autotune("import", file, "--db", database)
        return database, of_small

    def test_it_reads_our_cache(self):
        database, records = self.records()
        file = self.folder / "cache.json"
        autotune("export", file, "--db", database, "--as", "kernel-tuner", *OF_SMALL)
        cache = util.read_cache(str(file), open_cache=False)
        self.assertEqual(len(cache["cache"]), len(records))
        self.assertEqual(sum("__error__" in entry for entry in cache["cache"].values()), 1)
        # Kernel Tuner's simulation runs on the file and finds our best.
        results, environment = quietly(
            kernel_tuner.tune_kernel, **util.infer_args_from_cache(cache), lang="C", cache=str(file), simulation_mode=True,
            restrictions=[util.infer_restrictions_from_cache(cache)], quiet=True)
        self.assertEqual(len(results), len(records) - 1)
        best = min((record for record in records if record["measurement"]), key=lambda record: record["measurement"]["median_us"])
        self.assertAlmostEqual(environment["best_config"]["time"], best["measurement"]["median_us"] / 1e3)
        names = cache["tune_params_keys"]
        self.assertEqual({name: environment["best_config"][name] for name in names}, best["candidate"]["configuration"])

    def test_it_goes_on_with_our_cache(self):
        database, _ = self.records()
        file = self.folder / "cache.json"
        autotune("export", file, "--db", database, "--as", "kernel-tuner", *OF_SMALL)
        before = len(util.read_cache(str(file), open_cache=True)["cache"])  # opens it for appending
        util.store_cache("new", {"time": 1.0}, str(file), {})
        util.close_cache(str(file))
        self.assertEqual(len(util.read_cache(str(file), open_cache=False)["cache"]), before + 1)

    def test_our_t4_is_of_its_schema(self):
        database, records = self.records()
        file = self.folder / "t4.json"
        autotune("export", file, "--db", database, "--as", "t4", *OF_SMALL)
        document = json.loads(file.read_text())
        jsonschema.validate(document, file_utils.output_file_schema("results")[1])
        self.assertEqual(sorted(result["invalidity"] for result in document["results"]),
                         sorted(["compile"] + ["correct"] * (len(records) - 1)))

    def test_replay_reads_what_it_writes(self):
        cache, results_file = self.folder / "cache.json", self.folder / "t4.json"
        import numpy

        tune_params = {"SIZE": [1, 2, 3, 4], "STEP": [1, 2, 3]}
        results, _ = quietly(kernel_tuner.tune_kernel, "busy", KERNEL, 1, [numpy.zeros(1, numpy.float32)], tune_params, lang="C",
                             cache=str(cache), quiet=True, compiler_options=["-O1"])
        file_utils.store_output_file(str(results_file), results, tune_params)
        text = cache.read_text().rstrip()
        open_cache = self.folder / "open.json"  # its state while Kernel Tuner runs, or after it was killed
        self.assertTrue(text.endswith("}\n}"))
        open_cache.write_text(text[:-3] + ",")
        for file, configurations, failed in ((cache, 12, 3), (open_cache, 12, 3), (results_file, len(results), len(results) - 9)):
            with self.subTest(file.name):
                space = json.loads(autotune("replay", file, "--strategy", "local", "--repeats", "2", "--json"))["spaces"][0]
                self.assertEqual((space["configurations"], space["failed"]), (configurations, failed))
                self.assertAlmostEqual(space["best_us"], 11e3, delta=1)
                self.assertEqual(space["strategies"][-1]["curve"][-1], 1)

    def test_the_comparison_prints_both(self):
        rows = [(a, b, None if a == 8 and b == 1 else a + b) for a in (1, 2, 4, 8) for b in range(1, 17)]
        table = self.folder / "data.csv"
        table.write_text("A,B,median_ms,compile_ms\n" + "".join(f"{a},{b},{time or ''},0\n" for a, b, time in rows))
        cache = self.folder / "data.json"
        cache.write_text(json.dumps({"tune_params_keys": ["A", "B"], "cache": {
            f"{a},{b}": {"A": a, "B": b, **({"time": time} if time else {"__error__": "RuntimeFailedConfig"})} for a, b, time in rows}}))
        written = self.folder / "out.txt"
        of_each = []
        for data in (table, cache):
            printed = subprocess.run(
                [sys.executable, ROOT / "bench/kernel_tuner_replay.py", data, "--repeats", "2", "--strategies", "random_sample,mls",
                 "--autotune", AUTOTUNE, "-o", written], check=True, stdout=subprocess.PIPE, text=True).stdout
            self.assertEqual(printed, written.read_text())
            self.assertIn("64 configurations, 1 failed", printed)
            of_each.append([line.split() for line in printed.splitlines() if line.startswith(("tilewise", "kernel_tuner"))])
        lines = of_each[0]
        self.assertEqual({line[0] for line in lines}, {"tilewise", "kernel_tuner"})
        self.assertEqual([line[1:3] for line in lines if line[0] == "kernel_tuner"],
                         [[name, order] for name in ("random_sample", "mls") for order in ("ascending", "descending")])
        self.assertEqual(lines, of_each[1])
        for line in lines:
            shares = [float(share) for share in line[3:7]]
            self.assertEqual(shares, sorted(shares), line)
            # All 64 were evaluated by then.
            if line[1] in ("random_sample", "random_calculated", "random"):
                self.assertEqual(shares[-1], 100, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
