#!/usr/bin/env python3
"""Runs a command that prints one JSON document and keeps it in bench/results/ with what a result must
carry: command, commit, GPU, driver, clocks, power limit, date, seconds, peak host memory.

    bench/record.py h200_tune -- ./autotune --device 0 --sizes 1024,4096 --json --db /tmp/new.db
"""
import datetime
import json
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def gpu_facts():
    query = "name,driver_version,clocks.max.sm,power.limit"
    try:
        text = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    name, driver, clock, power = [field.strip() for field in text.splitlines()[0].split(",")]
    return {"gpu": name, "driver": driver, "max_sm_clock_mhz": float(clock), "power_limit_w": float(power)}


def main():
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    name, command = sys.argv[1], sys.argv[3:]
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run(git + ["rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    dirty = subprocess.run(git + ["status", "--porcelain", "-uno"], capture_output=True, text=True)
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with status {done.returncode}: nothing is kept")
    result = {
        "command": " ".join(command),
        "commit": commit.stdout.strip() + ("+changes" if dirty.stdout.strip() else ""),
        "date": datetime.date.today().isoformat(),
        **gpu_facts(),
        "seconds": round(seconds, 1),
        "peak_process_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
        "result": json.loads(done.stdout),
    }
    path = ROOT / "bench" / "results" / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
