"""Arrays of CuPy and Numba on a GPU. Skipped without a GPU."""
import numpy as np
import pytest

import tilewise

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")


def integers(shape, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.fixture
def cupy():
    module = pytest.importorskip("cupy")
    try:
        if module.cuda.runtime.getDeviceCount() == 0:
            pytest.skip("no GPU")
    except module.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(str(error))
    return module


@pytest.fixture
def numba_cuda():
    cuda = pytest.importorskip("numba.cuda")
    if not cuda.is_available():
        pytest.skip("no GPU")
    return cuda


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8])
def test_cupy(cupy, dtype):
    a, b = integers((5, 37), dtype=dtype), integers((9, 37), 2, dtype).T
    c = tilewise.matmul(cupy.asarray(a), cupy.asarray(b.T).T)
    assert isinstance(c, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(c).astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def test_cupys_current_stream(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    a = cupy.asarray(integers((2048, 2048)))
    expected = cupy.full((2048, 2048), 3, cupy.float32) @ a
    tilewise.matmul(a, a)
    with stream:
        b = cupy.empty_like(a)
        for _ in range(50):
            b[...] = a @ a  # work that the product must wait for
        b.fill(3)
        c = tilewise.matmul(b, a)
    stream.synchronize()
    cupy.testing.assert_array_equal(c, expected)


def test_numba(numba_cuda):
    a, b = integers((33, 65)), integers((65, 17), 2)
    c = tilewise.matmul(numba_cuda.to_device(a), numba_cuda.to_device(b))
    numba_cuda.synchronize()
    np.testing.assert_array_equal(c.copy_to_host(), a @ b)


def test_libraries_together(cupy):
    torch = pytest.importorskip("torch")
    a, b = integers((33, 65)), integers((65, 17), 2)
    out = torch.empty(33, 17, device="cuda")
    tilewise.matmul(cupy.asarray(a), torch.from_numpy(b).cuda(), out, stream=torch.cuda.current_stream())
    np.testing.assert_array_equal(out.cpu().numpy(), a @ b)
