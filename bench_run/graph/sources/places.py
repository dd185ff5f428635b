"""What the user named → the files to load: folders, globs, archives and single files."""

from __future__ import annotations

import glob
import os
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.sources import files
from bench_run.graph.sources.archive import LIMITS, is_archive, read_archive
from bench_run.graph.sources.files import Source

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Tree:
    """A source with what is asked of its names again and again."""

    source: Source
    names: frozenset[str]
    stems: frozenset[str]
    """Of graphs that have golden tensors beside them."""


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
    """Everything behind one argument, in order. Raises `GraphError` where nothing is."""
    if os.path.isdir(argument):
        yield from _all_of(_folder_tree(argument))
    elif os.path.exists(argument):
        yield from _file(argument)
    elif glob.has_magic(argument):
        yield from _matches(argument)
    else:
        raise GraphError(argument, "no such file or folder")


def _file(argument: str) -> Iterator[Found]:
    if is_archive(argument):
        yield from _all_of(_tree(read_archive(Path(argument), argument)))
        return
    folder, name = os.path.split(argument)
    task = _task(_flat_tree(folder, os.listdir(folder or ".")), name, named=True)
    if isinstance(task, str):
        raise GraphError(argument, task.removeprefix(f"{argument} "))
    yield task


def _matches(pattern: str) -> Iterator[Found]:
    """The places that a pattern matches, sorted; files that are no graphs are left out."""
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
        if path.endswith(".json") and not _belongs(name, folder, matched):
            yield _task(trees[folder], name, named=False)


def _belongs(name: str, folder: str, matched: set[str]) -> bool:
    """Whether a file is the case list of a template that is matched as well."""
    template = name.removesuffix("sweep.json") + "template.json"
    templates = (template, "graph.template.json" if name == "sweep.json" else template)
    return files.kind(name) == files.SWEEP and any(
        os.path.join(folder, t) in matched for t in templates
    )


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


def _tree(source: Source) -> Tree:
    return Tree(source, frozenset(source.names), files.stems_with_tensors(source.names))


def _flat_tree(folder: str, names: list[str]) -> Tree:
    shown = os.path.join(folder, "")
    return _tree(Source(shown, tuple(names), partial(_read, shown), Path(folder or ".")))


def _folder_tree(folder: str) -> Tree:
    """The files below a folder, sorted. Hidden folders and links to folders are left out."""
    names: list[str] = []
    for place, folders, inside in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        prefix = os.path.relpath(place, folder)
        prefix = "" if prefix == "." else prefix.replace(os.sep, "/") + "/"
        names += [prefix + name for name in inside]
    shown = os.path.join(folder, "")
    return _tree(Source(shown, tuple(sorted(names)), partial(_read, shown), Path(folder)))


def _refuse(error: OSError) -> None:
    raise GraphError(str(error.filename), f"cannot be read: {error.strerror}") from error


def _read(folder: str, name: str) -> bytes:
    path = folder + name
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise GraphError(path, "is not a regular file")
        if info.st_size > LIMITS.graph_bytes:
            raise GraphError(
                path, f"is larger than {LIMITS.graph_bytes >> 20} MiB, the limit for a graph"
            )
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise GraphError(path, f"cannot be read: {error.strerror}") from error
