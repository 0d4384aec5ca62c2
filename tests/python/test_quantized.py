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
