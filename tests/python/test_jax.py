"""tilewise.jax. Skipped without JAX."""
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp
import numpy as np

import tilewise
import tilewise.jax

pytestmark = pytest.mark.filterwarnings("ignore:tilewise")
ON = {"device": "host"} if jax.default_backend() == "cpu" else {}


def integers(shape, dtype=jnp.float32, seed=1):
    return jnp.asarray(np.random.default_rng(seed).integers(-4, 5, shape), dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16, jnp.int8, jnp.float8_e4m3fn])
def test_products(dtype):
    a, b = integers((3, 5, 7), dtype), integers((7, 6), dtype, seed=2)
    c = tilewise.jax.matmul(a, b, **ON)
    assert isinstance(c, jax.Array)
    expected = np.asarray(a.astype(jnp.float32)) @ np.asarray(b.astype(jnp.float32))
    np.testing.assert_array_equal(np.asarray(c.astype(jnp.float32)), expected)


def test_results_are_arrays_of_their_own():
    a, b = integers((4, 4)), integers((4, 4), seed=2)
    first = tilewise.jax.matmul(a, b, **ON)
    kept = np.asarray(first).copy()
    for _ in range(20):
        tilewise.jax.matmul(b, b, **ON)
    np.testing.assert_array_equal(np.asarray(first), kept)
    np.testing.assert_array_equal(np.asarray(first @ b), kept @ np.asarray(b))


def test_traced_arrays_are_refused():
    with pytest.raises(TypeError, match="outside of jit"):
        jax.jit(lambda a: tilewise.jax.matmul(a, a, **ON))(integers((2, 2)))


def test_shapes_that_do_not_fit():
    with pytest.raises(tilewise.InvalidArgument, match=r"\(2, 3\)"):
        tilewise.jax.matmul(integers((2, 3)), integers((2, 3)), **ON)


def test_an_array_of_jax_is_not_written():
    a, out = integers((2, 2)), jnp.zeros((2, 2))
    with pytest.raises(TypeError, match="makes a new one"):
        tilewise.matmul(a, a, out, **ON)
    assert not np.asarray(out).any()
