"""tilewise.torch.scaled_mm: the meaning of torch._scaled_mm. Skipped without PyTorch."""
import pytest

torch = pytest.importorskip("torch")
import tilewise
import tilewise.torch

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")
scaled_mm = tilewise.torch.scaled_mm


def numbers(*shape, device="cpu", seed=1, kind=torch.float8_e4m3fn):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-8, 9, shape, generator=generator) / 4).to(kind).to(device)


def scales(*shape, device="cpu", seed=1):
    """Powers of two: products with them are exact."""
    return 2.0 ** torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).to(device)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("by", ["tensor", "row and column", "row"])
def test_scales(device, kind, fast, by):
    a, b = numbers(32, 64, device=device, kind=kind), numbers(48, 64, device=device, seed=2, kind=kind).t()
    scale_a = scales(device=device) if by == "tensor" else scales(32, 1, device=device)
    scale_b = scales(1, 48, device=device, seed=2) if by == "row and column" else scales(1, device=device, seed=2)
    bias = scales(48, device=device, seed=3).bfloat16()
    exact = (a.float() * scale_a) @ (b.float() * scale_b)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        assert torch.equal(scaled_mm(a, b, scale_a, scale_b, out_dtype=dtype, use_fast_accum=fast), exact.to(dtype))
    found = scaled_mm(a, b, scale_a, scale_b, bias, out_dtype=torch.bfloat16, use_fast_accum=fast)
    assert torch.equal(found, (exact + bias.float()).bfloat16())
    # Stored by rows, too, and powers of two as their exponents.
    assert torch.equal(scaled_mm(a, b.contiguous(), scale_a, scale_b, bias, out_dtype=torch.bfloat16, use_fast_accum=fast), found)


@pytest.mark.parametrize("by", ["tiles", "columns"])
@pytest.mark.parametrize("k_first", [False, True])
def test_scales_of_blocks(device, by, k_first):
    m, n, k = 40, 200, 300
    a, b = numbers(m, k, device=device), numbers(n, k, device=device, seed=2).t()
    scale_a, scale_b = (scale.clamp(0.5, 2) for scale in (
        scales(m, 3, device=device), scales(3, 2 if by == "tiles" else n, device=device, seed=2)))
    if k_first:
        scale_a = scale_a.t().contiguous().t()
    else:
        scale_b = scale_b.t().contiguous().t()
    of_a = scale_a.repeat_interleave(128, 1)[:, :k]
    of_b = scale_b.repeat_interleave(128, 0)[:k]
    if by == "tiles":
        of_b = of_b.repeat_interleave(128, 1)[:, :n]
    exact = (a.double() * of_a) @ (b.double() * of_b)
    bias = scales(n, device=device, seed=3).bfloat16()
    assert torch.equal(scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.float32).double(), exact)
    for fast in (False, True):
        found = scaled_mm(a, b, scale_a, scale_b, bias, out_dtype=torch.bfloat16, use_fast_accum=fast)
        assert torch.equal(found, (exact + bias).bfloat16())


def test_a_result_of_8_bits_is_scaled_and_saturates(device):
    a, b, one = numbers(32, 64, device=device), numbers(16, 64, device=device, seed=2).t(), torch.ones(1, device=device)
    exact = a.float() @ b.float()
    assert scaled_mm(a, b, one, one).dtype == torch.float8_e4m3fn
    for factor in (0.5, 1000.0):
        found = scaled_mm(a, b, one, one, scale_result=torch.tensor(factor, device=device))
        assert torch.equal(found.float(), (exact * factor).clamp(-448, 448).to(torch.float8_e4m3fn).float())


def test_exponents_are_scales(device):
    if not hasattr(torch, "float8_e8m0fnu"):
        pytest.skip("a PyTorch without them")
    a, b = numbers(8, 16, device=device), numbers(16, 16, device=device, seed=2).t()
    of_a, of_b = scales(8, 1, device=device), scales(1, 16, device=device, seed=2)
    wanted = scaled_mm(a, b, of_a, of_b, out_dtype=torch.float32)
    assert torch.equal(scaled_mm(a, b, of_a.to(torch.float8_e8m0fnu), of_b.to(torch.float8_e8m0fnu), out_dtype=torch.float32), wanted)


def test_as_pytorch():
    a, b, one = numbers(16, 32), numbers(16, 32, seed=2).t(), torch.ones(())
    scale = torch.tensor(0.3)
    try:
        wanted = torch._scaled_mm(a, b, scale, one, out_dtype=torch.bfloat16)
    except (RuntimeError, NotImplementedError):
        pytest.skip("this PyTorch has none on the CPU")
    assert torch.equal(scaled_mm(a, b, scale, one, out_dtype=torch.bfloat16), wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch's own needs a GPU")
def test_blocks_as_pytorch_on_a_gpu():
    m, n, k = 256, 384, 512
    a, b = numbers(m, k, device="cuda"), numbers(n, k, device="cuda", seed=2).t()
    of_a = (torch.rand(k // 128, m, device="cuda") + 0.5).t()
    of_b = (torch.rand(n // 128, k // 128, device="cuda") + 0.5).t()
    try:
        wanted = torch._scaled_mm(a, b, of_a, of_b, out_dtype=torch.bfloat16)
    except (RuntimeError, ValueError, NotImplementedError):
        pytest.skip("this PyTorch or GPU has none")
    torch.testing.assert_close(scaled_mm(a, b, of_a, of_b, out_dtype=torch.bfloat16), wanted, rtol=8e-3, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch's own needs a GPU")
@pytest.mark.parametrize("rows", [False, True])
def test_as_pytorch_on_a_gpu(rows):
    a, b = numbers(64, 128, device="cuda"), numbers(256, 128, device="cuda", seed=2).t()
    of_a = torch.rand((64, 1) if rows else (), device="cuda") + 0.5
    of_b = torch.rand((1, 256) if rows else (), device="cuda") + 0.5
    wanted = torch._scaled_mm(a, b, of_a, of_b, out_dtype=torch.bfloat16)
    torch.testing.assert_close(scaled_mm(a, b, of_a, of_b, out_dtype=torch.bfloat16), wanted, rtol=8e-3, atol=1e-3)


def test_compiled(device):
    a, b, one = numbers(16, 32, device=device), numbers(16, 32, device=device, seed=2).t(), torch.ones((), device=device)
    compiled = torch.compile(lambda x, y: scaled_mm(x, y, one, one, out_dtype=torch.bfloat16) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, b), scaled_mm(a, b, one, one, out_dtype=torch.bfloat16) * 2)


def test_scales_of_blocks_compiled(device):
    a, b = numbers(16, 256, device=device), numbers(32, 256, device=device, seed=2).t()
    of_a, of_b = scales(16, 2, device=device), scales(2, 32, device=device, seed=2)
    compiled = torch.compile(lambda *x: scaled_mm(*x, out_dtype=torch.bfloat16), fullgraph=True, dynamic=True, backend="aot_eager")
    assert torch.equal(compiled(a, b, of_a, of_b), scaled_mm(a, b, of_a, of_b, out_dtype=torch.bfloat16))


def test_one_row_and_one_block(device):
    a, b = numbers(1, 128, device=device), numbers(256, 128, device=device, seed=2).t()
    of_b = scales(1, 2, device=device)
    found = scaled_mm(a, b, torch.ones(1, 1, device=device), of_b, out_dtype=torch.float32)
    assert torch.equal(found, a.float() @ b.float() * of_b.repeat_interleave(128, 1))


def quantized_by_definition(x, kind):
    """Numbers as float32, and scales. On the CPU: on a GPU PyTorch multiplies by reciprocals where it divides by numbers."""
    device, x, (m, k) = x.device, x.cpu(), x.shape
    blocks = torch.nn.functional.pad(x.float(), (0, -k % 128)).reshape(m, (k + 127) // 128, 128)
    of_blocks = (blocks.abs().nan_to_num(nan=0, posinf=torch.inf).amax(2) / torch.finfo(kind).max).clamp(min=2.0 ** -126)
    quotients = (blocks / of_blocks[:, :, None]).reshape(m, blocks.shape[1] * 128)[:, :k]
    return quotients.clamp(-torch.finfo(kind).max, torch.finfo(kind).max).to(kind).float().to(device), of_blocks.to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("by", ["tilewise", "torch"])
def test_quantize(device, dtype, kind, by):
    if by == "torch":
        tilewise.torch.on_cpu("torch")
    torch.manual_seed(1)
    for m, k in ((3, 128), (5, 130), (1, 1), (2, 1000), (9, 640), (0, 5), (4, 0)):
        x = (torch.randn(m, k, device=device) * 3).to(dtype)
        if m > 1 and k > 1:
            x[0, :128] = 0
            x[1, 1] = torch.nan
            x[m - 1, k - 1] = torch.inf
        numbers_of_x, of_blocks = tilewise.torch.quantize(x, kind)
        assert numbers_of_x.dtype == kind and of_blocks.shape == (m, (k + 127) // 128) and of_blocks.dtype == torch.float32
        wanted = quantized_by_definition(x, kind)
        assert torch.equal(of_blocks, wanted[1])
        assert torch.equal(numbers_of_x.float().nan_to_num(nan=777), wanted[0].nan_to_num(nan=777))
    # Leading dimensions, and rows that are not contiguous.
    x = torch.randn(2, 3, 400, device=device).to(dtype)
    both = tilewise.torch.quantize(x[..., :200])
    assert both[0].shape == (2, 3, 200) and both[1].shape == (2, 3, 2)
    assert torch.equal(both[0][1, 2:3].float(), quantized_by_definition(x[1, 2:3, :200], torch.float8_e4m3fn)[0])


def test_quantize_into_arrays(device):
    if device == "cpu":
        tilewise.torch.on_cpu("host")
    x = torch.randn(4, 300, device=device).bfloat16()
    to, by_blocks = torch.empty(4, 300, dtype=torch.float8_e4m3fn, device=device), torch.empty(3, 4, device=device).t()
    tilewise.quantize(x, to, by_blocks, device="host" if device == "cpu" else None)
    wanted = quantized_by_definition(x, torch.float8_e4m3fn)
    assert torch.equal(to.float(), wanted[0]) and torch.equal(by_blocks, wanted[1])
    for arguments, words in (((x, to, by_blocks[:, :2]), "they have .4, 3"), ((x, to[:2], by_blocks), "that of x is"),
                             ((x, x, by_blocks), "bf16 have no scales"), ((x.int(), to, by_blocks), "f32, f16 and bf16"),
                             ((x.t(), to.t(), by_blocks), "they have .300, 1")):
        with pytest.raises(tilewise.InvalidArgument, match=words):
            tilewise.quantize(*arguments, device="host" if device == "cpu" else None)


@pytest.mark.parametrize("by", ["tiles", "columns of blocks", "columns", "tensor"])
@pytest.mark.parametrize("way", ["tilewise", "torch"])
def test_activations_are_quantized_first(device, by, way):
    if way == "torch":
        tilewise.torch.on_cpu("torch")
    torch.manual_seed(1)
    x, b = torch.randn(20, 300, device=device).bfloat16(), numbers(144, 300, device=device, seed=2).t()
    shape = {"tiles": (3, 2), "columns of blocks": (3, 144), "columns": (1, 144), "tensor": ()}[by]
    of_b = torch.rand(shape, device=device) + 0.5
    a, of_a = quantized_by_definition(x, torch.float8_e4m3fn)
    left = a * of_a.repeat_interleave(128, 1)[:, :300]
    right = of_b if by in ("columns", "tensor") else of_b.repeat_interleave(128, 0)[:300]
    if by == "tiles":
        right = right.repeat_interleave(128, 1)[:, :144]
    exact, most = left.double() @ (b.double() * right), left.double().abs() @ (b.double() * right).abs()
    # sm_90's tensor cores keep 14 bits of sums of 8-bit floats.
    assert ((scaled_mm(x, b, None, of_b, out_dtype=torch.float32).double() - exact).abs() <= 2 ** -12 * most).all()
    y = scaled_mm(x, b, None, of_b)
    assert y.dtype == torch.bfloat16 and ((y.double() - exact).abs() <= 2 ** -8 * exact.abs() + 2 ** -12 * most).all()
    with pytest.raises(ValueError, match="mat_b is of torch.float32"):
        scaled_mm(x, b.float(), None, of_b)


@pytest.mark.parametrize("arguments, words", [
    (lambda a, b, one: (a, b, torch.ones(3), one), "scale_a has the shape .3,.; it has one element, or the shape .8, 1"),
    (lambda a, b, one: (a, b, one, torch.ones(16, 1)), "scale_b has the shape"),
    (lambda a, b, one: (a, b, torch.ones(8, 2), torch.ones(2, 1)), "scale_a has the shape"),
    (lambda a, b, one: (torch.cat([a] * 20, 1), torch.cat([b] * 20), torch.ones(8, 3), torch.ones(2, 12)),
     "scale_b has the shape .2, 12.; with scales of blocks"),
    (lambda a, b, one: (a, b, one, one, torch.ones(8)), "bias has the shape"),
    (lambda a, b, one: (a, b, one, one, None, torch.ones(2)), "scale_result has the shape"),
    (lambda a, b, one: (a.float(), b, one, one), "one 8-bit float"),
    (lambda a, b, one: (a, b.t(), one, one), "takes .m, k. and .k, n.")])
def test_bad_arguments_are_refused(arguments, words):
    a, b = numbers(8, 16), numbers(16, 12, seed=2)
    with pytest.raises(ValueError, match=words):
        scaled_mm(*arguments(a, b, torch.ones(())))
