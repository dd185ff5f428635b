"""Type of a recipe: one row for each operation that an op spec can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_run.errors import UsageError
from bench_run.graph.make.build import Builder, Value
from bench_run.graph.make.parameters import Params, SpecParameter

if TYPE_CHECKING:
    from bench_run.graph.make.build import Dims


Build: TypeAlias = Callable[[Builder, Params, Value | None], Value]
"""Adds the operation's tensors and nodes; the value is what it reads, when it follows another."""

SHAPE_CLASSES = ("small", "common", "large", "skewed")


@dataclass(frozen=True)
class Recipe:
    name: str
    family: str
    summary: str
    build: Build
    parameters: tuple[SpecParameter, ...]
    shapes: Mapping[str, tuple[str, ...]]
    """Shape class → default shapes, each as the items of a spec: ``n=2 c=4 h=8 w=8``."""
    aliases: tuple[str, ...] = ()
    direction: str = "fwd"
    backward: tuple[str, ...] = ()
    """Recipes of its gradients."""
    joint: str | None = None
    """Recipe of the operation and its gradients in one execution."""
    complete: Callable[[Params], Params] = dict
    """Fills in what follows from other parameters and refuses what cannot be."""
    dtypes: tuple[str, ...] = ("float", "half", "bfloat16", "double")
    chains: bool = False
    """True if it can follow another operation (``conv_fwd+relu``)."""
    only_after: bool = False
    """True if it must follow one, as it lacks a shape (``bias``)."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Defaults that differ from those of the shared parameter rows."""

    @property
    def by_key(self) -> Mapping[str, SpecParameter]:
        return {parameter.key: parameter for parameter in self.parameters}


IMAGE_LAYOUTS = {1: ("ncw", "nwc"), 2: ("nchw", "nhwc", "chwn"), 3: ("ncdhw", "ndhwc")}
"""Number of spatial axes → layouts, the default one first."""

ALL_IMAGE_LAYOUTS = tuple(name for names in IMAGE_LAYOUTS.values() for name in names)


def layout_row(key: str, words: str, code: str = "", follows: str | None = None) -> SpecParameter:
    """Return a row for a layout; one that follows another is shown only where it differs."""
    return SpecParameter(
        key,
        None,
        words,
        "choice",
        code,
        ALL_IMAGE_LAYOUTS,
        shape=False,
        always=follows is None,
        follows=follows,
    )


SPATIAL = SpecParameter(
    "spatial", None, "number of spatial axes, 1 to 3 (else as given)", code=None
)
LAYOUT = layout_row("layout", "memory order of the axes")
DTYPE = SpecParameter(
    "dtype", "float", "data type of inputs and outputs", "dtype", "", shape=False, always=True
)


def image_rows(n: int, c: int, size: int) -> tuple[SpecParameter, ...]:
    """Return rows of n, c, d, h, w with these defaults; d, h and w follow `complete_image`."""
    return (
        SpecParameter("n", n, "batch", code="n", always=True),
        SpecParameter("c", c, "channels", code="c", always=True),
        SpecParameter("d", None, "depth (3-D)", code="d", always=True),
        SpecParameter("h", None, f"height, {size} when not given", code="h", always=True),
        SpecParameter("w", None, f"width, {size} when not given", code="w", always=True),
        SPATIAL,
    )


def complete_image(op: str, params: Params, size: int) -> dict[str, Any]:
    """Resolve the spatial rank, the missing lengths and the layout."""
    out = dict(params)
    rank = out["spatial"] = spatial_rank(op, params, ("d", "t"))
    for axis, key in ((3, "d"), (2, "h"), (1, "w")):
        if rank < axis and out[key] is not None:
            raise UsageError(f"{op}: {key}={out[key]} has no meaning with spatial={rank}")
        if rank >= axis and out[key] is None:
            out[key] = size
    out["layout"] = checked_layout(op, "layout", params["layout"], rank)
    return out


def spatial_rank(op: str, params: Params, depth_keys: tuple[str, ...]) -> int:
    deep = any(params.get(key) is not None for key in depth_keys)
    rank = params["spatial"]
    if rank is None:
        return 3 if deep else 2
    if rank not in IMAGE_LAYOUTS:
        raise UsageError(f"{op}: spatial={rank}: choose from 1, 2, 3")
    return int(rank)


def checked_layout(op: str, key: str, layout: str | None, rank: int) -> str:
    names = IMAGE_LAYOUTS[rank]
    if layout is None:
        return names[0]
    if layout not in names:
        raise UsageError(
            f"{op}: {key}={layout} does not fit {rank} spatial axes; choose from {', '.join(names)}"
        )
    return layout


def image_dims(params: Params) -> Dims:
    spatial = (params[key] for key in ("d", "h", "w") if params[key] is not None)
    return (params["n"], params["c"], *spatial)


def per_axis(op: str, key: str, value: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return one number for each spatial axis: a single one counts for all."""
    if len(value) == 1:
        return value * rank
    if len(value) != rank:
        raise UsageError(f"{op}: {key}={'x'.join(map(str, value))} needs 1 or {rank} numbers")
    return value
