"""tilewise.torch.batch_invariant(): PyTorch's own products. Skipped without PyTorch."""
import pathlib
import re
import threading

import pytest

torch = pytest.importorskip("torch")
import tilewise
import tilewise.torch

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")


def normal(*shape, device="cpu", dtype=torch.float32, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


class Counted:
    """Counts the products that Tilewise serves."""

    def __init__(self, monkeypatch):
        from tilewise import batch_invariant

        self.count, real = 0, batch_invariant._product

        def product(*arguments, **options):
            self.count += 1
            assert options["invariant"]
            return real(*arguments, **options)

        monkeypatch.setattr(batch_invariant, "_product", product)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_product_is_served_and_right(device, dtype, monkeypatch):
    counted = Counted(monkeypatch)
    a, b, c = normal(9, 16, device=device, dtype=dtype), normal(16, 8, device=device, dtype=dtype, seed=2), \
        normal(9, 8, device=device, dtype=dtype, seed=3)
    batch_a, batch_b, batch_c = (x.expand(3, *x.shape).contiguous() for x in (a, b, c))
    x, y = normal(16, device=device, dtype=dtype, seed=4), normal(9, device=device, dtype=dtype, seed=5)
    bias = normal(8, device=device, dtype=dtype, seed=6)
    products = {
        "mm": lambda: torch.mm(a, b), "matmul": lambda: a @ b, "mv": lambda: torch.mv(a, x),
        "addmm": lambda: torch.addmm(c, a, b, beta=2, alpha=0.5), "bias": lambda: torch.addmm(bias, a, b),
        "bmm": lambda: torch.bmm(batch_a, batch_b), "broadcast": lambda: batch_a @ b,
        "baddbmm": lambda: torch.baddbmm(batch_c, batch_a, batch_b, beta=0.5),
        "dot": lambda: a[2] @ x, "vdot": lambda: torch.vdot(x, a[3]),
        "addmv": lambda: torch.addmv(y, a, x, beta=3), "einsum": lambda: torch.einsum("ij,jk->ik", a, b),
        "linear": lambda: torch.nn.functional.linear(batch_a, b.t(), bias),
        "transposed": lambda: torch.nn.functional.linear(batch_a.transpose(0, 1), b.t(), bias),
        "out": lambda: torch.mm(a, b, out=torch.empty(8, 9, device=device, dtype=dtype).t()),
        "resized": lambda: torch.bmm(batch_a, batch_b, out=torch.empty(0, device=device, dtype=dtype)),
        "in place": lambda: c.clone().addmm_(a, b), "batch in place": lambda: batch_c.clone().baddbmm_(batch_a, batch_b),
        "vector in place": lambda: y.clone().addmv_(a, x), "empty": lambda: torch.mm(a[:0], b),
        "no sum": lambda: torch.mm(a[:, :0], b[:0]),
    }
    expected = {name: call() for name, call in products.items()}
    assert counted.count == 0
    with tilewise.torch.batch_invariant():
        for name, call in products.items():
            before, found = counted.count, call()
            assert counted.count > before, name
            assert found.dtype == dtype and found.shape == expected[name].shape, name
            torch.testing.assert_close(found, expected[name], rtol=2e-2 if dtype == torch.bfloat16 else 1e-4,
                                       atol=5e-2 if dtype == torch.bfloat16 else 1e-4, msg=name)
    after = counted.count
    torch.mm(a, b)
    assert counted.count == after


def block(dtype, device):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 17)).to(dtype).to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_are_equal_alone_and_in_batches(device, dtype):
    model, x = block(dtype, device), normal(12, 5, 24, device=device, dtype=dtype)
    with tilewise.torch.batch_invariant(), torch.no_grad():
        whole = model(x)
        for first, count in [(0, 1), (4, 1), (3, 2), (5, 7)]:
            assert torch.equal(model(x[first:first + count]), whole[first:first + count])
        # A product of two vectors is a row of one with a matrix.
        v = normal(4096, device=device, dtype=dtype)
        rows = normal(3, 4096, device=device, dtype=dtype, seed=8)
        assert torch.equal(torch.stack([row @ v for row in rows]), rows @ v)
        # PyTorch makes linear() of other operators where the input is not contiguous.
        assert torch.equal(model(x.transpose(0, 1)).transpose(0, 1), whole)
        assert torch.equal(model(x[7, 2]), whole[7, 2])


def test_tilewise_operators_are_invariant_inside(device, monkeypatch):
    options, real = [], tilewise.torch._product

    def product(*arguments, **given):
        options.append(given["invariant"])
        return real(*arguments, **given)

    monkeypatch.setattr(tilewise.torch, "_product", product)
    model, x = block(torch.float32, device), normal(12, 24, device=device)
    assert tilewise.torch.swap_linear(model) == 2
    with torch.no_grad():
        with tilewise.torch.batch_invariant():
            whole = model(x)
            assert torch.equal(model(x[3:4]), whole[3:4])
        model(x)
    assert options == [True] * 4 + [False] * 2


def test_gradients_of_rows_are_equal_too(device):
    model, x = block(torch.float32, device), normal(10, 24, device=device)

    def gradient(rows):
        rows = rows.clone().requires_grad_()
        model(rows).square().sum().backward()
        return rows.grad

    with tilewise.torch.batch_invariant():
        whole = gradient(x)
        assert torch.equal(gradient(x[3:4]), whole[3:4])
        assert torch.equal(gradient(x[2:9]), whole[2:9])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_batches_and_of_repetitions(device, dtype):
    x, y = normal(6, 5, 16, device=device, dtype=dtype), normal(6, 16, 9, device=device, dtype=dtype, seed=2)

    def gradients(first, count):
        a, b = (z[first:first + count].clone().requires_grad_() for z in (x, y))
        (a @ b).float().square().sum().backward()
        return a.grad, b.grad

    weight = normal(16, 7, device=device, dtype=dtype, seed=3).requires_grad_()
    with tilewise.torch.batch_invariant():
        whole = gradients(0, 6)
        for first, count in [(2, 1), (1, 4)]:
            for part, all_of_it in zip(gradients(first, count), whole):
                assert torch.equal(part, all_of_it[first:first + count])
        # A weight's gradient is a sum over the batch, the same at every repetition.
        of_weight = [torch.autograd.grad((x.flatten(0, 1) @ weight).float().square().sum(), weight)[0] for _ in range(3)]
        assert torch.equal(of_weight[0], of_weight[1]) and torch.equal(of_weight[0], of_weight[2])


class Transformer(torch.nn.Module):
    """Of one layer; attention by its formula."""

    def __init__(self, width=48, heads=4, words=50):
        super().__init__()
        torch.manual_seed(1)
        self.heads, self.embed = heads, torch.nn.Embedding(words, width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.head = torch.nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).reshape(*tokens.shape, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = torch.softmax((q @ k.mT).float() / q.shape[-1] ** 0.5, -1).to(x.dtype)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        return self.head(self.norm(x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))))

    @staticmethod
    def norm(x):
        return torch.nn.functional.layer_norm(x.float(), x.shape[-1:]).to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_of_a_transformer_are_equal_alone_and_in_batches(device, dtype, monkeypatch):
    counted = Counted(monkeypatch)
    most = 64 if device != "cpu" else 9
    model, tokens = Transformer().to(device, dtype), torch.randint(0, 50, (most, 12), generator=torch.Generator().manual_seed(2)).to(device)
    with torch.no_grad(), tilewise.torch.batch_invariant():
        alone = [model(tokens[i:i + 1])[0] for i in range(most)]
        assert counted.count == 7 * most
        for batch in (2, 3, 8, most):
            for i, logits in enumerate(model(tokens[:batch])):
                assert torch.equal(logits, alone[i]), (batch, i)


def test_the_check_of_the_documentation_finds_the_module(device):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/invariance.md").read_text()
    (code,) = (part for part in re.findall(r"```python\n(.*?)```", page, re.S) if "def first_difference" in part)
    names = {"torch": torch, "tilewise": tilewise}
    exec(code, names)

    class OverTheBatch(torch.nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    x = normal(5, 24, device=device)
    model = block(torch.float32, device)
    assert names["first_difference"](model, x) is None
    assert names["first_difference"](torch.nn.Sequential(model, OverTheBatch(), torch.nn.Tanh()), x) == "1"


def test_compiled_models_are_served(device, monkeypatch):
    counted = Counted(monkeypatch)
    model, x = block(torch.float32, device), normal(6, 24, device=device)
    with tilewise.torch.batch_invariant(), torch.no_grad():
        compiled = torch.compile(model, backend="aot_eager")
        whole = compiled(x)
        assert counted.count >= 2
        assert torch.equal(model(x), whole)
        assert torch.equal(compiled(x[2:3]), whole[2:3])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="GPUs have graphs")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_inductor_keeps_the_rows(mode, monkeypatch):
    counted = Counted(monkeypatch)
    model, x = block(torch.bfloat16, "cuda"), normal(300, 24, device="cuda", dtype=torch.bfloat16)
    with tilewise.torch.batch_invariant(), torch.no_grad():
        model(x), model(x[:1])  # loads the kernels before a capture
        before = counted.count
        compiled = torch.compile(model, mode=mode, dynamic=False)
        for _ in range(3):  # "reduce-overhead" captures a graph in the second call
            whole = compiled(x).clone()
            one = compiled(x[7:8]).clone()
            assert torch.equal(one, whole[7:8])
        assert counted.count > before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="GPUs have graphs")
def test_a_replayed_graph_has_the_same_rows():
    model, x = block(torch.bfloat16, "cuda"), normal(300, 24, device="cuda", dtype=torch.bfloat16)
    with tilewise.torch.batch_invariant(), torch.no_grad():
        expected, rows = model(x), x[:64].clone()
        model(rows)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = model(rows)
        for first in (0, 100, 236):
            rows.copy_(x[first:first + 64])
            graph.replay()
            assert torch.equal(found, expected[first:first + 64])


def test_the_precision_of_float32_is_pytorchs():
    from tilewise import batch_invariant

    before = torch.get_float32_matmul_precision()
    try:
        for precision, wanted in (("high", True), ("highest", False)):
            torch.set_float32_matmul_precision(precision)
            assert batch_invariant._tf32() is wanted
    finally:
        torch.set_float32_matmul_precision(before)


def test_it_nests_and_holds_for_all_threads(device, monkeypatch):
    counted = Counted(monkeypatch)
    a = normal(4, 4, device=device)
    tilewise.torch.enable_batch_invariant()
    with tilewise.torch.batch_invariant():
        pass
    assert tilewise.torch.is_batch_invariant()
    thread = threading.Thread(target=lambda: a @ a)
    thread.start()
    thread.join()
    assert counted.count == 1
    tilewise.torch.disable_batch_invariant()
    with pytest.raises(RuntimeError, match="not enabled"):
        tilewise.torch.disable_batch_invariant()
    with pytest.raises(ZeroDivisionError):
        with tilewise.torch.batch_invariant():
            1 / 0
    assert not tilewise.torch.is_batch_invariant()


def test_every_operator_for_products_is_replaced():
    from tilewise import batch_invariant

    names = {name for name in torch._C._dispatch_get_all_op_names()
             if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")}
    products = {name for name in names if name.split("::")[1].split(".")[0].strip("_") in
                ("mm", "bmm", "addmm", "baddbmm", "addmv", "dot", "vdot", "addmm_activation", "scaled_mm", "grouped_mm", "scaled_grouped_mm")
                and name.startswith("aten::")}
    assert len(products) >= 20
    assert products == {name for name in products if name[6:] in batch_invariant._functions("CUDA")}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has these on GPUs alone")
def test_results_may_be_wider():
    a, b, c = normal(9, 16, device="cuda", dtype=torch.bfloat16), normal(16, 8, device="cuda", dtype=torch.bfloat16), \
        normal(9, 8, device="cuda")
    with tilewise.torch.batch_invariant():
        whole = torch.mm(a, b, out_dtype=torch.float32)
        assert whole.dtype == torch.float32
        assert torch.equal(torch.mm(a[2:3], b, out_dtype=torch.float32), whole[2:3])
        assert torch.equal(torch.addmm(c, a, b, out_dtype=torch.float32), whole + c)
        with pytest.raises(tilewise.Unsupported):
            torch.mm(a, b, out_dtype=torch.float16)


def test_what_it_cannot_serve_raises(device):
    with tilewise.torch.batch_invariant():
        a = torch.ones(3, 3, device=device, dtype=torch.complex64)
        with pytest.raises(tilewise.Unsupported, match="complex64"):
            a @ a
        b = normal(3, 4, device=device)
        with pytest.raises(RuntimeError, match="shapes"):
            torch.mm(b, b)
        with pytest.raises(RuntimeError):
            torch.mm(b, b.t().double())
        with pytest.raises(RuntimeError, match="to add"):
            torch.addmm(b.double() @ b.t().double(), b, b.t())
        with pytest.raises(RuntimeError, match="expected out"):
            torch.mm(b, b.t(), out=torch.empty(3, 3, device=device, dtype=torch.float64))
