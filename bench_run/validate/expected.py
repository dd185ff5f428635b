"""Expected outputs and what allows a result to differ from them, remembered from round to round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from bench_run.files import replacing
from bench_run.validate.outputs import CheckResult, OutputChecker
from bench_run.validate.tolerance import (
    Circumstances,
    Noise,
    Tolerance,
    read_overrides,
    tolerances,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages
    from bench_run.validate.settings import ValidationSettings


NOISE = "reference.noise"
"""File with the noise of a reference that a user wrote (`reference/noise.py`), as JSON by uid."""

APPROXIMATION = "approximation.json"
"""File with the relative L2 error of each output of a graph that approximates another one."""


@dataclass
class Remembered:
    """Results of earlier rounds of a graph: a file next to its expected outputs, valid as long as
    these are, in one run."""

    path: Path
    tolerances: dict[int, Tolerance] | None = None
    results: dict[str, CheckResult] = field(default_factory=dict)
    """Results by checksum of the outputs."""
    saved: int = 0

    @classmethod
    def read(cls, folder: str, math: str = "fp32") -> Remembered:
        """Read the remembered tolerances and results for this arithmetic, with which both differ;
        empty if the file cannot be read."""
        path = Path(folder) / f"remembered-{math}"
        try:
            found = msgspec.msgpack.decode(path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            return cls(path)
        return cls(path, found.tolerances, found.results, len(found.results))

    def save(self) -> None:
        """Save new results; if that fails they are computed again later."""
        if len(self.results) == self.saved or self.tolerances is None:
            return
        with suppress(OSError), replacing(self.path) as part:
            part.write_bytes(msgspec.msgpack.encode(_Kept(self.tolerances, self.results)))


class _Kept(msgspec.Struct):
    """Contents of the file."""

    tolerances: dict[int, Tolerance]
    results: dict[str, CheckResult]


def make_checker(
    graph: Graph, inputs: Callable[[], Storages], settings: ValidationSettings, place: int = 0
) -> tuple[OutputChecker, Remembered] | None:
    """Return the checker of a graph's outputs for set number `place` of its inputs, and what it
    remembers; None if nothing is expected. `inputs` are asked for where tolerances are to be worked
    out."""
    if settings.expected is None:
        return None
    folder = settings.expected if place == 0 else f"{settings.expected}/{place}"
    if not Path(folder).is_dir():
        return None
    known = Remembered.read(folder, settings.math)
    expected = load_expected(folder)
    if known.tolerances is None:
        known.tolerances = _tolerances(graph, inputs(), settings, expected, _read_noise(folder))
    mismatches, errors = settings.mismatches, _approximation(settings.expected)
    return OutputChecker(
        graph, expected, known.tolerances, mismatches, known.results, errors
    ), known


def _tolerances(
    graph: Graph,
    inputs: Storages,
    settings: ValidationSettings,
    expected: Storages,
    noise: Mapping[int, Noise] | None,
) -> dict[int, Tolerance]:
    overrides = dict(custom_overrides(graph))
    if settings.sidecar is not None:
        for name, row in read_overrides(Path(settings.sidecar), graph).items():
            overrides[name] = {**overrides.get(name, {}), **row}
    return tolerances(
        graph,
        settings.policy,
        settings.rtol,
        settings.atol,
        Circumstances(inputs, settings.math, settings.by_engine, expected, noise),
        overrides,
    )


def is_custom(graph: Graph) -> bool:
    """Return True if a file of a user defines the graph's only operation."""
    return len(graph.nodes) == 1 and graph.nodes[0].custom is not None


def custom_overrides(graph: Graph) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield TOLERANCE of the file that defines an operator, by output; ``""`` for all of them."""
    if is_custom(graph):
        custom = graph.nodes[0].custom
        assert custom is not None
        every = {k: v for k, v in custom.tolerance.items() if not isinstance(v, Mapping)}
        if every:
            yield "", every
        yield from ((k, v) for k, v in custom.tolerance.items() if isinstance(v, Mapping))


def _read_noise(folder: str) -> Mapping[int, Noise] | None:
    try:
        found = json.loads((Path(folder) / NOISE).read_bytes())
    except (OSError, ValueError):
        return None
    return {int(uid): (float(a), float(b), float(c)) for uid, (a, b, c) in found.items()}


def _approximation(folder: str) -> Mapping[int, float]:
    try:
        found = json.loads((Path(folder) / APPROXIMATION).read_bytes())
    except (OSError, ValueError):
        return {}
    return {int(uid): float(error) for uid, error in found.items()}


def load_expected(folder: str) -> Mapping[int, np.ndarray[Any, Any]]:
    """Return expected outputs by uid, mapped from disk rather than read."""
    paths = Path(folder).glob("*.npy")
    return {int(path.stem): np.load(path, mmap_mode="r") for path in paths}
