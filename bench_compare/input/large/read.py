"""Large files → documents, by as many processes as there are processors."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from bench_schema.checks.acceptor import decoder
from bench_schema.checks.duplicate_keys import may_repeat_keys
from bench_schema.codec import build, check_keys
from bench_schema.document import SCHEMA_VERSION, Document
from bench_schema.errors import DocumentError

from bench_compare.input.large.decode import Part, built, decode_part
from bench_compare.input.large.parts import Fetch, Layout, layout, open_text, pieces
from bench_compare.input.large.share import Shelf, Stored
from bench_compare.parallel import process_count, share_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LEAST_BYTES = 1 << 22
"""Of a file that is worth it: to start takes longer than to read a smaller one."""
PIECE_BYTES = 1 << 23
"""Of text that a process reads at a time, into the memory of the piece before."""
DOUBTS = (msgspec.MsgspecError, ValueError, DocumentError)
"""What a document may not be valid by. The ordinary reader says whether, and why."""
Found: TypeAlias = "tuple[Part, dict[str, Stored] | None] | None"
"""A part and where its samples are, if not in it; None: it may not be valid."""


class Text(NamedTuple):
    path: Path
    size: int
    fetch: Fetch
    layout: Layout


class Job(NamedTuple):
    text: Text
    first: int
    last: int


def read_large(paths: Sequence[Path]) -> Mapping[Path, Document]:
    """The documents of those files that are large and surely valid."""
    texts = [text for path in paths if (text := _text(path)) is not None]
    if not texts:
        return {}
    processes = process_count(sum(text.size for text in texts), LEAST_BYTES)
    cut = [[Job(text, *one) for one in _cut(text, processes)] for text in texts]
    turns = itertools.zip_longest(*cut)
    jobs = [job for some in turns for job in some if job is not None]
    parts = dict(zip(jobs, _decoded(jobs, processes), strict=True))
    found = zip(texts, ([parts[job] for job in some] for some in cut), strict=True)
    documents = {text.path: _document(text, some) for text, some in found}
    return {path: one for path, one in documents.items() if one is not None}


def _text(path: Path) -> Text | None:
    try:
        if not path.is_file() or path.stat().st_size < LEAST_BYTES:
            return None
        size, fetch = open_text(path)
        found = layout(fetch, size)
    except (OSError, *DOUBTS):
        return None
    return None if found is None else Text(path, size, fetch, found)


def _cut(text: Text, count: int) -> list[tuple[int, int]]:
    """So that `count` processes have about as much to do."""
    rounds = -(-text.size // (count * PIECE_BYTES))
    try:
        return pieces(text.fetch, text.layout, count * rounds)
    except DOUBTS:
        return []


def _decoded(jobs: Sequence[Job], processes: int) -> list[Part | None]:
    """What is made of each job, by one process or more."""
    if processes == 1:
        return [_decode(job) for job in jobs]
    shelves = [Shelf() for _ in jobs]
    owner = os.getpid()

    def work(some: range) -> list[Found]:
        return [_put(_decode(jobs[n]), shelves[n], own=os.getpid() == owner) for n in some]

    with contextlib.ExitStack() as stack:
        for shelf in shelves:
            stack.callback(shelf.close)
        found = share_out(work, len(jobs), 1, 1)
        return [_taken(one, shelf) for one, shelf in zip(found, shelves, strict=True)]


def _decode(job: Job) -> Part | None:
    try:
        return decode_part(job.text.fetch, job.first, job.last)
    except DOUBTS:
        return None


def _put(part: Part | None, shelf: Shelf, *, own: bool) -> Found:
    if part is None or own:
        return None if part is None else (part, None)
    table, stored = shelf.put(part.table)
    return part._replace(table=table), stored


def _taken(found: Found, shelf: Shelf) -> Part | None:
    if found is None:
        return None
    part, stored = found
    return part if stored is None else part._replace(table=shelf.take(part.table, stored))


def _document(text: Text, parts: Sequence[Part | None]) -> Document | None:
    where = str(text.path)
    try:
        frame = build(decoder(SCHEMA_VERSION, "")(text.layout.frame), Document)
        cases = tuple(case for part in parts if part for case in built(part, text.fetch))
        document = replace(frame, cases=cases)
        check_keys(document, where)
    except DOUBTS:
        return None
    sure = parts and all(parts) and not frame.cases and not may_repeat_keys(text.layout.frame)
    return document if sure else None
