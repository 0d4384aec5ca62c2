"""Accepted arrays and options, and refusals with a message: meaning outside of memory, foreign exceptions, paths."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import tilewise
from tilewise import programs

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")
HOST = {"device": "host"}


def ones(*shape):
    return np.ones(shape, np.float32)


def refusal(*arguments, error=TypeError, **options):
    with pytest.raises(error) as raised:
        tilewise.matmul(*arguments, **{**HOST, **options})
    return str(raised.value)


class Quantity(np.ndarray):
    """An array with a unit, like those of astropy, pint and unyt."""

    unit = "m"

    def __array_finalize__(self, source):
        self.unit = getattr(source, "unit", None)


class Wrapped(np.ndarray):
    def __array_ufunc__(self, *arguments, **options):
        raise AssertionError("not reached")


class OfQuantity(Quantity):
    pass


class Plain(np.ndarray):
    """A subclass that changes nothing."""


class Mapped(np.memmap):
    pass


@pytest.mark.parametrize("kind", [Quantity, Wrapped, OfQuantity])
def test_subclasses_with_a_meaning_of_their_own_are_refused(kind):
    special = ones(4, 4).view(kind)
    for operands in ((special, ones(4, 4)), (ones(4, 4), special), (ones(4, 4), ones(4, 4), special)):
        text = refusal(*operands)
        assert "__array_" in text and "numpy.asarray" in text
    with pytest.raises(TypeError, match="b is of a subclass"):
        tilewise.pack(special, 4, **HOST)
    np.testing.assert_array_equal(tilewise.matmul(np.asarray(special), ones(4, 4), **HOST), ones(4, 4) * 4)


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(ones(4, 4), mask=np.eye(4))
    assert "MaskedArray" in refusal(masked, ones(4, 4))
    assert "MaskedArray" in refusal(ones(4, 4), masked)
    assert "MaskedArray" in refusal(np.ma.masked_array(ones(4, 4)), ones(4, 4))  # without a mask yet: out would get none


@pytest.mark.parametrize("interface", ["__array_interface__", "__cuda_array_interface__"])
def test_a_mask_in_an_interface_is_refused(interface):
    class Other:
        pass

    other = Other()
    setattr(other, interface, {**ones(4, 4).__array_interface__, "mask": np.ones((4, 4), bool)})
    assert "a has a mask" in refusal(other, ones(4, 4))


def test_subclasses_whose_meaning_is_their_memory_are_operands(tmp_path):
    mapped = np.memmap(tmp_path / "memory", np.float32, "w+", shape=(4, 4))
    mapped[:] = 1
    for array in (np.matrix(ones(4, 4)), mapped, mapped.view(Mapped), ones(4, 4).view(Plain), ones(4, 4).view(np.recarray)):
        np.testing.assert_array_equal(np.asarray(tilewise.matmul(array, ones(4, 4), **HOST)), ones(4, 4) * 4)


class Producer:
    """An array that has only DLPack and requires a version."""

    def __init__(self, array, least=(0, 0), raises=None):
        self.array, self.least, self.raises, self.asked = array, least, raises, []

    def __dlpack__(self, *, max_version=None, **options):
        self.asked.append(max_version)
        if self.raises:
            raise self.raises
        if (max_version or (0, 0)) < self.least:
            raise BufferError(f"this array needs version {self.least[0]} of DLPack")
        return self.array.__dlpack__(max_version=max_version, **options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldProducer:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def read_only(array):
    array.flags.writeable = False
    return array


def test_producers_of_every_version():
    for kind in (Producer, OldProducer, lambda array: Producer(array, least=(1, 0))):
        out = np.zeros((3, 5), np.float32)
        tilewise.matmul(kind(ones(3, 4)), kind(ones(4, 5)), kind(out), **HOST)
        np.testing.assert_array_equal(out, 4)


def test_operands_that_are_read_only():
    a, b, out = Producer(read_only(ones(3, 4))), Producer(read_only(ones(4, 5))), np.zeros((3, 5), np.float32)
    tilewise.matmul(a, b, out, **HOST)
    np.testing.assert_array_equal(out, 4)
    np.testing.assert_array_equal(tilewise.matmul(read_only(ones(3, 4)), read_only(ones(4, 5)), **HOST), 4)
    assert "out is read-only" in refusal(a, b, Producer(read_only(np.zeros((3, 5), np.float32))),
                                         error=tilewise.InvalidArgument)


@pytest.mark.parametrize("raised", [BufferError("not on this device"), RuntimeError("broken"), ValueError("no")])
def test_what_a_producer_raises_is_our_error(raised):
    text = refusal(Producer(ones(4, 4), raises=raised), ones(4, 4), ones(4, 4) * 0, error=tilewise.Error)
    assert "a, a " in text and type(raised).__name__ in text and str(raised) in text


def test_an_interrupt_in_a_producer_stays_one():
    with pytest.raises(KeyboardInterrupt):
        tilewise.matmul(Producer(ones(4, 4), raises=KeyboardInterrupt()), ones(4, 4), ones(4, 4), **HOST)


@pytest.mark.parametrize("interface", [
    {"shape": "ab", "typestr": "<f4", "data": (0, False), "version": 3}, {"typestr": "<f4", "data": (0, False)},
    {"shape": (4, 4), "typestr": 5, "data": (0, False), "version": 3}, {"shape": (4, 4), "typestr": "<f4", "version": 3},
    {"shape": (4, 4), "typestr": "<f4", "data": ("x", False), "version": 3}, "none"])
def test_interfaces_that_are_none_are_our_errors(interface):
    class Other:
        __array_interface__ = interface

    assert "a" in refusal(Other(), ones(4, 4), error=(TypeError, tilewise.Error))


# --- devices

def test_cpu_is_a_synonym_of_host():
    for name in ("cpu", "host", "cpu:sm_90"):
        np.testing.assert_array_equal(tilewise.matmul(ones(4, 4), ones(4, 4), device=name), ones(4, 4) * 4)
        assert tilewise.explain(4, 4, 4, device=name)["why"]
    assert tilewise.pack(ones(4, 4), 4, device="cpu").nbytes >= 0


@pytest.mark.parametrize("name", ["HOST", "Cpu", "", -1, "cuda:-1", "cuda:x", "gpu", True, 1.5, "host:sm_", b"0", "\udcff"])
def test_texts_that_name_no_device_list_those_that_do(name):
    for call in (lambda: tilewise.matmul(ones(4, 4), ones(4, 4), device=name),
                 lambda: tilewise.explain(4, 4, 4, device=name), lambda: tilewise.prepare(4, 4, 4, device=name),
                 lambda: tilewise.pack(ones(4, 4), 4, device=name)):
        with pytest.raises(tilewise.InvalidArgument) as raised:
            call()
        text = str(raised.value)
        assert "host" in text and "sm_90" in text and "driver" not in text


# --- options

NAMES = [b"byt\xe9s", "surrog\udce9te", pathlib.Path("path"), "f\xfcr", "with space,comma"]


@pytest.mark.parametrize("name", NAMES)
def test_paths_of_every_kind(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    file = folder / "test.db"
    given = os.fsencode(file) if isinstance(name, bytes) else type(name)(file)
    quick = {"device": "host", "budget": 2, "max_evaluations": 1, "progress": False}
    try:
        tilewise.configure(database=given, missed_list=folder / "missed.csv", on_miss="record")
        tilewise.tune((8, 8, 8), **quick)
        assert file.exists()
        assert tilewise.explain(8, 8, 8, device="host")["match"] == "exact"
        assert [row["m"] for row in tilewise.query(database=given)] == [8]
        tilewise.prepare(9, 9, 9, device="host")
        assert (folder / "missed.csv").exists()
        bundle = folder / "app.tilewise"
        tilewise.bundle(os.fsencode(bundle), [{"m": 8, "n": 8, "k": 8}], database=given, gpu="CPU")
        tilewise.configure(bundle=os.fsencode(bundle), database=given, compile_missing=False)
        assert tilewise.explain(8, 8, 8, device="host")["match"] == "exact"
        with pytest.raises(tilewise.Error, match="no such file"):
            tilewise.configure(bundle=os.fsencode(folder / "none"))
            tilewise.explain(8, 8, 8, device="host")
    finally:
        tilewise.configure()
    assert [os.fsdecode(entry) for entry in os.listdir(tmp_path)] == [os.fsdecode(name)]


@pytest.mark.parametrize("option, value", [
    ("database", 3), ("database", ["x"]), ("bundle", object()), ("nvrtc", 1.5), ("autotune", 3), ("missed_list", True),
    ("database", "nul\0"), ("compile_missing", "yes"), ("trust_files", 2), ("tune_seconds", "x"),
    ("host_memory_limit", "many"), ("host_memory_limit", 1.5)])
def test_options_of_a_wrong_type(option, value):
    with pytest.raises(TypeError, match=f"the option {option} is "):
        tilewise.configure(**{option: value})


@pytest.mark.parametrize("value", [1, "\udcff", b"serve"])
def test_a_way_to_miss_that_is_none(value):
    with pytest.raises(tilewise.InvalidArgument, match="serve, record, error, tune"):
        tilewise.configure(on_miss=value)
    tilewise.configure()


def test_numbers_of_numpy():
    one = {"device": "host"}
    assert tilewise.explain(np.int64(8), np.int32(8), np.uint8(8), batch=np.int64(2), **one)["why"]
    tilewise.configure(host_memory_limit=np.int64(1 << 30), tune_seconds=np.float32(5), compile_missing=np.bool_(True))
    tilewise.configure()


# --- the system's failures

def script(code, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, timeout=300, capture_output=True,
                          text=True, **options)


@pytest.mark.parametrize("headroom", [1, 4, 16, 64, 256])
def test_a_limit_of_memory_is_our_error(headroom):
    ended = script(f"""
import resource, sys
import numpy as np, tilewise
a, tall, wide = np.ones((64, 64), np.float32), np.ones((60000, 1), np.float32), np.ones((1, 60000), np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + ({headroom} << 20), resource.RLIM_INFINITY))
for call in (lambda: tilewise.matmul(a, a, device="host"), lambda: tilewise.prepare(40, 40, 40, device="host"),
             lambda: tilewise.explain(8, 8, 8, device="host"),
             lambda: tilewise.matmul(tall, wide, device="host")):
    try:
        call()
    except tilewise.Error as error:
        kind = error.kind
        assert kind in ("out_of_memory", "transient", "io", "compiler", "database", "device"), (kind, str(error))
print(kind)  # of the last: its result alone has 14 GB
""")
    assert (ended.returncode, ended.stdout) == (0, "out_of_memory\n"), ended.stderr


def test_a_working_folder_that_is_gone(tmp_path):
    ended = script("""
import os, numpy as np, tilewise
os.rmdir(os.getcwd())
for options in ({"database": "x.db"}, {"bundle": "x"}, {"missed_list": "x.csv", "database": "/tmp/none.db", "on_miss": "record"}):
    tilewise.configure(**options)
    try:
        tilewise.explain(8, 8, 8, device="host")
    except tilewise.Error as error:
        print(error.kind)
""", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "database\n" * 3), ended.stderr


@pytest.mark.parametrize("database", ["good.db", "/proc/none.db"])
def test_tuning_where_the_end_of_children_is_ignored(tmp_path, database):
    ended = script(f"""
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
import numpy as np, tilewise
try:
    print([row["m"] for row in tilewise.tune((8, 8, 8), device="host", budget=2, max_evaluations=2, progress=False, database="{database}")])
except tilewise.Error as error:
    print(error.kind)
a = np.ones((9, 9), np.float32)
assert np.array_equal(tilewise.matmul(a, a, device="host"), a @ a)
""", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "[8]\n" if database == "good.db" else "database\n"), ended.stderr
