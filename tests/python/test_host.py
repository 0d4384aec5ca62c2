"""Products of NumPy arrays on the CPU, whose kernels the CPU executor runs."""
import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tilewise

ml_dtypes = pytest.importorskip("ml_dtypes")
HOST = {"device": "host"}
warnings = pytest.mark.filterwarnings("ignore:tilewise")
pytestmark = warnings


def integers(shape, dtype=np.float32, seed=1):
    """Small integers, whose products and sums are exact in every type."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def as_stored(matrix, transposed, pad):
    """The same values in other memory: transposed, with `pad` further elements per row."""
    rows, columns = matrix.shape[::-1] if transposed else matrix.shape
    memory = np.full((rows, columns + pad), 99, matrix.dtype)[:, :columns]
    memory[...] = matrix.T if transposed else matrix
    return memory.T if transposed else memory


@pytest.mark.parametrize("a_t, b_t, c_t, pad", list(itertools.product([False, True], [False, True], [False, True], [0, 3])))
def test_transposed_views_are_layouts(a_t, b_t, c_t, pad):
    a, b = integers((5, 7)), integers((7, 6), seed=2)
    out = as_stored(np.zeros((5, 6), np.float32), c_t, pad)
    given = tilewise.matmul(as_stored(a, a_t, pad), as_stored(b, b_t, pad), out, **HOST)
    assert given is out
    np.testing.assert_array_equal(out, a @ b)
    memory = out.base if out.base is not None else out
    while memory.base is not None:
        memory = memory.base
    assert np.count_nonzero(memory == 99) == memory.size - 30  # between the rows nothing was written


@pytest.mark.parametrize("dtype, result", [
    (np.float32, np.float32), (np.float64, np.float64), (np.float16, np.float16),
    (ml_dtypes.bfloat16, ml_dtypes.bfloat16), (np.int8, np.int32), (ml_dtypes.float8_e4m3fn, np.float32),
    (ml_dtypes.float8_e5m2, np.float32)])
def test_every_type_has_its_usual_result(dtype, result):
    a, b = integers((4, 9), dtype), integers((9, 5), dtype, seed=2)
    c = tilewise.matmul(a, b, **HOST)
    assert c.dtype == result
    np.testing.assert_array_equal(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def test_a_wider_result_is_that_of_out():
    a, b = integers((4, 9), np.float16), integers((9, 5), np.float16, seed=2)
    out = np.empty((4, 5), np.float32)
    tilewise.matmul(a, b, out, **HOST)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


def test_alpha_and_beta():
    a, b, c = integers((3, 4)), integers((4, 5), seed=2), integers((3, 5), seed=3)
    out = c.copy()
    tilewise.matmul(a, b, out, alpha=2, beta=-3, **HOST)
    np.testing.assert_array_equal(out, 2 * (a @ b) - 3 * c)


def test_beta_of_0_does_not_read_out():
    a, b = integers((3, 4)), integers((4, 5), seed=2)
    out = np.full((3, 5), np.nan, np.float32)
    np.testing.assert_array_equal(tilewise.matmul(a, b, out, **HOST), a @ b)


@pytest.mark.parametrize("a_shape, b_shape", [
    ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (6, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
    ((2, 3, 1, 3, 4), (2, 1, 2, 4, 5)), ((1, 3, 4), (1, 4, 5))])
def test_leading_dimensions_are_broadcast(a_shape, b_shape):
    a, b = integers(a_shape), integers(b_shape, seed=2)
    expected = a @ b
    c = tilewise.matmul(a, b, **HOST)
    assert c.shape == expected.shape
    np.testing.assert_array_equal(c, expected)


def test_batches_at_uneven_distances():
    a, b = integers((4, 6, 3, 4))[::2, ::3], integers((2, 2, 4, 5), seed=2)
    out = np.full((2, 3, 2, 3, 5), 99, np.float32)
    tilewise.matmul(a, b, out[:, 1], **HOST)
    np.testing.assert_array_equal(out[:, 1], a @ b)
    assert (out[:, 0] == 99).all() and (out[:, 2] == 99).all()


def test_out_beside_its_operands_in_one_array():
    memory = integers((6, 12))
    expected = memory[:, :5] @ integers((5, 4), seed=2)
    tilewise.matmul(memory[:, :5], integers((5, 4), seed=2), memory[:, 6:10], **HOST)
    np.testing.assert_array_equal(memory[:, 6:10], expected)
    # Heads in one buffer: queries, keys, values.
    heads = integers((7, 3, 3, 4)).transpose(1, 2, 0, 3)
    b = integers((4, 4), seed=2)
    expected = heads[:, 0] @ b
    tilewise.matmul(heads[:, 0], b, heads[:, 2], **HOST)
    np.testing.assert_array_equal(heads[:, 2], expected)


def test_the_update_of_a_factorization_within_one_matrix():
    matrix = integers((9, 9))
    expected = matrix[3:, 3:] - matrix[3:, :3] @ matrix[:3, 3:]
    tilewise.matmul(matrix[3:, :3], matrix[:3, 3:], matrix[3:, 3:], alpha=-1, beta=1, **HOST)
    np.testing.assert_array_equal(matrix[3:, 3:], expected)


def test_batches_in_any_order():
    whole = integers((3, 6, 4, 4))
    b = integers((4, 4), seed=2)
    for a in [whole[:, 0][::-1], whole[0, ::-2], whole[:2, :, ::1][:, ::-1], whole[::-1], whole[::-1, ::-3],
              whole[::-2, 1::2].swapaxes(0, 1)[::-1]]:
        np.testing.assert_array_equal(tilewise.matmul(a, b, **HOST), a @ b)
        np.testing.assert_array_equal(tilewise.matmul(b, a, **HOST), b @ a)
        np.testing.assert_array_equal(tilewise.matmul(a, a.swapaxes(-1, -2), **HOST), a @ a.swapaxes(-1, -2))
        for order in [np.s_[:], np.s_[::-1]]:
            out = np.full(a.shape, 99, np.float32)[order]
            tilewise.matmul(a, b, out, **HOST)
            np.testing.assert_array_equal(out, a @ b)


def test_strides_of_dimensions_of_one_element_do_not_count():
    memory = np.zeros(400, np.uint8)
    odd = np.ndarray((1, 3, 4), np.float32, memory, strides=(7, 16, 4))
    odd[:] = integers((1, 3, 4))
    one_row = np.ndarray((1, 4), np.float32, memory, offset=200, strides=(5, 4))
    one_row[:] = integers((1, 4), seed=3)
    b = integers((4, 5), seed=2)
    np.testing.assert_array_equal(tilewise.matmul(odd, b, **HOST), odd @ b)
    np.testing.assert_array_equal(tilewise.matmul(one_row, b, **HOST), one_row @ b)


def test_a_refused_batch_changes_nothing():
    memory = np.arange(3 * 2 * 2 * 4, dtype=np.float32).reshape(3, 2, 2, 4)
    b = np.ones((2, 1, 2, 2), np.float32)
    before = memory.copy()
    assert "overlap" in refusal(memory[:2, ..., :2], b, memory[1:, ..., 1:3])
    np.testing.assert_array_equal(memory, before)
    # The last matrix of a, traversed backwards, is the first of out.
    buffer = np.arange(48, dtype=np.float32)
    before = buffer.copy()
    a, out = buffer[24:48].reshape(3, 2, 2, 2)[::-1], buffer[16:40].reshape(3, 2, 2, 2)
    assert "overlap" in refusal(a, np.ones((2, 2), np.float32), out)
    np.testing.assert_array_equal(buffer, before)
    # An operand that is not read may be shared.
    tilewise.matmul(a, np.ones((2, 2), np.float32), out, alpha=0, **HOST)
    assert (out == 0).all()


def test_loops_over_uneven_batches_check_out_as_a_whole():
    memory = np.ones((3, 2, 2, 4), np.float32)
    b = np.ones((2, 1, 2, 2), np.float32)
    empty = np.ones((3, 2, 2, 0), np.float32)[:2]
    np.testing.assert_array_equal(tilewise.matmul(empty, np.ones((2, 1, 0, 2), np.float32), memory[1:, ..., :2], **HOST), 0)
    out = np.lib.stride_tricks.as_strided(np.empty(100, np.float32), (2, 2, 2, 2), (4, 40, 8, 4))
    assert "share memory" in refusal(np.ones((2, 2, 2, 2), np.float32), b, out)


@pytest.mark.parametrize("a_shape, b_shape", [((3, 0, 4), (3, 4, 5)), ((3, 4, 0), (3, 0, 5)), ((2, 3, 4), (4, 0))])
def test_batches_of_empty_matrices(a_shape, b_shape):
    a, b = np.ones(a_shape, np.float32), np.ones(b_shape, np.float32)
    np.testing.assert_array_equal(tilewise.matmul(a, b, **HOST), a @ b)


def test_arrays_that_state_their_type_as_text():
    class Plain:
        def __init__(self, array):
            self.__array_interface__ = array.__array_interface__
            self.array = array

    a, b, out = integers((3, 4)), integers((4, 5), seed=2), np.empty((3, 5), np.float32)
    tilewise.matmul(Plain(a), Plain(b), Plain(out), **HOST)
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("m, n, k", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (1, 5, 3), (5, 1, 3)])
def test_sizes_of_0_and_1(m, n, k):
    a, b = integers((m, k)), integers((k, n), seed=2)
    np.testing.assert_array_equal(tilewise.matmul(a, b, **HOST), a @ b)
    np.testing.assert_array_equal(tilewise.matmul(a.T.copy().T, b.T.copy().T, **HOST), a @ b)


def test_a_batch_of_none():
    assert tilewise.matmul(integers((0, 3, 2)), integers((2, 4)), **HOST).shape == (0, 3, 4)


def test_accuracy_chooses_the_mode():
    a, b = integers((8, 8)), integers((8, 8), seed=2)
    np.testing.assert_array_equal(tilewise.matmul(a, b, accuracy=1e-2, **HOST), a @ b)
    with pytest.raises(tilewise.InvalidArgument, match="no mode of f32"):
        tilewise.matmul(a, b, accuracy=1e-30, **HOST)


def refusal(*arguments, error=tilewise.InvalidArgument, **options):
    with pytest.raises(error) as raised:
        tilewise.matmul(*arguments, **{**HOST, **options})
    return str(raised.value)


def test_shapes_that_do_not_fit_are_both_named():
    assert "a (3, 4) and b (5, 6)" in refusal(integers((3, 4)), integers((5, 6)))
    assert "(2, 3, 4)" in refusal(integers((2, 3, 4)), integers((3, 4, 5)))
    text = refusal(integers((3, 4)), integers((4, 5)), np.empty((5, 3), np.float32))
    assert "(5, 3)" in text and "(3, 5)" in text


def test_what_cannot_be_multiplied_is_refused():
    a, b = integers((4, 4)), integers((4, 4), seed=2)
    assert "one type" in refusal(a, b.astype(np.float64))
    assert "reshape" in refusal(a, b[0])
    assert "contiguous" in refusal(a[:, ::2], b[:2])
    assert "contiguous" in refusal(a[::-1], b)
    assert "no out" in refusal(a, b, beta=1)
    assert "math" in refusal(a, b, math="sloppy")
    assert "both given" in refusal(a, b, math="tf32", accuracy=1e-3)
    assert "uint8" in refusal(a.astype(np.uint8), b.astype(np.uint8), error=TypeError)
    assert "list" in refusal([[1.0]], b, error=TypeError)
    assert "big-endian" in refusal(a.astype(">f4"), b, error=TypeError)


def test_out_must_be_its_own_memory_and_writable():
    a, b = integers((4, 4)), integers((4, 4), seed=2)
    assert "overlap" in refusal(a, b, a)
    assert "overlap" in refusal(a, b, b.T)
    out = np.empty((4, 4), np.float32)
    out.flags.writeable = False
    assert "read-only" in refusal(a, b, out)
    one_for_all = np.lib.stride_tricks.as_strided(np.empty((4, 4), np.float32), (3, 4, 4), (0, 16, 4))
    assert "share memory" in refusal(integers((3, 4, 4)), b, one_for_all)


def test_arrays_of_the_cpu_need_a_device():
    with pytest.raises(tilewise.InvalidArgument, match="device="):
        tilewise.matmul(integers((2, 2)), integers((2, 2)))


class ByDlpack:
    """An array that has only DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_with_dlpack_alone():
    a, b, out = integers((3, 4)), integers((4, 5), seed=2), np.empty((3, 5), np.float32)
    expected = a @ b
    tilewise.matmul(ByDlpack(a), ByDlpack(b.T.copy().T), ByDlpack(out), **HOST)
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(TypeError, match="out is needed"):
        tilewise.matmul(ByDlpack(a), ByDlpack(b), **HOST)


def test_a_capsule_is_given_back():
    a, b = integers((3, 4)), integers((4, 5), seed=2)
    before = sys.getrefcount(a)
    for _ in range(10):
        tilewise.matmul(ByDlpack(a), b, np.empty((3, 5), np.float32), **HOST)
    assert sys.getrefcount(a) == before


def test_threads_multiply_at_the_same_time():
    a, b = integers((16, 16)), integers((16, 16), seed=2)
    expected, wrong = a @ b, []

    def multiply():
        for _ in range(50):
            if not np.array_equal(tilewise.matmul(a, b, **HOST), expected):
                wrong.append(1)

    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_warning_is_pythons(tmp_path):
    (tmp_path / "odd.db").write_text("this is no database")
    tilewise.configure(database=str(tmp_path / "odd.db"))
    try:
        with pytest.raises(tilewise.Error) as raised:
            tilewise.matmul(integers((2, 2)), integers((2, 2)), **HOST)
        assert raised.value.kind == "database"
    finally:
        tilewise.configure()


def test_options_that_are_none():
    with pytest.raises(TypeError, match="database, bundle"):
        tilewise.configure(databse="x")
    with pytest.raises(tilewise.InvalidArgument, match="serve, record"):
        tilewise.configure(on_miss="maybe")


def test_a_packed_operand_gives_the_same():
    on = {"device": "host:sm_90"}
    a, b = integers((20, 35), ml_dtypes.bfloat16), integers((33, 35), ml_dtypes.bfloat16, seed=2).T
    packed = tilewise.pack(b, 20, **on)
    assert packed.nbytes > 0 and packed.array is b
    for rows in (20, 7, 1):
        c = tilewise.matmul(a[:rows], packed)
        np.testing.assert_array_equal(c, tilewise.matmul(a[:rows], b, **on))
    assert "row-major out" in refusal(a, packed, np.empty((33, 20), ml_dtypes.bfloat16).T, device=None)
    with pytest.raises(tilewise.InvalidArgument, match="two dimensions"):
        tilewise.pack(b[None], 20, **on)


def test_options_that_are_none_are_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tilewise.configure(database=None, bundle=None, on_miss="record", missed_list=str(tmp_path / "missed.csv"))
    try:
        tilewise.matmul(integers((3, 4)), integers((4, 5)), **HOST)
    finally:
        tilewise.configure()
    assert not list(tmp_path.glob("None*"))


def test_the_child_of_a_fork_multiplies():
    # In its own process, because other libraries' threads do not survive a fork.
    code = """
import os, numpy as np, tilewise
a = np.ones((3, 4), np.float32)
tilewise.matmul(a, a.T, device="host")
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(tilewise.matmul(a, a.T, device="host"), a @ a.T) else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, timeout=120).returncode == 0


def test_configuring_while_others_multiply():
    a, b, wrong = integers((3, 4)), integers((4, 5), seed=2), []

    def multiply():
        for _ in range(20):
            if not np.array_equal(tilewise.matmul(a, b, **HOST), a @ b):
                wrong.append(1)

    threads = [threading.Thread(target=multiply) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        tilewise.configure()
    for thread in threads:
        thread.join()
    assert not wrong


def test_explain_and_prepare():
    found = tilewise.explain(100, 90, 80, dtype="bf16", device="host")
    assert found["match"] in ("predicted", "default") and found["why"]
    assert isinstance(found["configuration"], dict)
    assert (found["emulated_runs"], found["native_runs"]) == (0, 0)
    tilewise.prepare(8, 9, 10, device="host")
    with pytest.raises(tilewise.InvalidArgument, match="nn, nt"):
        tilewise.explain(1, 1, 1, layout="xx", device="host")
