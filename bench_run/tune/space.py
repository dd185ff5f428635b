"""The axes of a tuning: which ways to run a graph are tried.

``engine``, ``dtype``, ``layout``, ``math`` and ``fusion`` list their values; ``plan=all`` and
``knob:NAME=all`` take them from the engine's own list for the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench_run.engines.base import KNOB_VARIANT
from bench_run.engines.spec import parse_spec
from bench_run.errors import UsageError
from bench_run.graph.dtypes import ALIASES
from bench_run.graph.variants import DATA_TYPES, LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALL = "all"
MATHS = ("fp32", "tf32", "fast")
CHOICES: Mapping[str, Sequence[str]] = {
    "dtype": DATA_TYPES,
    "layout": tuple(LAYOUTS),
    "math": MATHS,
    "fusion": ("on", "off"),
}
"""Axes with a fixed set of values."""
FREE = ("engine", "plan")
"""Axes whose values the engines know."""


@dataclass(frozen=True)
class Space:
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """All but ``engine``, in the order given."""
    engines: tuple[str, ...] = ()
    """Specs, the default's first; empty for the automatic choice."""

    def values(self, axis: str) -> tuple[str, ...]:
        """None of them where the axis is not varied."""
        return self.axes.get(axis, ())

    @property
    def knobs(self) -> Mapping[str, tuple[str, ...]]:
        """By name."""
        return {
            axis.removeprefix(KNOB_VARIANT): values
            for axis, values in self.axes.items()
            if axis.startswith(KNOB_VARIANT)
        }

    @property
    def texts(self) -> tuple[str, ...]:
        """As they can be given to ``--space`` again."""
        engines = (f"engine={','.join(self.engines)}",) if len(self.engines) > 1 else ()
        return (*engines, *(f"{axis}={','.join(v)}" for axis, v in self.axes.items()))


def parse_space(texts: Sequence[str], engines: Sequence[str]) -> Space:
    """Raises `UsageError` that names the axis. `engines` are those of ``--engine``."""
    axes: dict[str, tuple[str, ...]] = {}
    for text in texts:
        axis, values = _axis(text)
        if axis in axes:
            raise UsageError(f"--space {axis}: given twice; list its values after one '='")
        axes[axis] = values
    if "plan" in axes and any(axis.startswith(KNOB_VARIANT) for axis in axes):
        raise UsageError("--space: plan and knob: do not go together, a plan has its knobs")
    named = [*(e for e in engines if e != "auto"), *axes.pop("engine", ())]
    for spec in named:
        parse_spec(spec)
    return Space(axes, tuple(dict.fromkeys(named)))


def _axis(text: str) -> tuple[str, tuple[str, ...]]:
    axis, equals, listed = text.partition("=")
    if axis == KNOB_VARIANT.rstrip(":") or (not equals or not listed):
        raise UsageError(f"--space: expected AXIS=VALUE,..., got {text!r}")
    values = tuple(dict.fromkeys(value.strip() for value in listed.split(",")))
    if "" in values:
        raise UsageError(f"--space {axis}: an empty value in {listed!r}")
    if axis in CHOICES:
        return axis, tuple(_chosen(axis, value) for value in values)
    if axis in FREE or (axis.startswith(KNOB_VARIANT) and axis != KNOB_VARIANT):
        return axis, values
    known = ", ".join((*FREE, *CHOICES, "knob:NAME"))
    raise UsageError(f"--space: no axis {axis!r}; choose from {known}")


def _chosen(axis: str, value: str) -> str:
    value = ALIASES.get(value, value) if axis == "dtype" else value
    if value not in CHOICES[axis]:
        choices = ", ".join(CHOICES[axis])
        raise UsageError(f"--space {axis}: no value {value!r}; choose from {choices}")
    return value
