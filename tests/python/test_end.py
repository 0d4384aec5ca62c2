"""A program whose daemon threads are in products ends as it would without them."""
import os
import subprocess
import sys

import pytest

HEAD = """
import sys, threading, time
import numpy as np
import tilewise

def daemon(work):
    begun = threading.Event()
    def loop():
        while True:
            work()
            begun.set()
    for _ in range(4):
        threading.Thread(target=loop, daemon=True).start()
    begun.wait(120)

a, b = np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)

class ByDlpack:  # its methods are Python's: a thread may be stopped in them
    def __init__(self, array):
        self.array = array
    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
"""

BODIES = {
    "products": "daemon(lambda: tilewise.matmul(a, b, device='host'))",
    "long products": """
x = np.ones((160, 160), np.float32)
daemon(lambda: tilewise.matmul(x, x, device='host'))
""",
    "first products": """
import itertools
sizes = itertools.count(1)
def first():
    k = next(sizes)
    tilewise.matmul(np.ones((3, k), np.float32), np.ones((k, 5), np.float32), device='host')
daemon(first)
""",
    "errors": """
def fail():
    try:
        tilewise.matmul(a, b[:3], device='host')
    except tilewise.InvalidArgument:
        pass
daemon(fail)
""",
    "arrays by methods of Python": """
daemon(lambda: tilewise.matmul(ByDlpack(a), ByDlpack(b), ByDlpack(np.empty((8, 8), np.float32)), device='host'))
""",
    "answers": "daemon(lambda: tilewise.explain(8, 8, 8, device='host'))",
    "new options": """
def anew():
    tilewise.configure()
    tilewise.matmul(a, b, device='host')
daemon(anew)
""",
    "a packed operand that lives on": """
packed = tilewise.pack(b, 8, device='host:sm_90')
daemon(lambda: tilewise.matmul(a, packed))
""",
}


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise SystemExit(3)"])
@pytest.mark.parametrize("body", BODIES)
def test_daemon_threads_do_not_disturb_it(body, end):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for turn in range(2):
        code = f"{HEAD}\n{BODIES[body]}\ntime.sleep({turn} * 0.003)\n{end}"
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, timeout=300,
                               capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (3 if end else 0, "")
