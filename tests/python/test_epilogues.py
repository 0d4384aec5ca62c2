"""Epilogues of products of NumPy arrays on the CPU."""
import numpy as np
import pytest

import tilewise

ml_dtypes = pytest.importorskip("ml_dtypes")
HOST = {"device": "host"}
pytestmark = pytest.mark.filterwarnings("ignore:tilewise")


def integers(shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def test_bias_activation_and_further_results():
    a, b, bias, residual = integers((5, 7)), integers((7, 6), seed=2), integers(6, seed=3), integers((5, 6), seed=4)
    before, sums = np.empty((5, 6), np.float32), np.empty(6, np.float32)
    c = tilewise.matmul(a, b, epilogue="x = acc * s + bias[j]; u[i,j] = x; g[j] = sum(x); max(x, 0) + r[i,j]",
                        bias=bias, r=residual, u=before, g=sums, s=2, **HOST)
    x = 2 * (a @ b) + bias
    np.testing.assert_array_equal(before, x)
    np.testing.assert_array_equal(sums, x.sum(axis=0))
    np.testing.assert_array_equal(c, np.maximum(x, 0) + residual)


def test_arrays_have_any_type_and_padded_rows():
    a, b = integers((5, 7), ml_dtypes.bfloat16), integers((7, 6), ml_dtypes.bfloat16, seed=2)
    bias = integers(6, seed=3)  # float32
    wide = np.zeros((5, 9), np.float64)
    c = tilewise.matmul(a, b, epilogue="x = acc + bias[j]; u[i,j] = x; x", bias=bias, u=wide[:, :6], **HOST)
    x = a.astype(np.float32) @ b.astype(np.float32) + bias
    np.testing.assert_array_equal(wide[:, :6], x)
    assert not wide[:, 6:].any()
    np.testing.assert_array_equal(c.astype(np.float32), x.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("shape", [(6,), (1, 6), (3, 1, 6), (1, 4, 6), (3, 4, 6)])
def test_leading_dimensions_are_broadcast(shape):
    a, b, bias = integers((3, 4, 5, 7)), integers((3, 4, 7, 6), seed=2), integers(shape, seed=3)
    c = tilewise.matmul(a, b, epilogue="acc + bias[j]", bias=bias, **HOST)
    np.testing.assert_array_equal(c, a @ b + bias[..., None, :])


def test_rows_and_scalars_of_a_batch_that_shares_b():
    a, b = integers((3, 5, 7)), integers((7, 6), seed=2)
    scale, by_row = integers(3, seed=3), integers((3, 5), seed=4)
    sums = np.empty((3, 6), np.float32)
    c = tilewise.matmul(a, b, epilogue="x = acc * s + t[i]; g[j] = sum(x); x", s=scale, t=by_row, g=sums, **HOST)
    x = (a @ b) * scale[:, None, None] + by_row[..., None]
    np.testing.assert_array_equal(c, x)
    np.testing.assert_array_equal(sums, x.sum(axis=1))


def test_without_rows_sums_are_zeros():
    sums = np.full(6, 7, np.float32)
    tilewise.matmul(np.empty((0, 3), np.float32), integers((3, 6)), epilogue="g[j] = sum(acc); acc", g=sums, **HOST)
    assert not sums.any()


@pytest.mark.parametrize("arguments, words", [
    (dict(epilogue="acc + bias[j]"), "operand bias of the epilogue is missing"),
    (dict(epilogue="relu(acc", bias=1), "the end at character 9"),
    (dict(epilogue="relu(acc)", bias=1), "no operand 'bias'; it has none"),
    (dict(epilogue="acc + bias[j]", bias=3), "bias is a number"),
    (dict(epilogue="acc + bias[j]", bias=np.ones(5, np.float32)), r"bias has the shape \(5,\)"),
    (dict(epilogue="acc + bias[j]", bias=np.ones(12, np.float32)[::2]), "the last must be 1"),
    (dict(epilogue="acc + r[i,j]", r=np.ones((6, 5), np.float32).T), "the last must be 1"),
    (dict(epilogue="acc + bias:f64[j]", bias=np.ones(6, np.float32)), "states f64"),
    (dict(epilogue="u[i,j] = acc; acc", u=np.broadcast_to(np.float32(1), (5, 6))), "strides|read-only"),
    (dict(epilogue="acc", out=np.empty((6, 5), np.float32).T), "stored by columns")])
def test_bad_operands_are_refused(arguments, words):
    a, b = integers((5, 7)), integers((7, 6), seed=2)
    with pytest.raises(tilewise.Error, match=words):
        tilewise.matmul(a, b, **arguments, **HOST)


def test_operands_need_an_epilogue():
    a, b = integers((5, 7)), integers((7, 6), seed=2)
    with pytest.raises(TypeError, match="bias"):
        tilewise.matmul(a, b, bias=1, **HOST)


def test_all_products_of_a_call_are_checked():
    """A loop of products writes nothing twice, and reads nothing that it has written."""
    a, b = integers((2, 4, 5, 7)), integers((7, 6), seed=2)
    same = np.broadcast_to(np.zeros((1, 4, 6), np.float32), (2, 4, 6))
    same.flags.writeable = True
    with pytest.raises(tilewise.Error, match="share memory"):
        tilewise.matmul(a, b, epilogue="g[j] = sum(acc); acc", g=same, **HOST)
    out = np.zeros((2, 4, 5, 6), np.float32)
    with pytest.raises(tilewise.Error, match="overlaps out"):
        tilewise.matmul(a, b, out, epilogue="acc + r[i,j]", r=out[:1], **HOST)
    tilewise.matmul(a, b, out, epilogue="acc + r[i,j]", r=out, **HOST)
    np.testing.assert_array_equal(out, a @ b)


def test_functions_are_traced():
    from tilewise import epilogues as e

    def layer(acc, bias, by_row, residual, s):
        x = acc * s + bias
        y = e.where(x > 0, x, -x / 2) + by_row
        return e.maximum(y, residual) - 1, {"u": x, "g": e.column_sum(y)}

    a, b, bias = integers((5, 7)), integers((7, 6), seed=2), integers(6, seed=3)
    by_row, residual = integers((5, 1), seed=4), integers((5, 6), seed=5)
    before, sums = np.empty((5, 6), np.float32), np.empty(6, np.float32)
    c = tilewise.matmul(a, b, epilogue=layer, bias=bias, by_row=by_row, residual=residual, s=2.0, u=before, g=sums, **HOST)
    x = 2 * (a @ b) + bias
    y = np.where(x > 0, x, -x / 2) + by_row
    np.testing.assert_array_equal(before, x)
    np.testing.assert_array_equal(sums, y.sum(axis=0))
    np.testing.assert_array_equal(c, np.maximum(y, residual) - 1)


def test_traced_operands_may_have_any_names_and_shapes_that_broadcast():
    a, b = integers((5, 7)), integers((7, 6), seed=2)
    row_scale, scale, bias = integers((5, 1), seed=3), integers(6, seed=4), integers((1, 6), seed=5)
    c = tilewise.matmul(a, b, epilogue=lambda acc, row_scale, scale, bias, s, rows: acc * row_scale + scale * s + bias + rows,
                        row_scale=row_scale, scale=scale, bias=bias, s=2.0, rows=row_scale, **HOST)
    np.testing.assert_array_equal(c, (a @ b) * row_scale + scale * 2 + bias + row_scale)


def test_traced_functions_share_their_parts():
    from tilewise import epilogues as e

    def chain(acc, t0):
        x = acc * t0
        for _ in range(9):
            x = x * x + 0.5
            x = x / (1 + e.abs(x))
        return x

    text, _ = e.trace(chain, {"t0": 0.25})
    assert len(text) < 1000 and text.count(";") >= 9
    a, b = integers((3, 4)), integers((4, 5), seed=2)
    x = (a @ b) * np.float32(0.25)
    for _ in range(9):
        x = x * x + np.float32(0.5)
        x = x / (1 + np.abs(x))
    np.testing.assert_array_equal(tilewise.matmul(a, b, epilogue=chain, t0=0.25, **HOST), x)


def test_an_operand_with_the_name_of_an_argument_is_refused():
    with pytest.raises(tilewise.Error, match="operand alpha of the epilogue has the name of an argument"):
        tilewise.matmul(integers((2, 3)), integers((3, 2)), epilogue="acc * alpha", alpha=2, **HOST)


@pytest.mark.parametrize("on", ["host", "torch"])
def test_torch_on_the_cpu_has_the_same_arithmetic(on):
    torch = pytest.importorskip("torch")
    import tilewise.torch

    tilewise.torch.on_cpu(on)
    try:
        a, b = torch.tensor([[256.0, 0.5]]).bfloat16(), torch.tensor([[1.0], [1.0]]).bfloat16()
        y, more = tilewise.torch.matmul(a, b, epilogue="n:i8[i,j] = acc *\n 1.5; f:e4m3[i,j] = acc * 100; acc - 256")
        assert y.item() == 0.5 and more["n"].item() == 127 and more["f"].float().item() == 448
        zero = torch.zeros(1, 1)
        assert str(tilewise.torch.matmul(-zero, zero + 1, epilogue="max(acc, 0)").item()) == "0.0"
    finally:
        tilewise.torch.on_cpu("torch")


@pytest.mark.parametrize("function, words", [
    (lambda acc, bias: acc if acc > bias else bias, "use where"),
    (lambda x: x, "acc, not x"),
    (lambda acc, missing: acc, "operand missing"),
    (lambda acc, bias: acc + "bias", "cannot be traced"),
    (lambda acc, bias: np.exp(acc), "cannot be traced"),
    (lambda acc, bias: float("nan") * acc, "cannot be traced")])
def test_functions_that_cannot_be_traced_are_refused(function, words):
    a, b, bias = integers((5, 7)), integers((7, 6), seed=2), integers(6, seed=3)
    with pytest.raises(tilewise.Error, match=words):
        tilewise.matmul(a, b, epilogue=function, bias=bias, **HOST)
    with pytest.raises(TypeError, match="a text, a function or None"):
        tilewise.matmul(a, b, epilogue=3, **HOST)


def test_epilogues_are_tuned_and_prepared(database):
    epilogue = "relu(acc + bias[j])"
    [row] = tilewise.tune((24, 16, 8), epilogue=epilogue, device="host", budget=20, max_evaluations=1, templates="naive",
                          progress=False)
    assert row["epilogue"] == tilewise.explain(24, 16, 8, epilogue=epilogue, device="host")["problem"]["epilogue"]
    assert tilewise.explain(24, 16, 8, epilogue=epilogue, device="host")["match"] == "exact"
    assert tilewise.explain(24, 16, 8, device="host")["match"] != "exact"
    tilewise.prepare(24, 16, 8, epilogue=epilogue, device="host")
