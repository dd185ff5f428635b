"""JAX: a function of arrays; what `jax.jit` compiles is a kernel as well.

bench-run --op 'relu: dims=1024x1024' --a numpy --b kernel@in_jax.py
"""

import jax
import jax.numpy as jnp


@jax.jit
def relu(x):
    return jnp.maximum(x, 0)


@jax.jit
def matmul(a, b):
    return jnp.matmul(a, b, preferred_element_type=jnp.float32).astype(a.dtype)
