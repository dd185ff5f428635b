"""Which files of a folder or archive are graphs, and what the others are. Names only, no contents.

hipDNN's bundles and sweeps: graphs/FORMAT.md, Golden data and Sweeps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from tempfile import TemporaryDirectory

TEMPLATE = "a sweep template"
SWEEP = "the case list of a sweep template"
_BY_ENDING = {
    "template": TEMPLATE,
    "sweep": SWEEP,
    "meta": "a bundle's metadata",
    "support": "a bundle's support claims",
    "tolerance": "tolerances of a graph",
}
_GOLDEN_TENSOR = re.compile(r"(.+)\.tensor\d+\.bin")
SIDE_FILE = re.compile(r"(.+\.)?tensor\d+\.bin|.*\.golden/.+")
"""Golden data, by name: what an archive's graphs need on disk."""

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")


@dataclass(frozen=True)
class Source:
    """The files of a folder or an archive, by relative name with slashes."""

    shown: str
    """How messages and the document call it, up to the relative name: ``graphs/``, ``a.zip!``."""
    names: tuple[str, ...]
    read: Callable[[str], bytes]
    root: Path | None
    """Where golden data lie on disk, under the same names; None if there are none."""
    keeper: TemporaryDirectory[str] | None = None
    """Holds unpacked golden data for as long as the source is referenced."""

    def show(self, name: str) -> str:
        return self.shown + name


@dataclass(frozen=True)
class Selection:
    graphs: tuple[str, ...]
    sweeps: tuple[tuple[str, str], ...]
    """Template and its case list."""
    skipped: tuple[tuple[str, str], ...]
    """Name and what it is."""


def kind(name: str) -> str | None:
    """What a JSON file is that is no graph by its name; None if its name says nothing."""
    stem = PurePosixPath(name).name.removesuffix(".json")
    return _BY_ENDING.get(stem.rpartition(".")[2])


def sweep_partner(template: str) -> str:
    """The case list of a template: ``graph.template.json`` has ``sweep.json`` beside it."""
    path = PurePosixPath(template)
    name = "sweep.json"
    if path.name != "graph.template.json":
        name = path.name.removesuffix("template.json") + name
    return str(path.with_name(name))


def select(names: tuple[str, ...]) -> Selection:
    """Graphs among the files of a tree; what lies under a sweep or in golden data is none."""
    known = set(names)
    bundles = {str(PurePosixPath(n).parent) for n in names if _base(n) == "graph.template.json"}
    graphs: list[str] = []
    sweeps: list[tuple[str, str]] = []
    skipped: list[tuple[str, str]] = []
    for name in names:
        if name.lower().endswith(ARCHIVES):
            skipped.append((name, "an archive: give its name to read it"))
        if not name.endswith(".json") or _is_inside(name, bundles):
            continue
        what = kind(name)
        if what is None:
            graphs.append(name)
        elif what == TEMPLATE and sweep_partner(name) in known:
            sweeps.append((name, sweep_partner(name)))
        elif what in (TEMPLATE, SWEEP) or _graph_of(name) not in known:
            skipped.append((name, what))
    used = {partner for _, partner in sweeps}
    rest = tuple(entry for entry in skipped if entry[0] not in used)
    return Selection(tuple(graphs), tuple(sweeps), rest)


def _graph_of(sidecar: str) -> str:
    """The graph that ``NAME.meta.json`` and its like belong to."""
    return sidecar.removesuffix(".json").rpartition(".")[0] + ".json"


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _is_inside(name: str, bundles: set[str]) -> bool:
    parents = PurePosixPath(name).parents
    if any(parent.name.endswith(".golden") for parent in parents):
        return True
    return any(str(parent) in bundles for parent in list(parents)[1:])


def stems_with_tensors(names: tuple[str, ...]) -> frozenset[str]:
    """Graphs, without their ending, that have golden tensors as ``NAME.tensor<uid>.bin``."""
    return frozenset(match[1] for name in names if (match := _GOLDEN_TENSOR.fullmatch(name)))


def golden_folder(source: Source, name: str, stems: frozenset[str]) -> Path | None:
    """Where the golden data of a graph lie: ``NAME.golden/``, or beside it, or nowhere."""
    if source.root is None:
        return None
    stem = name.removesuffix(".json")
    folder = source.root / f"{stem}.golden"
    if folder.is_dir():
        return folder
    return folder.parent if stem in stems else None
