#!/usr/bin/env python3
"""Runs a command that prints one JSON document and keeps the document in bench/results/ with the facts that a
result must have: command, commit, GPU, driver, clocks, power limit, date, seconds, peak host memory (of the
command and its children together: proportional set size, so that shared memory counts once; sampled twice a
second). A document printed by a command that then fails or is interrupted (Ctrl-C) is kept too, with its exit
status.

    bench/record.py h200_tune -- ./autotune --device 0 --sizes 1024,4096 --json --db /tmp/new.db
"""
import datetime
import json
import pathlib
import signal
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


def descendants(pid):
    """The process and its descendants."""
    found = [pid]
    for parent in found:
        try:
            for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass  # it ended meanwhile
    return found


def memory_kb(pid):
    """Proportional set size of a process and its descendants."""
    total = 0
    for one in descendants(pid):
        try:
            text = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])
    return total


def run_watched(command):
    """Runs the command. Returns status, standard output and peak memory in kB."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command handles it and prints its rows
    peak = 0
    while True:
        peak = max(peak, memory_kb(child.pid))
        try:
            output, _ = child.communicate(timeout=0.5)
            return child.returncode, output, peak
        except subprocess.TimeoutExpired:
            pass


def commit_now():
    """The commit of the tree, followed by "+changes" if files differ from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run(git + ["rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    dirty = subprocess.run(git + ["status", "--porcelain", "-uno"], capture_output=True, text=True)
    return commit.stdout.strip() + ("+changes" if dirty.stdout.strip() else "")


def main():
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    name, command = sys.argv[1], sys.argv[3:]
    commit = commit_now()
    started = time.monotonic()
    status, output, peak_kb = run_watched(command)
    seconds = time.monotonic() - started
    try:
        document = json.loads(output)
    except ValueError:
        sys.exit(f"{command[0]} ended with status {status} and printed no JSON: nothing is kept")
    result = {
        "command": " ".join(command),
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        **gpu_facts(),
        "seconds": round(seconds, 1),
        "peak_memory_mb": round(peak_kb / 1024),
        **({"status": status} if status else {}),
        "result": document,
    }
    path = ROOT / "bench" / "results" / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(path.relative_to(ROOT))
    sys.exit(status)


if __name__ == "__main__":
    main()
