#!/usr/bin/env python3
"""Tunes every shape of a file on all GPUs, compares the winners with cuBLAS, and keeps the result in bench/results/NAME.json
in the form of bench/record.py.

    bench/grid.py h200_grid --types f32,bf16 --budget 60
    bench/grid.py mine --types all --shapes my.csv --device 0
    bench/grid.py cpu --types f32 --device host --shapes small.csv --budget 5

It takes about shapes x types x budget seconds, divided by the number of identical GPUs. After an interrupt (Ctrl-C) the same
command continues: finished searches are in the database, finished comparisons in the folder NAME.part next to it. With several
kinds of GPUs there is a result file for each: NAME-KIND.json."""
import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import record  # noqa: E402
import tables  # noqa: E402

INTERRUPTED = 130
KINDS = ["f32", "tf32", "f32x3", "f64", "f16", "bf16", "i8", "e4m3", "e5m2"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the result file, and of the folder for what is under way")
    parser.add_argument("--types", default="f32", help="kinds of products as in bench/compare: f32,tf32,bf16,bf16:f32; or all")
    parser.add_argument("--budget", default="60", help="of each search (60)")
    parser.add_argument("--shapes", default=str(record.ROOT / "bench/shapes/public.csv"),
                        help="CSV of layout,m,n,k or layout,m,n,k,batch (bench/shapes/public.csv)")
    parser.add_argument("--device", default="all", help="as in autotune: all, 0, 0,1 or host (all)")
    parser.add_argument("--db", help="the database of winners (.tilewise/grid/NAME.db)")
    parser.add_argument("--build", help="the build folder with cli/autotune and bench/compare (build-check, else build)")
    parser.add_argument("--rounds", type=int, help="of each comparison")
    arguments = parser.parse_args()
    if not re.fullmatch(r"[\w.-]+", arguments.name):
        parser.error(f"the name '{arguments.name}' is no file name")
    return arguments


def programs_of(build):
    """The paths of autotune and compare."""
    folders = [pathlib.Path(build)] if build else [record.ROOT / name for name in ("build-check", "build")]
    for folder in folders:
        found = [folder / "cli/autotune", folder / "bench/compare"]
        if all(os.access(path, os.X_OK) for path in found):
            return [str(path) for path in found]
    sys.exit(f"no cli/autotune and bench/compare in {', '.join(map(str, folders))}; ./check builds both in build-check")


def flags_of(kind):
    """The options of autotune for a kind: "tf32" is --dtype f32 --math tf32, "bf16:f32" --dtype bf16 --out f32."""
    operand, _, result = kind.partition(":")
    math = ["--math", operand] if operand in ("tf32", "f32x3") else []
    return ["--dtype", "f32" if math else operand, *math, *(["--out", result] if result else [])]


def kinds_of(types):
    kinds = KINDS if types == "all" else [kind for kind in types.split(",") if kind]
    unknown = [kind for kind in kinds if kind.partition(":")[0] not in KINDS]
    if unknown or not kinds:
        sys.exit(f"--types: {', '.join(unknown) or 'nothing'} is no kind; these are: {', '.join(KINDS)}, all")
    return list(dict.fromkeys(kinds))


class Session:
    """Runs commands that print a JSON document, and keeps each complete document."""

    def __init__(self, folder, settings):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "settings.json"
        if kept.exists() and json.loads(kept.read_text()) != settings:
            sys.exit(f"{folder} is of another command ({json.loads(kept.read_text())}); give another name, or remove it")
        kept.write_text(json.dumps(settings))

    def known(self, step):
        path = self.folder / f"{step}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def forget(self, beginning):
        for path in self.folder.glob(f"{beginning}*.json"):
            path.unlink()

    def run(self, step, command):
        """The step's document, from an earlier run if there is one. Ends the program if the command fails."""
        kept = self.known(step)
        if kept:
            print(f"{step}: done before", file=sys.stderr)
            return kept
        print(f"{step}: {shlex.join(command)}", file=sys.stderr)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # run_watched() ignores it once the command runs
        started = time.monotonic()
        status, output, peak_kb = record.run_watched(command)
        try:
            document = json.loads(output)
        except ValueError:
            sys.exit(f"{step} ended with status {status} and printed no JSON; the same command goes on here")
        kept = {"seconds": time.monotonic() - started, "peak_memory_mb": round(peak_kb / 1024), "status": status,
                "commit": record.commit_now(), "document": document}
        if status == INTERRUPTED or document.get("interrupted"):
            sys.exit(f"{step} was interrupted; the same command goes on here")
        if "error" in document:
            sys.exit(f"{step}: {document['error']['message']}; the same command goes on here")
        aside = self.folder / f"{step}.part"
        aside.write_text(json.dumps(kept))
        aside.rename(self.folder / f"{step}.json")
        return kept


def devices_of(autotune, device):
    """One device of each kind: (gpu key, value for --device, name)."""
    printed = subprocess.run([autotune, "devices", "--device", device, "--json"], capture_output=True, text=True)
    document = json.loads(printed.stdout)
    if "error" in document:
        sys.exit(document["error"]["message"])
    found = {}
    for one in document["devices"]:
        host = one["target"].startswith("host")
        found.setdefault(one["gpu"], (device if host else str(one["index"]), one["name"]))
    return [(key, *rest) for key, rest in found.items()]


def tuning_summary(results):
    """The search statistics of each problem; the winners are in the database."""
    return [{"problem": r["problem"], "gpu": r["gpu"], "evaluated": r["evaluated"], "rejected": r["rejected"],
             "seconds": r["seconds"], "stored": r["stored"], "already_done": r["already_done"]} for r in results]


def comparison_of(session, compare, kinds, arguments, key, device):
    """The documents of all kinds merged, as bench/compare prints them for several kinds."""
    merged, parts = None, []
    for kind in kinds:
        step = f"compare-{re.sub(r'[^A-Za-z0-9]+', '-', key)}-{kind.replace(':', '-')}"
        command = [compare, "--device", device, "--db", str(arguments.db), "--shapes", arguments.shapes, "--types", kind, "--json"]
        if arguments.rounds:
            command += ["--rounds", str(arguments.rounds)]
        part = session.run(step, command)
        parts.append(part)
        if merged is None:
            merged = part["document"]
        else:
            merged["kinds"] += part["document"]["kinds"]
            merged["notes"] = merged.get("notes", []) + part["document"].get("notes", [])
    return merged, parts


def print_summary(result):
    for section in result["kinds"]:
        shapes = section["shapes"]
        print(f"{section['kind']}: {len(shapes)} shapes")
        for line in tables.compare_summary(section):
            print("  " + line)
        if not tables.figures(shapes, "ratio"):
            print("  no cuBLAS beside")


def facts_of(name):
    """The facts of nvidia-smi if its first GPU has this name; otherwise the name alone."""
    facts = record.gpu_facts()
    return facts if facts.get("gpu") == name else {"gpu": name}


def main():
    arguments = parse_arguments()
    kinds = kinds_of(arguments.types)
    autotune, compare = programs_of(arguments.build)
    arguments.shapes = str(pathlib.Path(arguments.shapes).resolve())
    shapes = pathlib.Path(arguments.shapes).read_text()
    arguments.db = pathlib.Path(arguments.db or record.ROOT / ".tilewise/grid" / f"{arguments.name}.db").resolve()
    arguments.db.parent.mkdir(parents=True, exist_ok=True)
    devices = devices_of(autotune, arguments.device)
    session = Session(arguments.db.parent / f"{arguments.name}.part", {
        "types": kinds, "budget": arguments.budget, "shapes": shapes, "gpus": [key for key, _, _ in devices],
        "rounds": arguments.rounds})
    tuned = []
    for kind in kinds:
        if not session.known(f"tune-{kind.replace(':', '-')}"):
            session.forget("compare-")  # made for other winners
        tuned.append(session.run(f"tune-{kind.replace(':', '-')}", [
            autotune, "tune", "--device", arguments.device, "--problems", arguments.shapes, *flags_of(kind), "--budget", arguments.budget,
            "--db", str(arguments.db), "--json"]))
    failed = False
    for key, device, name in devices:
        result, parts = comparison_of(session, compare, kinds, arguments, key, device)
        result["tuning"] = {kind: tuning_summary(r for r in one["document"]["results"] if r["gpu"] == key)
                            for kind, one in zip(kinds, tuned)}
        status = max(part["status"] for part in parts + tuned)
        commits = list(dict.fromkeys(part["commit"] for part in tuned + parts))
        document = {"command": shlex.join(["bench/grid.py", *sys.argv[1:]]), "commit": ", ".join(commits),
                    "date": datetime.date.today().isoformat(), **facts_of(name),
                    "seconds": round(sum(part["seconds"] for part in tuned + parts), 1),
                    "peak_memory_mb": max(part["peak_memory_mb"] for part in tuned + parts),
                    **({"status": status} if status else {}), "result": result}
        kind_of_gpu = "-" + re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-") if len(devices) > 1 else ""
        path = record.ROOT / "bench" / "results" / f"{arguments.name}{kind_of_gpu}.json"
        path.write_text(json.dumps(document, indent=1) + "\n")
        print_summary(result)
        print(path.relative_to(record.ROOT))
        failed |= status != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
