"""Kinds of files in a folder or archive: graphs and others. Names only, no contents.

hipDNN's bundles and sweeps: graphs/FORMAT.md, Golden data and Sweeps.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.sources import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")
OTHER_ARCHIVES = (".bz2", ".xz", ".zst", ".7z", ".rar")


@dataclass(frozen=True)
class FileSource:
    """The files of a folder or an archive, by relative name with slashes."""

    shown: str
    """Name in messages and documents, up to the relative name: ``graphs/``, ``a.zip!``."""
    names: tuple[str, ...]
    read: Callable[[str], bytes]
    root: Path | None
    """Folder of golden data on disk, under the same names; None without golden data."""
    keeper: TemporaryDirectory[str] | None = None
    """Holds unpacked golden data for as long as the source is referenced."""

    def show(self, name: str) -> str:
        return self.shown + name


@dataclass(frozen=True)
class FileSelection:
    graphs: tuple[str, ...]
    sweeps: tuple[tuple[str, str], ...]
    """Template and its case list."""
    skipped: tuple[tuple[str, str], ...]
    """Name and what it is."""


def kind(name: str) -> str | None:
    """Return the kind of a JSON file that is not a graph by its name; None if its name does not
    show."""
    stem = PurePosixPath(name).name.removesuffix(".json")
    return _BY_ENDING.get(stem.rpartition(".")[2])


def sweep_partner(template: str) -> str:
    """Return the case list of a template: ``graph.template.json`` has ``sweep.json`` beside it."""
    path = PurePosixPath(template)
    name = "sweep.json"
    if path.name != "graph.template.json":
        name = path.name.removesuffix("template.json") + name
    return str(path.with_name(name))


def claims_of_sweep(case_list: str) -> str:
    """Return the name of the file with the support claims of a sweep: ``support.json`` beside
    ``sweep.json``."""
    return case_list.removesuffix("sweep.json") + "support.json"


def select(names: tuple[str, ...]) -> FileSelection:
    """Return the graphs among the files of a tree, without those below a sweep or in golden
    data."""
    known = set(names)
    bundles = {
        str(PurePosixPath(n).parent) for n in names if n.rpartition("/")[2] == "graph.template.json"
    }
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
        elif (
            what in (TEMPLATE, SWEEP)
            or (name.removesuffix(".json").rpartition(".")[0] + ".json") not in known
        ):
            skipped.append((name, what))
    used = {name for _, partner in sweeps for name in (partner, claims_of_sweep(partner))}
    rest = tuple(entry for entry in skipped if entry[0] not in used)
    return FileSelection(tuple(graphs), tuple(sweeps), rest)


def _is_inside(name: str, bundles: set[str]) -> bool:
    parents = PurePosixPath(name).parents
    if any(parent.name.endswith(".golden") for parent in parents):
        return True
    return any(str(parent) in bundles for parent in list(parents)[1:])


def stems_with_tensors(names: tuple[str, ...]) -> frozenset[str]:
    """Return the names of graphs, without their ending, that have golden tensors as
    ``NAME.tensor<uid>.bin``."""
    return frozenset(match[1] for name in names if (match := _GOLDEN_TENSOR.fullmatch(name)))


def golden_folder(source: FileSource, name: str, stems: frozenset[str]) -> Path | None:
    """Return the folder of a graph's golden data: ``NAME.golden/``, or its own folder, or None."""
    if source.root is None:
        return None
    stem = name.removesuffix(".json")
    folder = source.root / f"{stem}.golden"
    if folder.is_dir():
        return folder
    return folder.parent if stem in stems else None


# Archives of graphs, read in memory. Only golden data are unpacked, into a private folder.
#
# An archive is not trusted: one with names that leave it, with links or devices, or beyond these
# limits is refused.

MOST_FILES, MOST_BYTES, MOST_GRAPH_BYTES = 200_000, 16 << 30, 64 << 20
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    UnicodeDecodeError,  # names of a zip that are not UTF-8 and say that they are
    zlib.error,
    EOFError,
    RuntimeError,  # zipfile: a password or a method that it does not have
    OSError,
)
_Member = tuple[str, int, "Callable[[], IO[bytes] | None]"]
"""Name, bytes, and what opens it."""


def is_archive(path: str) -> bool:
    return path.lower().endswith(ARCHIVES)


def read_archive(path: Path, shown: str) -> FileSource:
    """Return the archive's graphs and their golden data as a source. Raises `GraphError`."""
    with contextlib.ExitStack() as undo:
        keeper = TemporaryDirectory(prefix="bench-run-")
        undo.push(keeper)
        try:
            graphs, side = _unpacked(path, shown, Path(keeper.name))
        except _BROKEN as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
            raise GraphError(shown, f"cannot be read as an archive: {reason}") from error
        names = tuple(sorted((*graphs, *side)))
        if not side:
            return FileSource(f"{shown}!", names, graphs.__getitem__, None)
        undo.pop_all()  # the data stay for as long as the source
        return FileSource(f"{shown}!", names, graphs.__getitem__, Path(keeper.name), keeper)


def _unpacked(path: Path, shown: str, folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the graphs by name, and the names of the golden data, which lie in `folder` then."""
    graphs: dict[str, bytes] = {}
    side: list[str] = []
    total = 0
    for count, (name, size, open_file) in enumerate(_members(path, shown), 1):
        total += size
        if count > MOST_FILES or total > MOST_BYTES:
            limit = f"{MOST_FILES:,} files or {MOST_BYTES >> 30} GiB"
            raise GraphError(shown, f"has more than {limit}: not an archive of graphs")
        is_side = SIDE_FILE.fullmatch(name)
        stream = open_file() if is_side or name.endswith(".json") else None
        if stream is None:
            continue
        with stream:
            if is_side:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    shutil.copyfileobj(stream, file, 1 << 20)
                side.append(name)
            else:
                graphs[name] = _small(stream.read(MOST_GRAPH_BYTES + 1), f"{shown}!{name}")
    return graphs, side


def _members(path: Path, shown: str) -> Iterator[_Member]:
    """Yield the files of an archive, under clean names."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as packed:
            for each in packed.infolist():
                is_plain = stat.S_IFMT(each.external_attr >> 16) in (0, stat.S_IFREG)
                if not each.filename.endswith("/"):
                    name = _clean(each.filename, is_plain, shown)
                    yield name, each.file_size, partial(packed.open, each)
        return
    with tarfile.open(path, "r:*") as archive:
        for info in archive:
            if not info.isdir():
                name = _clean(info.name, info.isreg(), shown)
                yield name, info.size, partial(archive.extractfile, info)


def _clean(name: str, is_plain: bool, shown: str) -> str:
    """Return a name without ``./``. Raises `GraphError` if it leaves the archive, cannot be shown,
    or is not that of a file."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    leaves = name.startswith("/") or ".." in parts or "\\" in name or ":" in name[:3]
    if leaves or not parts or not name.isprintable():
        raise GraphError(shown, f"contains the name {name!r}, which points outside the archive")
    if not is_plain:
        raise GraphError(f"{shown}!{name}", "is a link or device: only files are read")
    return "/".join(parts)


def _small(data: bytes, where: str) -> bytes:
    if len(data) > MOST_GRAPH_BYTES:
        what = f"is larger than {MOST_GRAPH_BYTES >> 20} MiB, the limit for a graph"
        raise GraphError(where, what)
    return data


@dataclass(frozen=True)
class Tree:
    """A source, with an index of its names."""

    source: FileSource
    names: frozenset[str]
    stems: frozenset[str]
    """Stems of graphs with golden tensors next to them."""


@dataclass(frozen=True)
class Task:
    """One file to load: a graph, or a template with its cases."""

    tree: Tree
    name: str
    case_list: str | None
    named: bool
    """The user gave this very file, so it must be a graph."""

    @property
    def path(self) -> str:
        return self.tree.source.show(self.name)


Found = Task | str
"""A string is a note on what was left out."""


def find(argument: str) -> Iterator[Found]:
    """Yield everything behind one argument, in order. Raises `GraphError` if there is nothing."""
    if os.path.isdir(argument):
        # The files below a folder, sorted. Hidden folders and links to folders are left
        # out.
        names: list[str] = []
        for place, folders, inside in os.walk(argument, onerror=_refuse):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            prefix = os.path.relpath(place, argument)
            prefix = "" if prefix == "." else prefix.replace(os.sep, "/") + "/"
            names += [prefix + name for name in inside]
        shown = os.path.join(argument, "")
        yield from _all_of(
            _tree(FileSource(shown, tuple(sorted(names)), partial(_read, shown), Path(argument)))
        )
    elif os.path.exists(argument) and is_archive(argument):
        yield from _all_of(_tree(read_archive(Path(argument), argument)))
    elif os.path.exists(argument):
        if argument.lower().endswith(OTHER_ARCHIVES):
            raise GraphError(argument, f"archives are read as {' '.join(ARCHIVES)}: pack it so")
        folder, name = os.path.split(argument)
        task = _task(_flat_tree(folder, os.listdir(folder or ".")), name, named=True)
        if isinstance(task, str):
            raise GraphError(argument, task.removeprefix(f"{argument} "))
        yield task
    elif glob.has_magic(argument):
        yield from _matches(argument)
    else:
        raise GraphError(argument, f"no such file or folder{_neighbour(argument)}")


def _neighbour(path: str) -> str:
    """Return ``; did you mean …?`` for the path in the same folder that is most like it."""
    folder, name = os.path.split(path.rstrip("/"))
    try:
        names = [each for each in os.listdir(folder or ".") if not each.startswith(".")]
    except OSError:
        return ""
    import difflib

    close = difflib.get_close_matches(name, sorted(names), 1, 0.75)
    return f"; did you mean {os.path.join(folder, close[0])}?" if close else ""


def _matches(pattern: str) -> Iterator[Found]:
    """Yield the places that a pattern matches, sorted, without files that are not graphs."""
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise GraphError(pattern, "matches no file")
    matched = set(paths)
    trees: dict[str, Tree] = {}
    for path in paths:
        if os.path.isdir(path) or is_archive(path):
            yield from find(path)
            continue
        folder, name = os.path.split(path)
        if folder not in trees:
            trees[folder] = _flat_tree(folder, os.listdir(folder or "."))
        # The case list of a template that is matched as well belongs to that one.
        template = name.removesuffix("sweep.json") + "template.json"
        templates = (template, "graph.template.json" if name == "sweep.json" else template)
        belongs = files.kind(name) == files.SWEEP and any(
            os.path.join(folder, each) in matched for each in templates
        )
        if path.endswith(".json") and not belongs:
            yield _task(trees[folder], name, named=False)


def _all_of(tree: Tree) -> Iterator[Found]:
    selection = files.select(tree.source.names)
    tasks = [Task(tree, name, None, named=False) for name in selection.graphs]
    tasks += [Task(tree, name, cases, named=False) for name, cases in selection.sweeps]
    yield from sorted(tasks, key=lambda task: task.name)
    for name, what in selection.skipped:
        yield f"{tree.source.show(name)} is {what}, left out"


def _task(tree: Tree, name: str, *, named: bool) -> Found:
    what = files.kind(name)
    if what is None:
        return Task(tree, name, None, named)
    partner = files.sweep_partner(name)
    if what == files.TEMPLATE and partner in tree.names:
        return Task(tree, name, partner, named)
    hint = f", and its {partner} is not there" if what == files.TEMPLATE else ""
    return f"{tree.source.show(name)} is {what}, not a graph{hint}"


def _tree(source: FileSource) -> Tree:
    return Tree(source, frozenset(source.names), files.stems_with_tensors(source.names))


def _flat_tree(folder: str, names: list[str]) -> Tree:
    shown = os.path.join(folder, "")
    return _tree(FileSource(shown, tuple(names), partial(_read, shown), Path(folder or ".")))


def _refuse(error: OSError) -> None:
    raise GraphError(str(error.filename), f"cannot be read: {error.strerror}") from error


def _read(folder: str, name: str) -> bytes:
    path = folder + name
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise GraphError(path, "is not a regular file")
        with open(path, "rb") as file:
            return _small(file.read(MOST_GRAPH_BYTES + 1), path)
    except OSError as error:
        raise GraphError(path, f"cannot be read: {error.strerror}") from error
