"""Pipelines and suites: TOML files of graphs, how often each runs, and what passes between them."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from bench_schema.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


# A pipeline as a value: which graphs run, how often, in which order, and what they hand over.
#
# A suite is a pipeline without links. Frozen dataclasses, no I/O.


@dataclass(frozen=True)
class Link:
    """Source of a layer's input: memory that another layer or the pipeline wrote."""

    tensor: str
    """An output of `layer`, or with `layer` None an input of the pipeline."""
    layer: str | None = None
    offset: int = 0
    """Elements between the start of that memory and the start of this tensor."""

    @property
    def text(self) -> str:
        """Return the form of the file: ``ID:TENSOR[@OFFSET]``."""
        head = self.tensor if self.layer is None else f"{self.layer}:{self.tensor}"
        return f"{head}@{self.offset}" if self.offset else head


@dataclass(frozen=True)
class Layer:
    """One entry: a graph in its place. Exactly one of `file` and `op` is there."""

    id: str
    file: Path | None = None
    """Path of a graph, relative to the pipeline's folder."""
    op: str | None = None
    """An op spec; in a plain suite it may make several graphs."""
    repeat: int = 1
    """Executions in a row, each with weights of its own. What follows reads the last one's
    outputs."""
    after: tuple[str, ...] = ()
    """Layers that run before this one, beside those that its links name."""
    links: Mapping[str, Link] = field(default_factory=dict)
    """Links by name of an input tensor (its uid as text if it does not have a name)."""
    init: Mapping[str, str] = field(default_factory=dict)
    """Fill of an input by name of its tensor, in the form of ``--init``."""
    weights: tuple[str, ...] | None = None
    """Input tensors that are weights; None: by the ports of the graph's nodes."""
    variant: Mapping[str, str] = field(default_factory=dict)
    """Engine variant of this layer (``plan = "…"``)."""
    fingerprint: str | None = None
    """Hash of the graph's meaning, as in result documents."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Ids of the layers that run before this one."""
        linked = (link.layer for link in self.links.values() if link.layer is not None)
        return tuple(dict.fromkeys((*linked, *self.after)))


@dataclass(frozen=True)
class Input:
    """A tensor that several layers read and none writes."""

    name: str
    init: str | None = None
    weight: bool = False


@dataclass(frozen=True)
class LeftOut:
    """A part of a model that has no graph."""

    operation: str
    count: int
    share: float | None
    """Share of the model's floating-point operations, from 0 to 1; None if it is not known."""
    reason: str = ""


@dataclass(frozen=True)
class Pipeline:
    name: str
    about: str
    layers: tuple[Layer, ...]
    """Layers in file order."""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Link, ...] = ()
    """The results of the model, where the file names them."""
    left_out: tuple[LeftOut, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, Layer]:
        return {layer.id: layer for layer in self.layers}

    @cached_property
    def order(self) -> tuple[Layer, ...]:
        """Every layer after those it needs; the file's order wherever that allows it.

        Raises `ValueError` with the ids of a circle.
        """
        place = {layer.id: index for index, layer in enumerate(self.layers)}
        sorter = TopologicalSorter({layer.id: layer.needs for layer in self.layers})
        try:
            sorter.prepare()
        except CycleError as error:
            raise ValueError(" → ".join(reversed(error.args[1]))) from None
        ordered: list[Layer] = []
        ready: list[int] = []
        while sorter.is_active():
            for name in sorter.get_ready():
                heappush(ready, place[name])
            ordered.append(self.layers[heappop(ready)])
            sorter.done(ordered[-1].id)
        return tuple(ordered)

    @property
    def is_linked(self) -> bool:
        """True if memory passes between layers; a plain suite has no links."""
        return any(layer.links for layer in self.layers)

    @property
    def neighbours(self) -> Iterator[tuple[Layer, Layer]]:
        """Each pair of layers of which the second reads what the first wrote, or runs right after
        it; none where nothing is linked."""
        before: Layer | None = None
        for layer in self.order if self.is_linked else ():
            names = [before.id] if before is not None else []
            names += [link.layer for link in layer.links.values() if link.layer is not None]
            yield from ((self.by_id[name], layer) for name in dict.fromkeys(names))
            before = layer


# Pipelines from TOML; the file's form is in schema/README.md.
#
# Every mistake is a `PipelineError` of one line that names the file and the entry.


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


KEYS = ("about", "graph", "input", "output", "left_out")
GRAPH_KEYS = (
    *("file", "op", "repeat", "id", "after", "tensor"),
    *("init", "weights", "variant", "fingerprint"),
)
MOST_REPEATS = 1_000_000
_ID = re.compile(r"[^\s:@#]+")
_LINK = re.compile(r"(?:(?P<layer>[^\s:@]+):)?(?P<tensor>.+?)(?:@(?P<offset>\d{1,15}))?")


def read_pipeline(path: Path) -> Pipeline:
    """Return the pipeline or suite of a file. Raises `PipelineError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PipelineError(str(path), f"is not a suite: {error}") from error
    return parse_pipeline(text, path)


def parse_pipeline(text: str, path: Path) -> Pipeline:
    """`path` names the file in messages; graph files are looked for in its folder."""
    where = str(path)
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PipelineError(where, f"is not a suite: {error}") from error
    _refuse_unknown(data, KEYS, where)
    rows = data.get("graph")
    if not isinstance(rows, list) or not rows:
        raise PipelineError(where, "is not a suite: expected a list of [[graph]] entries")
    pipeline = Pipeline(
        name=path.stem,
        about=_text(data, "about", where) or "",
        layers=tuple(_layer(row, path, index) for index, row in enumerate(rows)),
        inputs=tuple(
            _input(row, f"{where}: input[{i}]") for i, row in _tables(data, "input", where)
        ),
        outputs=tuple(_link(t, f"{where}: output") for t in _texts(data, "output", where)),
        left_out=tuple(
            _left_out(row, f"{where}: left_out[{i}]") for i, row in _tables(data, "left_out", where)
        ),
    )
    _check(pipeline, where)
    return pipeline


def _layer(row: Any, path: Path, index: int) -> Layer:
    where = f"{path}: graph[{index}]"
    if not isinstance(row, dict):
        raise PipelineError(where, "expected a table with file or op")
    _refuse_unknown(row, GRAPH_KEYS, where)
    file, op, repeat = row.get("file"), row.get("op"), row.get("repeat", 1)
    if (file is None) == (op is None):
        raise PipelineError(where, "expected one of file and op")
    if not isinstance(file or op, str):
        raise PipelineError(where, "expected text for file or op")
    if type(repeat) is not int or not 1 <= repeat <= MOST_REPEATS:
        raise PipelineError(
            where, f"repeat={repeat!r}: expected a whole number from 1 to {MOST_REPEATS}"
        )
    found = _text(row, "id", where)
    if found is not None and not _ID.fullmatch(found):
        raise PipelineError(where, f"id={found!r}: expected text without blanks, ':', '@' and '#'")
    return Layer(
        id=found or str(index + 1),
        file=None if file is None else path.parent / file,
        op=op,
        repeat=repeat,
        after=_texts(row, "after", where),
        links={
            name: _link(text, f"{where}: tensor.{name}")
            for name, text in _text_table(row, "tensor", where).items()
        },
        init=_text_table(row, "init", where),
        weights=_texts(row, "weights", where) if "weights" in row else None,
        variant=_text_table(row, "variant", where),
        fingerprint=_text(row, "fingerprint", where),
    )


def _link(text: str, where: str) -> Link:
    found = _LINK.fullmatch(text)
    if found is None:
        raise PipelineError(where, f"{text!r}: expected ID:TENSOR or an input's name, and @OFFSET")
    return Link(found["tensor"], found["layer"], int(found["offset"] or 0))


def _input(row: Mapping[str, Any], where: str) -> Input:
    _refuse_unknown(row, ("name", "init", "weight"), where)
    name, weight = _text(row, "name", where), row.get("weight", False)
    if not name:
        raise PipelineError(where, "expected a name")
    if not isinstance(weight, bool):
        raise PipelineError(where, f"weight={weight!r}: expected true or false")
    return Input(name, _text(row, "init", where), weight)


def _left_out(row: Mapping[str, Any], where: str) -> LeftOut:
    _refuse_unknown(row, ("operation", "count", "share", "reason"), where)
    count, share = row.get("count"), row.get("share")
    if type(count) is not int or count < 1:
        raise PipelineError(where, f"count={count!r}: expected a whole number from 1")
    number = isinstance(share, (int, float)) and not isinstance(share, bool)
    if share is not None and not (number and 0 <= share <= 1):
        raise PipelineError(where, f"share={share!r}: expected a number from 0 to 1")
    operation = _text(row, "operation", where)
    if not operation:
        raise PipelineError(where, "expected an operation")
    known = None if share is None else float(share)
    return LeftOut(operation, count, known, _text(row, "reason", where) or "")


def _check(pipeline: Pipeline, where: str) -> None:
    """Check the references between entries."""
    ids: set[str] = set()
    for layer in pipeline.layers:
        if layer.id in ids:
            raise PipelineError(where, f"two entries have the id {layer.id!r}")
        ids.add(layer.id)
    inputs = {each.name for each in pipeline.inputs}
    for layer in pipeline.layers:
        for name, link in layer.links.items():
            _check_link(link, f"{where}: {layer.id}: tensor.{name}", pipeline, inputs)
        for name in layer.after:
            if name not in pipeline.by_id:
                raise PipelineError(f"{where}: {layer.id}: after", f"there is no entry {name!r}")
    for link in pipeline.outputs:
        _check_link(link, f"{where}: output", pipeline, set())
    try:
        pipeline.order  # noqa: B018 - computed to see whether there is one
    except ValueError as error:
        raise PipelineError(where, f"entries wait for each other: {error}") from None


def _check_link(link: Link, where: str, pipeline: Pipeline, inputs: set[str]) -> None:
    if link.layer is not None and link.layer not in pipeline.by_id:
        raise PipelineError(where, f"there is no entry {link.layer!r}")
    if link.layer is None and link.tensor not in inputs:
        raise PipelineError(
            where, f"there is no input {link.tensor!r}; an entry's tensor is written ID:TENSOR"
        )


def _refuse_unknown(row: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    unknown = sorted(set(row) - set(known))
    if unknown:
        raise PipelineError(where, f"unknown key {unknown[0]!r}; known are {', '.join(known)}")


def _text(row: Mapping[str, Any], key: str, where: str) -> str | None:
    found = row.get(key)
    if found is not None and not isinstance(found, str):
        raise PipelineError(f"{where}: {key}", "expected text")
    return found


def _texts(row: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = row.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise PipelineError(f"{where}: {key}", "expected a list of texts")
    return tuple(found)


def _text_table(row: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    found = row.get(key, {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise PipelineError(f"{where}: {key}", "expected a table of texts")
    return dict(found)


def _tables(data: Mapping[str, Any], key: str, where: str) -> list[tuple[int, dict[str, Any]]]:
    found = data.get(key, [])
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise PipelineError(f"{where}: {key}", f"expected a list of [[{key}]] tables")
    return list(enumerate(found))


def pipeline_text(pipeline: Pipeline, folder: Path) -> str:
    """`folder` is where the text will lie: graph files are named as seen from there."""
    lines = [f"about = {_quoted(pipeline.about)}"]
    if pipeline.outputs:
        lines.append(f"output = {_list(link.text for link in pipeline.outputs)}")
    for each in pipeline.inputs:
        lines += ["", "[[input]]", f"name = {_quoted(each.name)}"]
        lines += [f"init = {_quoted(each.init)}"] if each.init is not None else []
        lines += ["weight = true"] if each.weight else []
    for layer in pipeline.layers:
        lines += ["", "[[graph]]", *_write_layer(layer, folder)]
    for row in pipeline.left_out:
        lines += ["", "[[left_out]]", f"operation = {_quoted(row.operation)}"]
        lines += [f"count = {row.count}"]
        lines += [f"share = {row.share!r}"] if row.share is not None else []
        lines += [f"reason = {_quoted(row.reason)}"] if row.reason else []
    return "\n".join(lines) + "\n"


def _write_layer(layer: Layer, folder: Path) -> Iterator[str]:
    yield f"id = {_quoted(layer.id)}"
    if layer.file is not None:
        relative = os.path.relpath(layer.file, folder).replace(os.sep, "/")
        yield f"file = {_quoted(relative)}"
    if layer.op is not None:
        yield f"op = {_quoted(layer.op)}"
    if layer.repeat != 1:
        yield f"repeat = {layer.repeat}"
    if layer.after:
        yield f"after = {_list(layer.after)}"
    if layer.links:
        yield f"tensor = {_table(layer.links)}"
    if layer.init:
        yield f"init = {_table(layer.init)}"
    if layer.weights is not None:
        yield f"weights = {_list(layer.weights)}"
    if layer.variant:
        yield f"variant = {_table(layer.variant)}"
    if layer.fingerprint is not None:
        yield f"fingerprint = {_quoted(layer.fingerprint)}"


def _table(rows: Mapping[str, str] | Mapping[str, Link]) -> str:
    texts = (
        f"{_quoted(key)} = {_quoted(value if isinstance(value, str) else value.text)}"
        for key, value in rows.items()
    )
    return f"{{ {', '.join(texts)} }}"


def _list(texts: Iterator[str] | tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    """Quote as a basic string of TOML, which is JSON's, except for the character DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
