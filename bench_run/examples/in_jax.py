"""JAX: a function of arrays; what `jax.jit` compiles is a kernel as well.

bench-run --op 'relu: dims=1024x1024' --a numpy --b kernel@in_jax.py
"""

import jax
import jax.numpy as jnp


@jax.jit
def relu(x):
    return jnp.maximum(x, 0)


@jax.jit
def matmul(a, b):  # "highest": a GPU computes float32 in TF32 otherwise
    product = jnp.matmul(a, b, precision="highest", preferred_element_type=jnp.float32)
    return product.astype(a.dtype)
