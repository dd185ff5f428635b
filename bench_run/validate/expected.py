"""Expected outputs and what allows a result to differ from them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from bench_run.errors import ChangedFileError
from bench_run.validate.measured import Noise  # noqa: TC001 - msgspec reads the fields
from bench_run.validate.outputs import OutputChecker
from bench_run.validate.tolerance import Circumstances, Tolerance, read_overrides, tolerances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storages
    from bench_run.validate.settings import ValidationSettings


NOISE = "reference.noise"
"""File with the noise of a reference (`measured.py`), as JSON by uid."""

APPROXIMATION = "approximation.json"
"""File with the relative L2 error of each output of a graph that approximates another one."""


@dataclass(frozen=True)
class StoredNoise:
    """Content of that file."""

    math: str
    noise: dict[int, Noise]


def make_checker(
    graph: Graph, inputs: Callable[[], Storages], settings: ValidationSettings
) -> OutputChecker | None:
    """Return the checker of a graph's outputs on its usual inputs; None if nothing is expected.
    `inputs` are asked for to work out tolerances. Raises `ChangedFileError` if a file of expected
    outputs is not what it was when it was written."""
    if settings.expected is None:
        return None
    folder = Path(settings.expected)
    files = {name: _read(folder / name) for name in settings.sums}
    for name, content in files.items():
        if settings.sums[name] != sum_of(content):
            raise ChangedFileError(
                f"{folder / name}: the expected outputs were changed on disk after they had been "
                "written: something in this run writes into files that are not its own"
            )
    expected = {
        int(name.removesuffix(".npy")): np.load(io.BytesIO(content))
        for name, content in files.items()
        if name.endswith(".npy")
    }
    noise = None
    if NOISE in files:
        stored = msgspec.json.decode(files[NOISE], type=StoredNoise)
        noise = stored.noise if stored.math == settings.math else None
    errors = json.loads(files.get(APPROXIMATION, b"{}"))
    limits = tolerances_of(graph, inputs(), settings, expected, noise)
    approximation = {int(uid): float(error) for uid, error in errors.items()}
    return OutputChecker(graph, expected, limits, settings.mismatches, approximation)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def sum_of(content: bytes) -> str:
    """Return the hash of a file's content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def sums_of(folder: Path) -> dict[str, str]:
    """Return the hash of each file in a folder, by name."""
    return {path.name: sum_of(path.read_bytes()) for path in folder.iterdir() if path.is_file()}


def tolerances_of(
    graph: Graph,
    inputs: Storages,
    settings: ValidationSettings,
    expected: Storages,
    noise: Mapping[int, Noise] | None = None,
) -> dict[int, Tolerance]:
    """Return what allows outputs on these inputs to differ from the expected ones."""
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
        {"matched": settings.matched, "cosine": settings.cosine},
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
