#!/usr/bin/env python3
"""The commands of autotune in the pages: docs_commands_test.py ROOT AUTOTUNE [TEST]. Commands on the CPU run as printed.
For the others, the subcommand and the options must exist. A search without a limit ends after a few candidates."""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT, AUTOTUNE = pathlib.Path(sys.argv[1]).resolve(), str(pathlib.Path(sys.argv[2]).resolve())
del sys.argv[1:3]


def commands():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        blocks = re.findall(r"^```(?:sh|console)?\n(.*?)^```", text, flags=re.M | re.S)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        lines += re.findall(r"`((?:\./)?autotune [^`]*)`", re.sub(r"```.*?```", "", text, flags=re.S))
        for line in lines:
            for part in re.split(r"&&|\||;(?!\S)", line):
                found = re.match(r"\s*(?:\$ )?(?:\./|build/cli/)?autotune (.*)", part)
                if found:
                    yield page.name, " ".join(found[1].split("\n"))


def listed_files():
    """Yields the files whose contents are in a page: "..., here `NAME`, ...:" and a block."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for name, text in re.findall(r"here `([\w.-]+)`[^\n]*:\n\n```\n(.*?)^```", page.read_text(), flags=re.M | re.S):
            yield name, text


@functools.cache
def help_of(*words):
    return subprocess.run([AUTOTUNE, *words, "--help"], capture_output=True, text=True).stdout


def subcommands():
    listed = help_of().split("Subcommands:")[1].split("\n\n")[0]
    return [*re.findall(r"^  ([a-z]+) ", listed, flags=re.M), "manual", "help", "version"]  # hidden


class Commands(unittest.TestCase):
    def test_subcommands_and_options_exist(self):
        known, wrong, count = subcommands(), [], 0
        for page, line in commands():
            try:
                words = shlex.split(line.split("  #")[0])
            except ValueError:
                continue  # a quotation that the page shortens
            if any(word.isupper() and word in ("SUBCOMMAND", "COMMAND") for word in words):
                continue
            if "--" in words:
                words = words[:words.index("--")]
            name = words[0] if words and words[0] in known else "tune"
            if words and re.fullmatch(r"[a-z]+", words[0]) and words[0] not in known:
                wrong.append(f"{page}: autotune {line}: no subcommand {words[0]}")
                continue
            nested = [name]
            if name == "db" and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
                nested.append(words[1])
            text = help_of(*nested) + (help_of() if name == "tune" else "")
            for word in words:
                option = re.match(r"--[a-z][a-z-]*", word)
                if option and option[0] == "--no-install":
                    continue  # an option of the script in the root
                if option and not re.search(rf"(?<![\w-]){option[0]}(?![\w-])", text):
                    wrong.append(f"{page}: autotune {line}: {' '.join(nested)} has no {option[0]}")
            count += 1
        self.assertEqual(wrong, [])
        self.assertGreater(count, 40)

    def test_those_on_the_cpu_run(self):
        ran = 0
        with tempfile.TemporaryDirectory() as folder:
            for name, text in listed_files():
                pathlib.Path(folder, name).write_text(text)
            settings = dict(os.environ, HOME=folder, TILEWISE_DB=os.path.join(folder, "docs.db"), TILEWISE_HOST_FLAGS="-O0")
            for page, line in commands():
                words = shlex.split(line.split("  #")[0].split("   ")[0]) if "--device host" in line else []
                if not words or "host,host" in line or "--only" in line:
                    continue
                if not re.match("[a-z]", words[0]) and "--budget" not in words:
                    words += ["--max-evaluations", "4"]
                done = subprocess.run([AUTOTUNE, *words], env=settings, capture_output=True, text=True, cwd=folder)
                self.assertEqual(done.returncode, 0, f"{page}: autotune {line}\n{done.stdout}{done.stderr}")
                ran += 1
        self.assertGreaterEqual(ran, 1)


if __name__ == "__main__":
    unittest.main()
