"""What a recipe is: one row for each operation that an op spec can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from bench_run.graph.make.build import Builder, Value
from bench_run.graph.make.parameters import Parameter, Params

Build: TypeAlias = Callable[[Builder, Params, Value | None], Value]
"""Adds the operation's tensors and nodes; the value is what it reads, when it follows another."""

SHAPE_CLASSES = ("small", "common", "large", "skewed")


@dataclass(frozen=True)
class Recipe:
    name: str
    family: str
    summary: str
    build: Build
    parameters: tuple[Parameter, ...]
    shapes: Mapping[str, tuple[str, ...]]
    """Shape class → default shapes, each as the items of a spec: ``n=2 c=4 h=8 w=8``."""
    aliases: tuple[str, ...] = ()
    direction: str = "fwd"
    backward: tuple[str, ...] = ()
    """Recipes of its gradients."""
    complete: Callable[[Params], Params] = dict
    """Fills in what follows from other parameters and refuses what cannot be."""
    dtypes: tuple[str, ...] = ("float", "half", "bfloat16", "double")
    chains: bool = False
    """Whether it can follow another operation (``conv_fwd+relu``)."""
    only_after: bool = False
    """Whether it must: it has no shape of its own (``bias``)."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Defaults that differ from those of the shared parameter rows."""

    @property
    def by_key(self) -> Mapping[str, Parameter]:
        return {parameter.key: parameter for parameter in self.parameters}
