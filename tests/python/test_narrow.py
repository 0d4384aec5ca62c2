"""Products whose b has fewer bits than a: int8, e4m3 and tilewise.Int4. Skipped without PyTorch."""
import pytest

torch = pytest.importorskip("torch")
import tilewise

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")


def whole(low, high, *shape, device, seed=1):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)).to(device)


def product(a, b, **more):
    return tilewise.matmul(a, b, device=None if a.is_cuda else "host", **more)


def packed(numbers):
    """Two in a byte along the last dimension, the first in the low bits."""
    return ((numbers[..., 0::2] & 15) | (numbers[..., 1::2] & 15) << 4).to(torch.uint8)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("of_b", ["i8", "e4m3", "i4"])
@pytest.mark.parametrize("scaled", [False, True])
def test_products(device, kind, of_b, scaled):
    a = whole(-4, 5, 6, 256, device=device).to(kind)
    w = whole(-8, 8, 40, 256, device=device, seed=2)
    if of_b == "i8":
        b = w.to(torch.int8).T
    elif of_b == "e4m3":
        b = w.to(torch.float8_e4m3fn).T
    else:
        b = tilewise.Int4(packed(w)).T
    s = 2.0 ** whole(-2, 3, 2, 40, device=device, seed=3)
    exact = w.float() * s.repeat_interleave(128, 0).T if scaled else w.float()
    epilogue = {"epilogue": "acc(s[k/128,j])", "s": s} if scaled else {}
    found = product(a, b, **epilogue)
    assert found.dtype == kind
    assert torch.equal(found, (a.double() @ exact.T.double()).to(kind))


def test_batches_and_slices(device):
    a = whole(-4, 5, 3, 5, 64, device=device).half()
    w = whole(-8, 8, 3, 24, 64, device=device, seed=2)
    exact = torch.matmul(a.float(), w.float().mT).half()
    assert torch.equal(product(a, tilewise.Int4(packed(w)).T), exact)
    assert torch.equal(product(a[1], tilewise.Int4(packed(w)[1]).T), exact[1])


def test_broadcast_batches(device):
    a = whole(-4, 5, 2, 3, 5, 64, device=device).half()
    w = whole(-8, 8, 2, 1, 24, 64, device=device, seed=2)
    exact = torch.matmul(a.float(), w.float().mT).half()
    assert torch.equal(product(a, tilewise.Int4(packed(w)).T), exact)


def test_one_output(device):
    a, w = whole(-4, 5, 5, 64, device=device).half(), whole(-8, 8, 1, 64, device=device, seed=2)
    assert torch.equal(product(a, tilewise.Int4(packed(w)).T), (a.float() @ w.float().T).half())


def test_int4_states_its_shape(device):
    b = tilewise.Int4(packed(whole(-8, 8, 40, 256, device=device)))
    assert b.shape == (40, 256) and b.T.shape == (256, 40) and b.T.T.shape == (40, 256)
    assert b.array.dtype == torch.int8
    with pytest.raises(AttributeError):
        b.transposed = True


def test_refusals(device):
    a = torch.zeros(4, 16, device=device, dtype=torch.bfloat16)
    b = torch.zeros(16, 8, device=device, dtype=torch.int8)
    with pytest.raises(tilewise.InvalidArgument, match="a is of bf16 and b of f16"):
        product(a, b.half())
    with pytest.raises(tilewise.InvalidArgument, match="one type, or b is of i4, i8, e4m3"):
        product(a, b.float())
    with pytest.raises(TypeError, match="Int4"):
        product(a, tilewise.Int4(b.float()))
    with pytest.raises(tilewise.InvalidArgument, match="columns"):
        product(a, b, out=torch.zeros(8, 4, device=device, dtype=torch.bfloat16).T)


def test_explain_names_the_type(device):
    found = tilewise.explain(4, 64, 128, layout="nt", dtype="bf16", dtype_b="i4", device="host" if device == "cpu" else None)
    assert found["problem"]["dtype_b"] == "i4" and found["kernel_template"] in ("narrow", "wgmma")
