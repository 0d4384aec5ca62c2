"""Grouped products: tilewise.grouped with NumPy, and tilewise.torch.grouped_mm with its gradients. Skipped without PyTorch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tilewise
import tilewise.torch

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")


def integers(*shape, device="cpu", dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype).to(device)


def numbers(*values):
    return np.array(values, dtype=np.int32)


def array(*shape, seed=1):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def test_rows_one_after_another():
    a, b, ends = array(9, 5), array(3, 5, 4, seed=2), numbers(4, 4, 7)
    out = np.full((9, 4), 7, np.float32)
    assert tilewise.grouped(a, b, ends, out, device="host") is out
    assert np.array_equal(out, np.vstack([a[:4] @ b[0], a[4:7] @ b[2], np.full((2, 4), 7)]))
    assert np.array_equal(tilewise.grouped(a, b, ends, device="host")[:7], out[:7])


def test_counts_of_rows():
    a, b = array(2, 5, 3), array(2, 3, 4, seed=2)
    out = np.zeros((2, 5, 4), np.float32)
    tilewise.grouped(a, b.transpose(0, 2, 1).copy().transpose(0, 2, 1), numbers(2, 5), out, device="host", alpha=2)
    assert np.array_equal(out[0, :2], 2 * a[0, :2] @ b[0]) and not out[0, 2:].any()
    assert np.array_equal(out[1], 2 * a[1] @ b[1])


def test_different_k():
    a, b, ends = array(8, 3), array(8, 4, seed=2), numbers(3, 3, 8)
    out = tilewise.grouped(a.T, b, ends, device="host")
    assert np.array_equal(out, np.stack([a[:3].T @ b[:3], np.zeros((3, 4)), a[3:].T @ b[3:]]))
    with pytest.raises(tilewise.InvalidArgument, match="stored by k"):
        tilewise.grouped(np.ascontiguousarray(a.T), b, ends, device="host")


@pytest.mark.parametrize("m, n", [(1, 2), (3, 1), (1, 1), (3, 4)])
@pytest.mark.parametrize("k", [1, 6])
def test_different_k_of_parts_of_larger_arrays(m, n, k):
    whole_a, whole_b, ends = array(9, 8), array(9, 10, seed=2), numbers(k // 2, k)
    for a, b in [(whole_a[:k, :m], whole_b[:k, :n]), (whole_a[:k, :m].copy(), whole_b[:k, :n].copy())]:
        out = tilewise.grouped(a.T, b, ends, device="host")
        assert np.array_equal(out, np.stack([a[:k // 2].T @ b[:k // 2], a[k // 2:].T @ b[k // 2:]]))


def test_what_is_written_is_not_read_only():
    out = np.zeros((7, 4), np.float32)
    out.flags.writeable = False
    with pytest.raises(tilewise.InvalidArgument, match="aux is read-only"):
        tilewise.grouped(array(7, 5), array(2, 5, 4), numbers(3, 7), device="host", epilogue="aux[i,j] = acc; acc", aux=out)


def test_an_epilogue_has_operands_of_each_product():
    a, b, ends = array(7, 5), array(2, 5, 4, seed=2), numbers(3, 7)
    bias, scale, residual = array(2, 4, seed=3), array(2, seed=4), array(7, 4, seed=5)
    out = tilewise.grouped(a, b, ends, device="host", epilogue="acc * scale + bias[j] + residual[i,j]", bias=bias, scale=scale,
                           residual=residual)
    parts = [a[first:last] @ b[g] * scale[g] + bias[g] for g, (first, last) in enumerate([(0, 3), (3, 7)])]
    assert np.array_equal(out, np.vstack(parts) + residual)
    one = tilewise.grouped(a, b, ends, device="host", epilogue="acc + bias[j]", bias=bias[0])
    assert np.array_equal(one, np.vstack([a[:3] @ b[0], a[3:] @ b[1]]) + bias[0])
    with pytest.raises(tilewise.InvalidArgument, match="residual has the shape"):
        tilewise.grouped(a, b, ends, device="host", epilogue="acc + residual[i,j]", residual=residual[:6])


def test_what_does_not_fit_is_refused():
    a, b = array(7, 5), array(2, 5, 4)
    for wrong in [numbers(7), numbers(3, 5, 7)]:
        with pytest.raises(tilewise.InvalidArgument, match="numbers of rows"):
            tilewise.grouped(a, b, wrong, device="host")
    with pytest.raises(tilewise.InvalidArgument, match="32-bit integers"):
        tilewise.grouped(a, b, np.array([3.0, 7.0], np.float32), device="host")
    with pytest.raises(tilewise.InvalidArgument, match="is 8; it is 0 to m = 7"):
        tilewise.grouped(a, b, numbers(3, 8), device="host")
    with pytest.raises(tilewise.InvalidArgument, match="the last of a"):
        tilewise.grouped(array(7, 6), b, numbers(3, 7), device="host")
    with pytest.raises(tilewise.InvalidArgument, match="unknown distribution"):
        tilewise.grouped(a, b, numbers(3, 7), device="host", distribution="odd")


def test_explained_and_prepared():
    same = {"layout": "nt", "batch": 4, "device": "host", "grouped": "rows", "distribution": "zipf"}
    tilewise.prepare(64, 24, 40, **same)
    problem = tilewise.explain(64, 24, 40, **same)["problem"]
    assert (problem["grouped"], problem["distribution"], problem["batch"]) == ("rows", "zipf", 4)


def by_loop(a, b, ends):
    begin, parts = 0, []
    for group, end in enumerate(ends.tolist()):
        if b.dim() == 2:
            parts.append(a[:, begin:end] @ b[begin:end])
        else:
            parts.append(a[begin:end] @ b[group])
        begin = end
    return torch.stack(parts) if b.dim() == 2 else torch.cat(parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_groups_of_rows_and_their_gradients(device, dtype):
    ends = torch.tensor([3, 3, 10], dtype=torch.int32, device=device)
    a = integers(10, 6, device=device, dtype=dtype).requires_grad_()
    b = integers(3, 8, 6, device=device, dtype=dtype, seed=2).mT.requires_grad_()
    y = tilewise.torch.grouped_mm(a, b, ends)
    expected = by_loop(a, b, ends)
    assert torch.equal(y, expected)
    gradient = integers(10, 8, device=device, dtype=dtype, seed=3)
    wanted = torch.autograd.grad(expected, (a, b), gradient)
    for got, want in zip(torch.autograd.grad(y, (a, b), gradient), wanted):
        assert torch.equal(got, want)


def test_groups_of_columns_and_of_k(device):
    ends = torch.tensor([2, 5], dtype=torch.int32, device=device)
    a, b = integers(2, 4, 6, device=device).requires_grad_(), integers(6, 5, device=device, seed=2).requires_grad_()
    y = tilewise.torch.grouped_mm(a, b, ends)
    want = torch.cat([a[0] @ b[:, :2], a[1] @ b[:, 2:]], 1)
    assert torch.equal(y, want)
    gradient = integers(4, 5, device=device, seed=3)
    for got, expected in zip(torch.autograd.grad(y, (a, b), gradient), torch.autograd.grad(want, (a, b), gradient)):
        assert torch.equal(got, expected)
    a, b = integers(4, 5, device=device).requires_grad_(), integers(5, 3, device=device, seed=2).requires_grad_()
    y, want = tilewise.torch.grouped_mm(a, b, ends), by_loop(a, b, ends)
    assert torch.equal(y, want)
    gradient = integers(2, 4, 3, device=device, seed=3)
    for got, expected in zip(torch.autograd.grad(y, (a, b), gradient), torch.autograd.grad(want, (a, b), gradient)):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("rows, columns", [(1, 4), (3, 1), (1, 1)])
def test_gradients_of_few_rows_and_columns(device, rows, columns):
    ends = torch.tensor([2, 6], dtype=torch.int32, device=device)
    a, b = integers(6, rows, device=device).requires_grad_(), integers(2, rows, columns, device=device, seed=2).requires_grad_()
    y, want = tilewise.torch.grouped_mm(a, b, ends), by_loop(a, b, ends)
    assert torch.equal(y, want)
    gradient = integers(6, columns, device=device, seed=3)
    for got, expected in zip(torch.autograd.grad(y, (a, b), gradient), torch.autograd.grad(want, (a, b), gradient)):
        assert torch.equal(got, expected)


def test_gradients_of_rows_that_no_group_has_are_0(device):
    ends = torch.tensor([2, 4], dtype=torch.int32, device=device)
    a, b = integers(7, 3, device=device).requires_grad_(), integers(2, 3, 5, device=device, seed=2)
    y = tilewise.torch.grouped_mm(a, b, ends)
    (of_a,) = torch.autograd.grad(y, a, torch.ones_like(y))
    assert not of_a[4:].any()


def test_as_pytorch_by_its_own_product():
    ends = torch.tensor([3, 8], dtype=torch.int32)
    a, b = integers(8, 6), integers(2, 6, 4, seed=2)
    assert torch.equal(tilewise.torch.grouped_mm(a, b, ends), by_loop(a, b, ends))
    assert torch.equal(tilewise.torch.grouped_mm(a.t(), integers(8, 4, seed=3), ends), by_loop(a.t(), integers(8, 4, seed=3), ends))


@pytest.mark.parametrize("ends", [[-1, 5], [3, 9], [4, 2]])
@pytest.mark.parametrize("by_depth", [False, True])
def test_ends_that_the_host_sees_are_checked(ends, by_depth):
    a, b = (integers(3, 5), integers(5, 4)) if by_depth else (integers(5, 3), integers(2, 3, 4))
    with pytest.raises(ValueError, match=r"offs\[[01]\] is"):
        tilewise.torch.grouped_mm(a, b, torch.tensor(ends, dtype=torch.int32))


def test_second_derivatives():
    ends = torch.tensor([2, 5], dtype=torch.int32)
    a, b = torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, w: tilewise.torch.grouped_mm(x, w, ends), (a, b))


def test_a_batch_has_no_ends_and_a_bias_is_refused(device):
    a, b = integers(2, 3, 4, device=device), integers(2, 4, 5, device=device)
    assert torch.equal(tilewise.torch.grouped_mm(a, b), a @ b)
    with pytest.raises(ValueError, match="no bias"):
        tilewise.torch.grouped_mm(a, b, bias=b)
    with pytest.raises(ValueError, match="with offs"):
        tilewise.torch.grouped_mm(a[0], b)


def test_a_row_is_the_same_in_every_group_and_batch(device):
    a, b = torch.randn(40, 96, device=device), torch.randn(3, 96, 20, device=device)
    multiply = tilewise.torch.grouped_mm
    with tilewise.torch.batch_invariant():
        whole = multiply(a, b, torch.tensor([5, 5, 40], dtype=torch.int32, device=device))
        # The rows of the last group alone, and between others.
        assert torch.equal(multiply(a[12:13], b, torch.tensor([0, 0, 1], dtype=torch.int32, device=device)), whole[12:13])
        assert torch.equal(multiply(a[4:30], b, torch.tensor([1, 1, 26], dtype=torch.int32, device=device)), whole[4:30])
        more = multiply(a, b, torch.tensor([4, 20, 40], dtype=torch.int32, device=device))
        assert torch.equal(more[20:], whole[20:]) and torch.equal(more[:4], whole[:4])


def test_compiled(device):
    ends = torch.tensor([3, 8], dtype=torch.int32, device=device)
    a, b = integers(8, 6, device=device), integers(2, 6, 4, device=device, seed=2)
    compiled = torch.compile(lambda x, w, e: tilewise.torch.grouped_mm(x, w, e) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, b, ends), by_loop(a, b, ends) * 2)
    a.requires_grad_(), b.requires_grad_()
    wanted = torch.autograd.grad((by_loop(a, b, ends) * 2).sum(), (a, b))
    for got, want in zip(torch.autograd.grad(compiled(a, b, ends).sum(), (a, b)), wanted):
        assert torch.equal(got, want)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="GPUs have graphs")
@pytest.mark.parametrize("by_depth", [False, True])
def test_a_replayed_graph_reads_the_ends_anew(by_depth):
    a = integers(200, 64, device="cuda", dtype=torch.bfloat16)
    b = integers(200, 48, device="cuda", dtype=torch.bfloat16, seed=2) if by_depth else integers(3, 64, 48, device="cuda", dtype=torch.bfloat16, seed=2)
    a = a.t() if by_depth else a
    ends = torch.tensor([50, 50, 200], dtype=torch.int32, device="cuda")
    tilewise.torch.grouped_mm(a, b, ends)  # loads the kernel before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = tilewise.torch.grouped_mm(a, b, ends)
    for numbers in ([200, 200, 200], [0, 1, 200], [3, 70, 200]):
        ends.copy_(torch.tensor(numbers, dtype=torch.int32))
        graph.replay()
        assert torch.equal(found, by_loop(a, b, ends))


def test_tuned_by_distribution(database):
    (row,) = tilewise.tune((64, 16, 24), groups=4, distribution="zipf", device="host", budget=2, max_evaluations=1, progress=False)
    assert (row["grouped"], row["distribution"]) == ("rows", "zipf")
    assert row["tflops"] == pytest.approx(2e-6 * 64 * 16 * 24 / row["time_us"])
    problem = {name: row[name] for name in ("m", "n", "k", "layout", "dtype", "batch", "grouped", "distribution")}
    (again,) = tilewise.tune(problems=[problem], device="host", budget=2, max_evaluations=1, progress=False)
    assert again["distribution"] == "zipf" and again["evaluated"] == 0
    assert tilewise.explain(64, 16, 24, batch=4, grouped="rows", distribution="zipf", device="host")["match"] == "exact"
