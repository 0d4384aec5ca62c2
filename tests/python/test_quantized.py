"""tilewise.torch.QuantizedLinear and quantize_. Skipped without PyTorch."""
import copy

import pytest

torch = pytest.importorskip("torch")
import tilewise.torch
from tilewise.torch import QuantizedLinear, quantize_

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")
KINDS = [("i4", None), ("i4", 32), ("i8", None), ("i8", 64), ("e4m3", None)]


def layer_of(inputs, outputs, kind, device, bias=True):
    torch.manual_seed(1)
    return torch.nn.Linear(inputs, outputs, bias=bias).to(kind).to(device)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weight, group", KINDS)
@pytest.mark.parametrize("by", ["tilewise", "torch"])
def test_multiplies_the_rounded_weights(device, kind, weight, group, by):
    if by == "torch":
        tilewise.torch.on_cpu("torch")
    linear = layer_of(200, 48, kind, device, bias=weight != "e4m3")
    layer = QuantizedLinear(linear, weight, group)
    x = torch.randn(3, 5, 200, device=device).to(kind)
    exact = x.float() @ layer.dequantized().T
    if layer.bias is not None:
        exact = exact + layer.bias.float()
    y = layer(x)
    assert y.dtype == kind and y.shape == (3, 5, 48)
    assert torch.allclose(y.float(), exact, rtol=2 ** -8 if kind == torch.bfloat16 else 2 ** -10, atol=1e-3)


@pytest.mark.parametrize("weight, group", KINDS)
def test_weights_are_the_nearest_ones(weight, group):
    linear = layer_of(96, 8, torch.bfloat16, "cpu")
    layer = QuantizedLinear(linear, weight, group)
    off = (layer.dequantized() - linear.weight.float()).abs()
    scale = layer.scales.float().T.repeat_interleave(layer.group, 1)[:, :96] if layer.group else layer.scales.float()[:, None]
    # Half a step; of e4m3 a sixteenth of a number. The largest ones may lie behind the last step, whose scale is rounded.
    step = scale * 0.5 if weight != "e4m3" else torch.maximum(linear.weight.float().abs() / 16, scale * 2 ** -10)
    assert (off <= step * 1.001 + linear.weight.float().abs() * 2 ** -8).all()


def test_bytes_are_those_that_the_weights_need():
    layer = QuantizedLinear(layer_of(4096, 64, torch.bfloat16, "cpu"), "i4", 128)
    bits = 8 * (layer.weight.nbytes + layer.scales.nbytes)
    assert bits <= 1.02 * 4096 * 64 * (4 + 16 / 128)


def test_weights_of_zeros_stay_zeros():
    linear = layer_of(64, 8, torch.float16, "cpu")
    torch.nn.init.zeros_(linear.weight)
    for weight, group in KINDS:
        assert (QuantizedLinear(linear, weight, group).dequantized() == 0).all()


def test_quantize_replaces_layers():
    model = torch.nn.Sequential(layer_of(64, 32, torch.bfloat16, "cpu"), torch.nn.ReLU(),
                                torch.nn.Sequential(layer_of(32, 32, torch.bfloat16, "cpu")), layer_of(32, 8, torch.bfloat16, "cpu"))
    tilewise.torch.swap_linear(model[2])
    assert quantize_(model, keep=lambda name, layer: name == "3") == 2
    assert type(model[0]) is QuantizedLinear and type(model[2][0]) is QuantizedLinear and type(model[3]) is torch.nn.Linear
    other = copy.deepcopy(model)
    other.load_state_dict(model.state_dict())
    x = torch.randn(2, 64).bfloat16()
    assert torch.equal(other(x), model(x))
    assert "weight='i4', group=128" in repr(model)


def test_compile_keeps_one_operator():
    layer = QuantizedLinear(layer_of(64, 8, torch.bfloat16, "cpu"), "i8")
    x = torch.randn(2, 64).bfloat16()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), layer(x))


def test_refusals():
    linear = layer_of(64, 8, torch.bfloat16, "cpu")
    for arguments, words in ((("i3",), "i4, i8, e4m3"), (("i4", 48), "power of two from 32"), (("i4", 0), "power of two"),
                             (("i8", 16), "or 0")):
        with pytest.raises(ValueError, match=words):
            QuantizedLinear(linear, *arguments)
    with pytest.raises(ValueError, match="float16 or bfloat16"):
        QuantizedLinear(linear.float())
    with pytest.raises(ValueError, match="even"):
        QuantizedLinear(layer_of(63, 8, torch.bfloat16, "cpu"))
    layer = QuantizedLinear(layer_of(64, 8, torch.bfloat16, "cpu"))
    for x in (torch.randn(2, 32).bfloat16(), torch.randn(2, 64)):
        with pytest.raises(ValueError, match="64 inputs"):
            layer(x)


AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def words_of(numbers, order=range(8), bits=4):
    """Neighbours of a row in a word, from the lowest bits on those of `order`."""
    each = 32 // bits
    places = [numbers[:, nth::each].long() << bits * shift for shift, nth in enumerate(list(order)[:each])]
    return (sum(places) - (sum(places) >> 31 << 32)).to(torch.int32)


def stored_zeros(zeros, form="gptq", bits=4):
    """Files of the first format have whole words less 0x11111111, of 8 bits less 0x01010101."""
    return words_of(zeros, bits=bits) - (0x11111111 if bits == 4 else 0x01010101) * int(form == "gptq")


def layer_of_integers(k, n, group, kind=torch.float16, bits=4):
    """Numbers (k, n) and zero points (k / group, n) without a sign, scales, and the weights that they mean."""
    torch.manual_seed(3)
    numbers, zeros = torch.randint(0, 1 << bits, (k, n)), torch.randint(0, 1 << bits, (k // group, n))
    scales = ((torch.rand(k // group, n) * 0.1 + 0.01) * 2 ** (4 - bits)).to(kind)
    meant = (numbers - zeros.repeat_interleave(group, 0)) * scales.float().repeat_interleave(group, 0)
    return numbers, zeros, scales, meant.T


def check_layer(layer, meant, device, tolerance=2 ** -9):
    assert torch.equal(layer.dequantized(), meant)
    layer = layer.to(device)
    x = torch.randn(5, meant.shape[1], device=device).to(layer.scales.dtype)
    exact = x.float() @ meant.to(device).T + (layer.bias.float() if layer.bias is not None else 0)
    assert torch.allclose(layer(x).float(), exact, rtol=tolerance, atol=2e-3)


@pytest.mark.parametrize("form", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("group, bits", [(32, 4), (128, 4), (256, 4), (64, 8), (256, 8)])
@pytest.mark.parametrize("by", ["tilewise", "torch"])
def test_layers_of_gptq_files(device, form, group, bits, by):
    if by == "torch":
        tilewise.torch.on_cpu("torch")
    numbers, zeros, scales, meant = layer_of_integers(256, 48, group, bits=bits)
    bias = torch.randn(48).half() if group == 32 else None
    layer = QuantizedLinear.from_gptq(words_of(numbers.T, bits=bits).T.contiguous(), stored_zeros(zeros, form, bits), scales, bias=bias,
                                      checkpoint_format=form, bits=bits)
    assert layer.kind == f"i{bits}" and layer.order is None and layer.in_features == 256 and layer.out_features == 48
    check_layer(layer, meant, device)


@pytest.mark.parametrize("by", ["tilewise", "torch"])
def test_inputs_of_groups_in_another_order(device, by):
    if by == "torch":
        tilewise.torch.on_cpu("torch")
    numbers, zeros, scales, _ = layer_of_integers(128, 16, 32)
    groups = torch.arange(128)[torch.randperm(128)] // 32
    meant = ((numbers - zeros[groups]) * scales.float()[groups]).T
    layer = QuantizedLinear.from_gptq(words_of(numbers.T).T, stored_zeros(zeros), scales, g_idx=groups.int())
    assert layer.order is not None
    check_layer(layer, meant, device)
    in_order = QuantizedLinear.from_gptq(words_of(numbers.T).T, stored_zeros(zeros), scales, g_idx=torch.arange(128) // 32)
    assert in_order.order is None


@pytest.mark.parametrize("by", ["tilewise", "torch"])
def test_layers_of_awq_files(device, by):
    if by == "torch":
        tilewise.torch.on_cpu("torch")
    numbers, zeros, scales, meant = layer_of_integers(256, 32, 64)
    layer = QuantizedLinear.from_awq(words_of(numbers, AWQ_ORDER), words_of(zeros, AWQ_ORDER), scales, bias=torch.randn(32).half())
    check_layer(layer, meant, device)


def test_zero_points_in_the_middle_are_none():
    numbers, zeros, scales, _ = layer_of_integers(64, 16, 32)
    layer = QuantizedLinear.from_awq(words_of(numbers, AWQ_ORDER), words_of(torch.full_like(zeros, 8), AWQ_ORDER), scales)
    assert layer.zeros is None


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_zero_points_use_all_numbers(device, kind):
    linear = layer_of(200, 16, kind, device)
    with torch.no_grad():
        linear.weight.abs_().add_(0.01)
    even, from_least = QuantizedLinear(linear, "i4", 32), QuantizedLinear(linear, "i4", 32, zero_points=True)
    weight = linear.weight.float()
    assert (from_least.dequantized() - weight).abs().max() < 0.6 * (even.dequantized() - weight).abs().max()
    step = from_least.scales.float().T.repeat_interleave(32, 1)[:, :200]
    assert ((from_least.dequantized() - weight).abs() <= step * 1.02).all()
    x = torch.randn(3, 200, device=device).to(kind)
    exact = x.float() @ from_least.dequantized().T + linear.bias.float()
    assert torch.allclose(from_least(x).float(), exact, rtol=2 ** -8, atol=2e-3)


@pytest.mark.parametrize("by", ["tilewise", "torch"])
def test_zero_points_under_autocast_and_without_rows(device, by):
    if by == "torch":
        tilewise.torch.on_cpu("torch")
    layer = QuantizedLinear(layer_of(64, 16, torch.bfloat16, device), "i4", 32, zero_points=True)
    x = torch.randn(3, 64, device=device).bfloat16()
    plain = layer(x)
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(layer(x), plain)
    assert layer(x[:0]).shape == (0, 16)


def test_zero_points_are_exact_in_float32(device):
    layer = QuantizedLinear(layer_of(1024, 16, torch.float16, device, bias=False), "i4", 32, zero_points=True)
    x = (1 + torch.rand(3, 1024, device=device) / 8).half()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        y = layer(x).double()
    finally:
        torch.set_float32_matmul_precision(before)
    exact = x.double() @ layer.dequantized().double().T
    assert torch.allclose(y, exact, rtol=2 ** -10, atol=1e-3)


def test_layers_with_zero_points_are_one_operator_and_have_a_state():
    model = torch.nn.Sequential(layer_of(64, 8, torch.bfloat16, "cpu"))
    assert quantize_(model, "i4", 32, zero_points=True) == 1
    x = torch.randn(2, 64).bfloat16()
    assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), model(x))
    other = copy.deepcopy(model)
    other[0].zeros.zero_()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x), model(x))


@pytest.mark.parametrize("arguments", [("i4", 32), ("i4", 32, True), ("i8", None), ("i8", 64), ("e4m3", None)])
def test_rows_do_not_depend_on_the_batch(device, arguments):
    layer = QuantizedLinear(layer_of(256, 32, torch.bfloat16, device), *arguments)
    x = torch.randn(70, 256, device=device).bfloat16()
    with tilewise.torch.batch_invariant():
        whole = layer(x)
        for row in (0, 5, 69):
            assert torch.equal(layer(x[row:row + 1])[0], whole[row])
        assert torch.equal(layer(x[3:40]), whole[3:40])


def test_refusals_of_other_files():
    numbers, zeros, scales, _ = layer_of_integers(128, 16, 32)
    packed, packed_zeros = words_of(numbers.T).T, words_of(zeros)
    for arguments, words in (((packed.long(), packed_zeros, scales), "matrices of int32"),
                             ((packed, packed_zeros, scales[:3]), "a power of two from 32"),
                             ((packed, packed_zeros, scales.float()), "float16 or bfloat16"),
                             ((packed, packed_zeros, scales, torch.zeros(128)), "equally many"),
                             ((packed, packed_zeros, scales, None, None, "marlin"), "gptq or gptq_v2"),
                             ((packed, packed_zeros, scales, None, None, "gptq", 3), "4 or 8")):
        with pytest.raises(ValueError, match=words):
            QuantizedLinear.from_gptq(*arguments)
    with pytest.raises(ValueError, match="of i4"):
        QuantizedLinear(layer_of(64, 8, torch.bfloat16, "cpu"), "i8", zero_points=True)
