"""The operator, Linear and swap_linear() of tilewise.torch, and tensors as operands. Skipped without PyTorch."""
import copy
import threading

import pytest

torch = pytest.importorskip("torch")
import torch.fx.experimental.proxy_tensor
import tilewise
import tilewise.torch

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")


def integers(*shape, device="cpu", dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype).to(device)


def options(device):
    return {"device": "host"} if device == "cpu" else {}


class WithoutExchange(torch.Tensor):
    """A tensor whose type lacks DLPack's C interface, like those of older versions."""

    __dlpack_c_exchange_api__ = None


@pytest.mark.parametrize("kind", [torch.Tensor, WithoutExchange])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
                                   torch.float8_e4m3fn, torch.float8_e5m2])
def test_tensors_are_operands(device, dtype, kind):
    a, b = integers(5, 7, device=device, dtype=dtype), integers(6, 7, device=device, dtype=dtype, seed=2).t()
    c = tilewise.matmul(a.as_subclass(kind), b.as_subclass(kind), **options(device))
    assert isinstance(c, torch.Tensor) and c.device.type == device
    assert torch.equal(c.double().as_subclass(torch.Tensor), a.double() @ b.double())


def test_out_and_broadcast(device):
    a, b = integers(3, 5, 7, device=device), integers(7, 6, device=device, seed=2)
    out = torch.empty(3, 6, 5, device=device).mT
    assert tilewise.matmul(a, b, out, **options(device)) is out
    assert torch.equal(out, a @ b)


def test_a_gradient_is_not_lost_in_silence(device):
    a, b = integers(3, 3, device=device).requires_grad_(), integers(3, 3, device=device)
    with pytest.raises(ValueError, match="a requires a gradient"):
        tilewise.matmul(a, b, **options(device))
    with torch.no_grad():
        assert torch.equal(tilewise.matmul(a, b, **options(device)), a @ b)


def test_the_operator_passes_pytorchs_own_checks(device):
    a, b = integers(3, 4, device=device).requires_grad_(), integers(4, 5, device=device).requires_grad_()
    torch.library.opcheck(torch.ops.tilewise.matmul.default, (a, b, "strict"))
    bias = integers(5, device=device).requires_grad_()
    torch.library.opcheck(torch.ops.tilewise.linear.default, (a, b.detach().t().contiguous().requires_grad_(), bias, "strict"))
    torch.library.opcheck(torch.ops.tilewise.linear.default, (a, b.detach().t().contiguous(), None, "strict"))


@pytest.mark.parametrize("how", ["host", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
                                   torch.float8_e4m3fn, torch.float8_e5m2])
def test_the_compiler_knows_the_types_of_results(device, dtype, how):
    tilewise.torch.on_cpu(how)
    torch._dynamo.reset()  # a function is compiled anew a few times only
    x, weight = integers(3, 4, device=device, dtype=dtype), integers(5, 4, device=device, dtype=dtype, seed=2)
    wide = tilewise.torch._result_type(dtype)
    for bias in (None, integers(5, device=device, dtype=wide)):
        product = tilewise.torch.linear(x, weight, bias)
        assert product.dtype == wide
        faked = tilewise.torch._linear_fake(x, weight, bias, "strict")
        assert (faked.dtype, faked.shape, faked.stride()) == (product.dtype, product.shape, product.stride())
        compiled = torch.compile(lambda x, w, b: tilewise.torch.linear(x, w, b), backend="aot_eager", fullgraph=True)
        found = compiled(x, weight, bias)
        assert found.dtype == wide and torch.equal(found, product)
    assert tilewise.torch._matmul_fake(x, weight.t(), "strict").dtype == tilewise.torch.matmul(x, weight.t()).dtype


def test_subclasses_with_a_meaning_of_their_own_are_refused(device):
    class Unit(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *arguments, **named):
            return super().__torch_function__(*arguments, **named)

    x = integers(3, 3, device=device)
    unit = x.as_subclass(Unit)
    masked = torch.masked.masked_tensor(x, x > 0)
    for special in (unit, masked):
        for operands in ((special, x), (x, special), (x, x, special)):
            with pytest.raises(TypeError, match="__torch_"):
                tilewise.matmul(*operands, **options(device))
    parameter = torch.nn.Parameter(x.clone(), requires_grad=False)
    assert torch.equal(tilewise.matmul(parameter, x, **options(device)), x @ x)
    with pytest.raises((TypeError, tilewise.Error)):
        tilewise.matmul(x.to_sparse(), x, **options(device))
    with pytest.raises((TypeError, tilewise.Error)):
        tilewise.matmul(torch.empty(3, 3, device="meta"), x, **options(device))
    with pytest.raises((TypeError, tilewise.Error)):
        tilewise.matmul(torch._efficientzerotensor(3, 3, device=device), x, **options(device))


@pytest.mark.parametrize("a_shape, b_shape", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
                                              ((2, 1, 3, 4), (3, 4, 2))])
def test_gradients(device, a_shape, b_shape):
    a = torch.randn(a_shape, dtype=torch.float64, device=device, requires_grad=True)
    b = torch.randn(b_shape, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(tilewise.torch.matmul, (a, b))
    assert torch.autograd.gradgradcheck(tilewise.torch.matmul, (a, b))


def test_gradients_of_linear(device):
    x = torch.randn(2, 3, 4, dtype=torch.float64, device=device, requires_grad=True)
    weight = torch.randn(5, 4, dtype=torch.float64, device=device, requires_grad=True)
    bias = torch.randn(5, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(tilewise.torch.linear, (x, weight, bias))
    tilewise.torch.linear(x, weight, bias).sum().backward()  # the gradient is an expanded tensor
    expected = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
    torch.nn.functional.linear(*expected).sum().backward()
    for ours, theirs in zip((x, weight, bias), expected):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_what_watches_operators_sees_them(device):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    a, b = integers(3, 4, device=device).requires_grad_(), integers(4, 5, device=device)
    with Watch():
        tilewise.torch.matmul(a, b).sum().backward()
        tilewise.torch.linear(a, b.t())
    assert seen.count("tilewise.matmul.default") == 2 and seen.count("tilewise.linear.default") == 1
    wrapped = a.detach().as_subclass(WithoutExchange)
    assert type(tilewise.torch.matmul(wrapped, b)) is WithoutExchange


def test_second_derivatives_of_linear(device):
    arguments = [torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True) for shape in ((3, 4), (5, 4), (5,))]
    assert torch.autograd.gradgradcheck(tilewise.torch.linear, arguments)


def test_frozen_operands_get_no_gradient(device):
    a, b = integers(3, 4, device=device).requires_grad_(), integers(4, 5, device=device)
    tilewise.torch.matmul(a, b).sum().backward()
    assert torch.equal(a.grad, b.sum(1).expand(3, 4)) and b.grad is None
    weight = b.t().contiguous()
    assert not tilewise.torch.linear(a.detach(), weight).requires_grad
    x = a.detach().requires_grad_()
    tilewise.torch.linear(x, weight).sum().backward()
    assert torch.equal(x.grad, a.grad)


def test_compiled_graphs_keep_the_operator(device):
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    def run(x, w):
        return tilewise.torch.linear(x, w).relu() + 1

    x, w = integers(3, 4, device=device), integers(5, 4, device=device, seed=2)
    assert torch.equal(torch.compile(run, backend=backend, fullgraph=True)(x, w), run(x, w))
    assert any("tilewise" in target for target in seen), seen
    torch._dynamo.reset()
    w.requires_grad_()
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (3, 6):
        x = integers(rows, 4, device=device)
        assert torch.equal(compiled(x, w), run(x, w))
    compiled(x, w).sum().backward()
    ours, w.grad = w.grad, None
    (torch.nn.functional.linear(x, w).relu() + 1).sum().backward()
    assert torch.equal(ours, w.grad)


ACTIVATIONS = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
               "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"), "sigmoid": torch.sigmoid,
               "tanh": torch.tanh}


def parameters(device, *shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator, dtype=dtype).to(device).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("how", ["host", "torch"])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, None])
def test_activations_of_linear(device, activation, how):
    tilewise.torch.on_cpu(how)
    x, weight, bias = parameters(device, (2, 3, 4), (5, 4), (5,))
    act = ACTIVATIONS.get(activation, lambda x: x)

    def ours(x, weight, bias=None):
        return tilewise.torch.linear(x, weight, bias, activation=activation)

    for operands in ((x, weight, bias), (x, weight)):
        expected = act(torch.nn.functional.linear(*operands))
        torch.testing.assert_close(ours(*operands), expected)
        with torch.no_grad():
            torch.testing.assert_close(ours(*operands), expected)
        assert torch.autograd.gradcheck(ours, operands)
    assert torch.autograd.gradgradcheck(ours, (x, weight, bias))
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, weight, bias), act(torch.nn.functional.linear(x, weight, bias)))


@pytest.mark.parametrize("how", ["host", "torch"])
@pytest.mark.parametrize("activation", [*ACTIVATIONS, None])
def test_mlp(device, activation, how):
    tilewise.torch.on_cpu(how)
    x, w1, b1, w2, b2 = parameters(device, (2, 3, 4), (6, 4), (6,), (5, 6), (5,))

    def ours(*operands):
        return tilewise.torch.mlp(*operands, activation=activation)

    def theirs(x, w1, b1, w2, b2):
        hidden = ACTIVATIONS.get(activation, lambda x: x)(torch.nn.functional.linear(x, w1, b1))
        return torch.nn.functional.linear(hidden, w2, b2)

    expected = theirs(x, w1, b1, w2, b2)
    torch.testing.assert_close(ours(x, w1, b1, w2, b2), expected)
    with torch.no_grad():
        torch.testing.assert_close(ours(x, w1, b1, w2, b2), expected)
    assert torch.autograd.gradcheck(ours, (x, w1, b1, w2, b2))
    assert torch.autograd.gradcheck(lambda x, w1, w2: ours(x, w1, None, w2, None), (x, w1, w2))
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient, = torch.autograd.grad(ours(x, w1, b1, w2, b2).square().sum(), w1, create_graph=True)
        gradient.sum().backward()
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    operands = [t.detach().clone().requires_grad_() for t in (x, w1, b1, w2, b2)]
    compiled(*operands).sum().backward()
    for one, other in zip(operands, torch.autograd.grad(expected.sum(), (x, w1, b1, w2, b2))):
        torch.testing.assert_close(one.grad, other)


def test_a_bias_is_part_of_the_kernel(device):
    """The result is rounded once, from the sum with the bias."""
    x, weight = integers(3, 300, device=device, dtype=torch.bfloat16), integers(5, 300, device=device, dtype=torch.bfloat16, seed=2)
    bias = torch.full((5,), 0.5, device=device, dtype=torch.bfloat16)
    exact = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    assert torch.equal(tilewise.torch.linear(x, weight, bias), exact.to(torch.bfloat16))
    assert torch.equal(tilewise.torch.linear(x, weight, bias, activation="relu"), exact.relu().to(torch.bfloat16))


def test_activations_under_autocast_and_vmap(device):
    x, w1, b1, w2, b2 = parameters(device, (4, 3, 7), (6, 7), (6,), (5, 6), (5,), dtype=torch.float32)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert tilewise.torch.linear(x, w1, b1, activation="gelu").dtype == torch.bfloat16
        y = tilewise.torch.mlp(x, w1, b1, w2, b2)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert b1.grad.dtype == torch.float32 and w1.grad.shape == w1.shape
    with torch.no_grad():
        one_by_one = torch.stack([tilewise.torch.mlp(part, w1, b1, w2, b2) for part in x])
        torch.testing.assert_close(torch.vmap(tilewise.torch.mlp, in_dims=(0, None, None, None, None))(x, w1, b1, w2, b2), one_by_one)
        torch.testing.assert_close(torch.vmap(lambda x: tilewise.torch.linear(x, w1, b1, activation="silu"))(x),
                                   torch.nn.functional.silu(torch.nn.functional.linear(x, w1, b1)))


@pytest.mark.parametrize("how", ["host", "torch"])
def test_a_closed_relu_stops_infinite_gradients(device, how):
    tilewise.torch.on_cpu(how)
    x, weight = torch.tensor([[1.0, 2.0]], device=device, requires_grad=True), torch.tensor([[-1.0, 0.0]], device=device)
    tilewise.torch.linear(x, weight, activation="relu").backward(torch.tensor([[float("inf")]], device=device))
    assert torch.equal(x.grad, torch.zeros_like(x))


def layer(acc, bias, by_row, residual, s):
    from tilewise import epilogues as e

    x = acc * s + bias
    return e.gelu(x) + e.where(x > residual, by_row, e.minimum(x, 2)), {"before": x, "sums": e.column_sum(x)}


LAYER = ("x = acc * s + bias[j]; before[i,j] = x; sums:f32[j] = sum(x); "
         "gelu(x) + where(x > residual[i,j], by_row[i], min(x, 2))")


@pytest.mark.parametrize("how", ["torch", "host"])
@pytest.mark.parametrize("epilogue", [LAYER, layer])
def test_epilogues(device, epilogue, how):
    tilewise.torch.on_cpu(how)
    a, b = integers(7, 12, device=device), integers(12, 16, device=device, seed=2)
    bias, residual = integers(16, device=device, seed=3), integers(7, 16, device=device, seed=5)
    by_row = integers(*((7,) if epilogue is LAYER else (7, 1)), device=device, seed=4)

    def run(a, b, bias, residual, by_row):
        return tilewise.torch.matmul(a, b, epilogue=epilogue, bias=bias, residual=residual, by_row=by_row, s=0.5)

    x = a @ b * 0.5 + bias
    expected = torch.nn.functional.gelu(x) + torch.where(x > residual, by_row.reshape(7, 1), x.clamp(max=2))
    for call in (run, torch.compile(run, backend="aot_eager", fullgraph=True)):
        c, further = call(a, b, bias, residual, by_row)
        torch.testing.assert_close(c, expected)
        torch.testing.assert_close(further["before"], x)
        torch.testing.assert_close(further["sums"], x.sum(0))
    torch.library.opcheck(torch.ops.tilewise.matmul_epilogue.default,
                          (a, b, "strict", LAYER, [bias, residual, by_row.reshape(7)], ["bias", "residual", "by_row"], [0.5], ["s"]),
                          test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("how", ["torch", "host"])
def test_an_epilogue_alone_has_one_result(device, how):
    tilewise.torch.on_cpu(how)
    a, b = integers(5, 8, device=device, dtype=torch.bfloat16), integers(8, 16, device=device, dtype=torch.bfloat16, seed=2)
    c = tilewise.torch.matmul(a, b, epilogue="clamp(acc, -1, 3)")
    assert torch.equal(c, (a @ b).clamp(-1, 3))
    assert c.dtype == torch.bfloat16
    x = a.float() @ b.float()
    for text, expected in (("where(acc >= 0, acc, 7)", torch.where(x >= 0, x, 7)), ("where(acc != 0, 1, 5)", torch.where(x != 0, 1, 5)),
                           ("x = acc; where(2 <= x, -x, abs(x))", torch.where(x >= 2, -x, x.abs()))):
        assert torch.equal(tilewise.torch.matmul(a, b, epilogue=text), expected.bfloat16()), text


def test_what_an_epilogue_cannot_do_is_said(device):
    a, b = integers(5, 8, device=device), integers(8, 16, device=device, seed=2)
    with pytest.raises(TypeError, match="no argument 'bias'"):
        tilewise.torch.matmul(a, b, bias=b)
    with pytest.raises(ValueError, match="two matrices"):
        tilewise.torch.matmul(a[None], b[None], epilogue="relu(acc)")
    for how in ("torch", "host"):
        tilewise.torch.on_cpu(how)
        for text in ("relu(acc", "acc + bias[j]", "acc.sum()", "__import__('os')", "eval(acc)"):
            with pytest.raises((ValueError, tilewise.Error)):
                tilewise.torch.matmul(a, b, epilogue=text)
    a.requires_grad_()
    with pytest.raises(RuntimeError, match="has no derivative"):
        tilewise.torch.matmul(a, b, epilogue="relu(acc)").sum().backward()


def test_an_unknown_activation_is_refused(device):
    x, weight = integers(3, 4, device=device), integers(5, 4, device=device)
    for call in (lambda: tilewise.torch.linear(x, weight, activation="swish"),
                 lambda: tilewise.torch.mlp(x, weight, None, x, None, activation="swish")):
        with pytest.raises(ValueError, match="gelu_tanh"):
            call()


def test_layers_have_activations(device):
    layer = torch.nn.Linear(7, 9).to(device)
    tilewise.torch.swap_linear(torch.nn.Sequential(layer))
    layer.activation = "relu"
    x = torch.randn(4, 7, device=device)
    torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias).relu())


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(9, 3, bias=False)))


def test_swapped_models_are_the_same(device):
    ours, theirs = model().to(device), model().to(device)
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    other = torch.optim.SGD(theirs.parameters(), lr=0.1)
    assert tilewise.torch.swap_linear(ours) == 2
    assert tilewise.torch.swap_linear(ours) == 0
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    x = torch.randn(2, 5, 7, device=device)
    for _ in range(3):
        for network, steps in ((ours, optimizer), (theirs, other)):
            steps.zero_grad()
            network(x).square().mean().backward()
            steps.step()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    copied = copy.deepcopy(ours)
    assert torch.equal(copied(x), ours(x))
    kept = model()
    assert tilewise.torch.swap_linear(kept, keep=lambda name, layer: name == "0") == 1
    assert type(kept[0]) is torch.nn.Linear


@pytest.fixture
def packing(device, monkeypatch):
    """Makes packs on the CPU use the target whose kernels pack."""
    real = tilewise.torch._pack
    monkeypatch.setattr(tilewise.torch, "_pack", lambda weight, rows, math, device: real(
        weight, rows, math=math, device=device and "host:sm_90"))


def test_packed_weights(device, packing):
    # Packing is useful on a GPU from some size on.
    inputs, outputs, rows = (35, 33, 10) if device == "cpu" else (1023, 1025, 1024)
    layer = torch.nn.Linear(inputs, outputs).to(device, torch.bfloat16)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(integers(*parameter.shape, seed=parameter.dim()))
    network = torch.nn.Sequential(layer)
    tilewise.torch.swap_linear(network)
    x = integers(2, rows // 2, inputs, device=device, dtype=torch.bfloat16, seed=3)

    def right():
        expected = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
        return torch.equal(network(x), expected.to(torch.bfloat16))

    network.eval()
    assert tilewise.torch.pack_weights(network, rows) > 0
    with torch.no_grad():
        assert layer in tilewise.torch._number_of and right()
        layer.weight.add_(1)  # noticed: the original is read
        assert right()
    assert tilewise.torch.pack_weights(network, rows) > 0
    layer.weight.requires_grad_(False)
    assert network(x).requires_grad  # the bias has a gradient
    layer.weight.requires_grad_(True)
    network(x).sum().backward()
    assert layer.weight.grad is not None
    network.train()
    assert layer not in tilewise.torch._number_of
    with torch.no_grad():
        layer.weight.data.mul_(2)
        assert right()
    network.eval()
    tilewise.torch.pack_weights(network, rows)
    with torch.no_grad(), torch.autocast(device, dtype=torch.float16):
        assert network(x).dtype == torch.float16
    with torch.no_grad():
        traced = torch.fx.experimental.proxy_tensor.make_fx(lambda x: network(x))(x)
        other = integers(2, rows // 2, inputs, device=device, dtype=torch.bfloat16, seed=7)
        assert torch.equal(traced(other), network(other))
    tilewise.torch.unpack_weights(network)
    assert not tilewise.torch._packed
    assert layer not in tilewise.torch._number_of


def test_function_transforms(device):
    a, b = integers(4, 3, 5, device=device), integers(4, 5, 2, device=device, seed=2)
    product = tilewise.torch.matmul
    assert torch.equal(torch.vmap(product)(a, b), a @ b)
    assert torch.equal(torch.vmap(product, in_dims=(1, None))(a, b[0]), a.movedim(1, 0) @ b[0])
    weights, biases = integers(4, 7, 5, device=device, seed=3), integers(4, 7, device=device, seed=4)
    expected = torch.einsum("eri,eoi->ero", a, weights) + biases[:, None]
    assert torch.equal(torch.vmap(tilewise.torch.linear)(a, weights, biases), expected)
    assert torch.equal(torch.vmap(tilewise.torch.linear, in_dims=(None, 0))(a[0], weights),
                       torch.einsum("ri,eoi->ero", a[0], weights))


def test_tracing_records_the_operator(device):
    x, w = integers(3, 4, device=device), integers(5, 4, device=device, seed=2)
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda x, w: tilewise.torch.linear(x, w))(x, w)
    other = integers(3, 4, device=device, seed=9)
    assert torch.equal(traced(other, w), torch.nn.functional.linear(other, w))


def test_what_memory_does_not_show(device):
    x = torch.randn(4, 1, dtype=torch.complex64, device=device).conj().imag
    assert x.is_neg()
    with pytest.raises(ValueError, match="resolve_neg"):
        tilewise.matmul(x, x.t(), **options(device))
    buffer = integers(3, 3, device=device).float()
    leaf = torch.ones(3, 3, device=device, requires_grad=True)
    loss = (leaf * buffer).sum()
    tilewise.matmul(integers(3, 3, device=device), integers(3, 3, device=device), buffer, **options(device))
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


def test_integers_on_the_cpu_by_pytorch():
    a = torch.full((1, 2), 100, dtype=torch.int8)
    c = tilewise.torch.matmul(a, a.t())
    assert c.dtype == torch.int32 and c.item() == 20000


def test_layers_without_inputs(device):
    layer = torch.nn.Linear(0, 3, bias=False).to(device)
    network = torch.nn.Sequential(layer)
    tilewise.torch.swap_linear(network)
    assert network(torch.empty(2, 4, 0, device=device)).shape == (2, 4, 3)


def test_autocast(device):
    layer = torch.nn.Linear(7, 9).to(device)
    tilewise.torch.swap_linear(torch.nn.Sequential(layer))
    with torch.autocast(device, dtype=torch.bfloat16):
        y = layer(torch.randn(4, 7, device=device))
    assert y.dtype == torch.bfloat16


def test_threads(device):
    a, b = integers(16, 16, device=device), integers(16, 16, device=device, seed=2)
    expected, wrong = a @ b, []

    def multiply():
        for _ in range(30):
            if not torch.equal(tilewise.torch.matmul(a, b), expected):
                wrong.append(1)

    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_on_cpu_by_pytorch():
    x = integers(3, 4)
    assert torch.equal(tilewise.torch.matmul(x, x.t()), x @ x.t())
    with pytest.raises(ValueError, match="host"):
        tilewise.torch.on_cpu("gpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
class TestOnTheGpu:
    def test_the_current_stream(self):
        a = torch.randn(2048, 2048, device="cuda")
        expected = a.clone().fill_(3.0) @ torch.eye(2048, device="cuda")
        stream = torch.cuda.Stream()
        tilewise.matmul(a, a)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            a.fill_(3.0)
            c = tilewise.matmul(a, torch.eye(2048, device="cuda"))
        stream.synchronize()
        assert torch.equal(c, expected)

    def test_a_graph(self):
        a, b = integers(64, 33, device="cuda", dtype=torch.bfloat16), integers(33, 65, device="cuda", dtype=torch.bfloat16)
        out = torch.zeros(64, 65, device="cuda", dtype=torch.bfloat16)
        tilewise.matmul(a, b, out)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tilewise.matmul(a, b, out)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, a @ b)

    def test_arrays_of_the_cpu_are_copied(self):
        a, b = integers(300, 200), integers(200, 100, seed=2)
        assert torch.equal(tilewise.matmul(a, b, device=0), a @ b)

    @pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
    def test_several_gpus(self):
        for index in range(2):
            a = integers(65, 33, device=f"cuda:{index}")
            b = integers(33, 17, device=f"cuda:{index}", seed=2)
            assert torch.equal(tilewise.matmul(a, b), a @ b)
        with pytest.raises(tilewise.InvalidArgument, match="one device"):
            tilewise.matmul(integers(3, 3, device="cuda:0"), integers(3, 3, device="cuda:1"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU's streams are captured")
def test_new_sizes_while_another_thread_captures():
    """Loading a kernel does not end a capture of another thread, which by default forbids such calls to all threads."""
    x = torch.ones(256, 256, device="cuda")
    torch.mm(x, x)
    torch.cuda.synchronize()
    operands = {n: (integers(n, 33, device="cuda"), integers(33, n + 1, device="cuda", seed=2)) for n in (48, 80, 112)}
    captured, multiplied = threading.Event(), threading.Event()
    failures = []

    def multiply():
        captured.wait()
        try:
            for n in (48, 80, 112):
                a, b = operands[n]
                tilewise.matmul(a, b)
        except Exception as error:  # shown by the main thread
            failures.append(error)
        finally:
            multiplied.set()

    thread = threading.Thread(target=multiply)
    thread.start()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            y = torch.mm(x, x)
            captured.set()
            multiplied.wait(60)
    finally:
        captured.set()
        thread.join()
    assert not failures
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 256))
