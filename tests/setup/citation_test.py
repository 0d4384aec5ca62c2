#!/usr/bin/env python3
"""CITATION.cff has the version and the licence of the project: citation_test.py ROOT"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
text = (root / "CITATION.cff").read_text()
fields = dict(re.findall(r'^([\w-]+): *"?([^"\n]*)"?$', text, re.MULTILINE))
version = re.search(r"project\(tilewise VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text())[1]
assert fields["version"] == version, f"CITATION.cff is of {fields['version']}, the project of {version}"
assert fields["cff-version"] == "1.2.0" and fields["title"] and fields["message"]
assert "MIT License" in (root / "LICENSE").read_text() and fields["license"] == "MIT"
assert re.search(r"^authors:\n  - name: ", text, re.MULTILINE)
