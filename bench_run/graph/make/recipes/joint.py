"""An operation and its gradients as one graph: they share x, w and dy, and what forward leaves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.graph.make.build import Builder, Value
    from bench_run.graph.make.parameters import Params
    from bench_run.graph.make.recipes.recipe import Recipe

NEEDED: Mapping[str, Mapping[str, Any]] = {
    "avgpool": {},
    "avgpool_padded": {},
    "batchnorm_training": {"saved": True},
    "conv_fwd": {},
    "layernorm": {"phase": "training"},
    "maxpool": {"index": True},
    "rmsnorm": {"phase": "training"},
    "sdpa": {"stats": True},
}
"""Choices of the forward operation that make it leave what its gradients read. Activations need
none."""


def joint(forward: Recipe, backward: Sequence[Recipe]) -> Recipe:
    """Return the recipe of both directions."""
    return replace(
        forward,
        name=f"{forward.name.removesuffix('_fwd')}_fwd_bwd",
        summary=f"{forward.name} and its gradient",
        build=partial(_build, forward, backward),
        complete=lambda params: {**forward.complete(params), **NEEDED.get(forward.name, {})},
        aliases=(),
        direction="joint",
        backward=(),
        joint=None,
        chains=False,
        dtypes=tuple(t for t in forward.dtypes if all(t in each.dtypes for each in backward)),
    )


def _build(
    forward: Recipe, backward: Sequence[Recipe], builder: Builder, params: Params, _: Value | None
) -> Value:
    builder.shares = True
    found = forward.build(builder, params, None)
    for each in backward:
        own = {row.key: params.get(row.key, row.default) for row in each.parameters}
        each.build(builder, each.complete(own), None)
    return found
