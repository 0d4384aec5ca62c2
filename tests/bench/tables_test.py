#!/usr/bin/env python3
"""bench/tables.py and bench/record.py on made-up runs: tables_test.py ROOT"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import tables  # noqa: E402


def shape(size, ratio, over_floor=2.0, layout="nn", batch=1, error=None, detail=""):
    m, n, k = (int(x) for x in size.split("x"))
    time_us = {"median_us": 10.0, "spread": 0.001, "host_us": 3.0}
    library = {"measurement": dict(time_us, median_us=10 * ratio) if ratio else None, "detail": detail}
    return {"problem": {"layout": layout, "m": m, "n": n, "k": k, "batch": batch}, "match": "exact",
            "columns": {"tuned": {"measurement": None if error else time_us, "detail": ""}, "cublas": library,
                        "cublas_pedantic": {"measurement": None, "detail": "f32 only"}, "cublas_lt_best": library},
            "tflops": 5.0, "better_cublas_us": 10 * ratio if ratio else None,
            "ratio": None if error else ratio, "floor_us": 5.0, "over_floor": over_floor, "error": error}


def run_of(**kinds):
    rates = {"flops": 1520e12, "bytes": 4.29e12}
    return {"command": "c", "gpu": "G", "driver": "1", "max_sm_clock_mhz": 1980.0, "power_limit_w": 700.0,
            "commit": "abc", "date": "2026-11-21", "seconds": 9.0,
            "result": {"toolkit": "NVRTC 13.0", "timing": {"cold": True, "rounds": 9},
                       "kinds": [{"kind": kind, "rates": rates, "shapes": shapes}
                                 for kind, shapes in kinds.items()]}}


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        (self.folder / "bench" / "results").mkdir(parents=True)
        shutil.copy(ROOT / "bench" / "record.py", self.folder / "bench")
        shutil.copy(ROOT / "bench" / "targets.json", self.folder / "bench")
        tables.ROOT = self.folder

    def tearDown(self):
        shutil.rmtree(self.folder)

    def keep(self, name, run):
        (self.folder / "bench" / "results" / f"{name}.json").write_text(json.dumps(run))

    def row(self, table, *cells):
        found = [line for line in table.splitlines() if all(f"| {cell} |" in line for cell in cells)]
        self.assertEqual(len(found), 1, table)
        return found[0]

    def test_one_kind_of_a_run_or_all_of_them(self):
        self.keep("r", run_of(i8=[shape("64x64x64", 2), shape("32x32x32", 8, batch=64)],
                              bf16=[shape("64x64x64", 0.5, detail="")]))
        one = tables.compare_table("r:i8")
        self.assertIn("TOP/s", one)
        self.assertIn("geometric mean 4.000x, minimum 2.000x; 0 below 1.00", one)
        self.assertIn("nn 32x32x32*64", one)
        self.assertIn("no cublas_pedantic: f32 only (all shapes)", one)
        self.assertIn("NVRTC 13.0", one)
        self.assertNotIn("**", one)
        both = tables.compare_table("r")
        self.assertIn("**bf16**", both)
        self.assertIn("Worst: nn 64x64x64 0.500x", both)

    def test_a_kind_may_have_its_result_in_another_type(self):
        self.keep("r", run_of(**{"bf16": [shape("64x64x64", 2)], "bf16:f32": [shape("64x64x64", 3)]}))
        self.assertIn("minimum 3.000x", tables.table("compare", "r:bf16:f32"))

    def test_where_cublas_does_not_run_the_reason_and_the_shapes_are_named(self):
        self.keep("r", run_of(e4m3=[shape("64x64x64", None, detail="only in nt"), shape("64x64x64", 2, layout="nt")]))
        self.assertIn("no cublas_lt_best: only in nt (nn 64x64x64).", tables.compare_table("r"))

    def test_one_row_a_type_over_several_runs(self):
        self.keep("r", run_of(f64=[shape("64x64x64", 2), shape("65x65x65", None)]))
        self.keep("s", run_of(tf32=[shape("64x64x64", 0.5)]))
        table = tables.table("types", "r,s")
        self.assertIn("| 2 | 1 | 2.00x | 2.00x | 0 |", self.row(table, "f64 ([r](../bench/results/r.json))"))
        self.assertIn("| 1 | 0 | 0.50x | 0.50x | 1 |", self.row(table, "tf32 ([s](../bench/results/s.json))"))

    def test_targets_stand_beside_what_was_reached(self):
        self.keep("r", run_of(bf16=[shape("1023x1023x1023", 1.7), shape("4096x4096x4096", 0.55)],
                              f64=[shape("64x64x64", 1.2), shape("65x65x65", 0.9), shape("66x66x66", None, 3.0)],
                              f16=[shape("32x32x32", 1.5, batch=64)]))
        table = tables.table("targets", "r")
        self.assertIn("| 1.700 | no | - |", self.row(table, "bf16", "unaligned", "at least 2.6"))
        self.assertIn("| at least 0.93 | 0.550 | no | - |", self.row(table, "bf16", "all"))
        self.assertIn("| at least 1.05 | 1.039 | no | 1 at 3.00x the floor |", self.row(table, "f64", "whole grid"))
        self.assertIn("| 1 | geometric mean, times cuBLAS | at least 1.3 | 1.500 | yes",
                      self.row(table, "f16", "small products, batched"))
        self.assertNotIn("| f16 | all", table)  # a batched shape is in its own group only
        self.assertNotIn("| i8 |", table)  # no row without measurements

    def test_a_group_with_a_shape_that_failed_has_not_met_its_target(self):
        self.keep("r", run_of(f64=[shape("64x64x64", 2), shape("65x65x65", 2, None, error="wrong result")]))
        self.assertIn("| 2.000 | no |", self.row(tables.table("targets", "r"), "f64", "whole grid"))

    def test_every_target_names_figures_that_there_are(self):
        for target in json.loads((ROOT / "bench" / "targets.json").read_text()):
            self.assertIn(target["statistic"], tables.STATISTICS)
            self.assertIn(target.get("figure", "ratio"), tables.FIGURES)
            self.assertEqual(1, ("at_least" in target) + ("at_most" in target))

    def test_rungs_of_a_ladder_are_compared_with_their_own_arithmetic(self):
        def rung(name, tflops, arithmetic, new):
            figures = {"tflops": tflops, "arithmetic": arithmetic} if new else {"flops": tflops * 1e12}
            return {"rung": 1, "name": name, "detail": "", "outcome": "ok", "bytes_per_flop": None, "error_ratio": 0.5,
                    "normwise_error": 1e-6, "measurement": {"median_us": 10.0}, **figures}

        for new in (True, False):
            rungs = [rung(name, tflops, arithmetic, new) for name, tflops, arithmetic in
                     [("cpu", 1.0, "f64"), ("naive", 2.0, "f32"), ("tuned", 50.0, "f32"),
                      ("tuned, f32x3", 80.0, "f32x3"), ("cuBLAS", 40.0, "f32")]]
            peak = {"peak_tflops": 60.0} if new else {"peak_flops": 60e12}
            self.keep("l", {**run_of(), "result": {"rungs": rungs, "cold": True, **peak}})
            table = tables.ladder_table("l")
            self.row(table, "naive", "2.00", "-", "3.3%")
            self.row(table, "tuned", "50.00", "25.00x")
            self.row(table, "tuned, f32x3", "80.00 | - | -")
            self.row(table, "cuBLAS", "40.00", "0.80x (3)", "66.7%", "0.5000", "1.0e-06")

    def test_untuned_sizes_have_a_row_for_each_layout_n_and_k(self):
        def row(m, ratio, n=64, **more):
            return {"problem": {"layout": "nt", "m": m, "n": n, "k": 32}, "in_portfolio": m == 8, "served_of_cublas": ratio, **more}

        def run(kinds, **more):
            self.keep("u", {**run_of(), **more, "result": {"kinds": kinds}})
            return tables.table("untuned", "u")

        rows = [row(1, 0.5), row(8, 2.0), row(1, 3.0, n=65), row(2, None, n=65), row(4, None, n=66, error="no kernel")]
        table = run([{"kind": "bf16", "asked": 5, "problems": rows}])
        self.row(table, "nt, 64, 32", "1 to 8", "2", "1.00x", "0.50x", "1: 0.50", "8")
        self.row(table, "nt, 65, 32", "1 to 2", "1", "3.00x", "-")
        self.assertIn("Without cuBLAS: nt 2x65x32 bf16.", table)
        self.assertIn("Failed: nt 4x66x32 bf16: no kernel.", table)
        self.assertNotIn("Interrupted", table)
        table = run([{"kind": "bf16", "asked": 7, "problems": rows}], status=130)
        self.assertIn("Interrupted: 2 of 7 products of bf16 not measured.", table)
        table = run([{"kind": "bf16", "problems": rows}], status=130)
        self.assertIn("Interrupted: the last products of the list not measured.", table)

    def test_what_was_not_measured_yet_is_said(self):
        self.assertEqual(tables.table("types", "nowhere"), "bench/results/nowhere.json is not there yet.")

    def record(self, script):
        command = [sys.executable, str(self.folder / "bench" / "record.py"), "x", "--", "bash", "-c", script]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def end(self, child):
        """The child's exit status and standard error."""
        _, words = child.communicate(timeout=20)
        return child.returncode, words

    def kept(self):
        return json.loads((self.folder / "bench" / "results" / "x.json").read_text())

    def test_a_document_is_kept_with_the_status_of_a_failure(self):
        self.assertEqual(self.end(self.record("echo '{\"a\": 1}'"))[0], 0)
        self.assertNotIn("status", self.kept())
        self.assertEqual(self.end(self.record("echo '{\"a\": 2}'; exit 1"))[0], 1)
        self.assertEqual((self.kept()["result"], self.kept()["status"]), ({"a": 2}, 1))
        self.assertIn("nothing is kept", self.end(self.record("echo no document; exit 3"))[1])
        self.assertEqual(self.kept()["result"], {"a": 2})

    def test_ctrl_c_keeps_what_the_command_prints(self):
        started = self.folder / "started"
        child = self.record(f"trap 'echo {{}}; exit 130' INT; touch {started}; while :; do sleep 0.05; done")
        while not started.exists():
            time.sleep(0.02)
        time.sleep(0.2)  # record.py has started the command and ignores Ctrl-C by now
        os.killpg(child.pid, signal.SIGINT)
        self.assertEqual(self.end(child)[0], 130)
        self.assertEqual(self.kept()["status"], 130)


if __name__ == "__main__":
    unittest.main()
