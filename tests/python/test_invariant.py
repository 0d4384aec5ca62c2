"""Batch-invariant products of arrays."""
import numpy
import pytest

import tilewise

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")


def operands(rows, n=21, k=70, dtype=numpy.float32):
    generator = numpy.random.default_rng(7)
    return (generator.standard_normal((rows, k)).astype(dtype), generator.standard_normal((k, n)).astype(dtype))


def product(a, b, out=None, **options):
    return tilewise.matmul(a, b, out, device="host", invariant=True, **options)


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
def test_rows_have_the_same_bits_in_every_batch(dtype):
    a, b = operands(24, dtype=dtype)
    whole = product(a, b)
    assert numpy.allclose(whole, a @ b, rtol=1e-4, atol=1e-4)
    for first, m in [(0, 1), (3, 1), (5, 2), (7, 17), (23, 1)]:
        rows = a[first:first + m]
        assert (product(rows, b) == whole[first:first + m]).all()
        assert (product(numpy.asfortranarray(rows), b) == whole[first:first + m]).all()
    assert (product(a.reshape(4, 6, -1), b).reshape(whole.shape) == whole).all()
    assert (product(numpy.stack([a, a]), numpy.stack([b, b]))[1] == whole).all()
    packed = tilewise.pack(b, 24, device="host", invariant=True)
    assert (product(a[2:9], packed) == whole[2:9]).all()


def test_what_has_no_invariant_form_is_refused():
    a, b = operands(6)
    with pytest.raises(tilewise.InvalidArgument, match="stored by columns"):
        product(a, b, numpy.zeros((21, 6), numpy.float32).T)
    with pytest.raises(tilewise.InvalidArgument, match="accuracy chooses the mode by the size"):
        product(a, b, accuracy=1e-3)


def test_the_order_is_explained_and_has_a_fingerprint(database):
    assert tilewise.explain(3, 21, 70, device="host", invariant=True)["order"] == "fused"
    problems = [{"n": 21, "k": 70}, {"n": 24, "k": 72, "dtype": "bf16", "layout": "nt"}]
    digits = tilewise.fingerprint(problems, device="host")
    assert len(digits) == 32 and int(digits, 16) >= 0
    assert tilewise.fingerprint([*reversed(problems), dict(problems[0], m=5)], device="host") == digits
    assert tilewise.fingerprint(problems[:1], device="host") != digits
    narrow = {"n": 48, "k": 64, "layout": "nt", "dtype": "bf16", "dtype_b": "i4", "epilogue": "acc(s[k/32,j])"}
    assert tilewise.fingerprint([narrow], device="host") != tilewise.fingerprint([dict(narrow, dtype_b="i8")], device="host")
    row = {**problems[0], "m": 1, "order": "fused", "epilogue": ""}  # as in a row of tune()
    assert tilewise.fingerprint([row], device="host") == tilewise.fingerprint(problems[:1], device="host")
    with pytest.raises(tilewise.InvalidArgument, match="has n and k"):
        tilewise.fingerprint([{"n": 3}], device="host")
    with pytest.raises(tilewise.InvalidArgument, match="has n and k"):
        tilewise.fingerprint([{"n": 3, "k": 4, "rows": 5}], device="host")
    tilewise.prepare(1, 21, 70, last_m=3, device="host", invariant=True)


def test_tuned_products_keep_their_order(database):
    rows = tilewise.tune([(2, 21, 70), (9, 21, 70)], device="host", budget=2, max_evaluations=2, invariant=True,
                         progress=False)
    assert [row["order"] for row in rows] == ["fused", "fused"]
    assert tilewise.explain(9, 21, 70, device="host", invariant=True)["match"] == "exact"
    a, b = operands(9)
    assert (product(a[:2], b) == product(a, b)[:2]).all()


def test_a_range_is_covered_in_its_order(database):
    document = tilewise.cover(layout="nt", m="1..8", n=16, k=64, device="host", budget=4, invariant=True, progress=False)
    assert document["orders"][0]["order"] == "fused"
    assert {point["problem"]["order"] for point in document["points"]} == {"fused"}
