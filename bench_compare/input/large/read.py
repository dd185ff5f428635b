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
from bench_compare.parallel import process_count, share_out_beside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench_schema.document import Case

LEAST_BYTES = 1 << 22
"""Of a file that is worth it: to start takes longer than to read a smaller one."""
PIECE_BYTES = 1 << 23
"""Of text that a process reads at a time, into the memory of the piece before."""
DOUBTS = (msgspec.MsgspecError, ValueError, DocumentError)
"""What a document may not be valid by. The ordinary reader says whether, and why."""
OWN_COST = 0.06
"""What this process does alone meanwhile, making cases of what it read, as a share of the reading
(2.3 s for two documents of a GPU, 0.13 s of them)."""
Cases: TypeAlias = "tuple[Case, ...]"


class OnShelf(NamedTuple):
    """Cases that another process read, and where their samples are."""

    part: Part
    stored: dict[str, Stored]


Found: TypeAlias = "Cases | OnShelf | None"


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


def _decoded(jobs: Sequence[Job], processes: int) -> list[Cases | None]:
    """The cases of each job, read by one process or more; None where they may not be valid."""
    if processes == 1:
        return [_taken(_decode(job), job) for job in jobs]
    shelves = [Shelf() for _ in jobs]
    owner = os.getpid()

    def work(some: range) -> list[Found]:
        parts = ((n, _decode(jobs[n])) for n in some)
        if os.getpid() == owner:
            return [_taken(part, jobs[n]) for n, part in parts]
        return [None if part is None else _put(part, shelves[n]) for n, part in parts]

    with contextlib.ExitStack() as stack:
        for shelf in shelves:
            stack.callback(shelf.close)
        found, _ = share_out_beside(work, (len(jobs), 1, 1), lambda: None, OWN_COST)
        every = zip(found, shelves, jobs, strict=True)
        return [_off_shelf(one, shelf, job) for one, shelf, job in every]


def _decode(job: Job) -> Part | None:
    try:
        return decode_part(job.text.fetch, job.first, job.last)
    except DOUBTS:
        return None


def _taken(part: Part | None, job: Job) -> Cases | None:
    return None if part is None else tuple(built(part, job.text.fetch))


def _put(part: Part, shelf: Shelf) -> OnShelf:
    table, stored = shelf.put(part.table)
    return OnShelf(part._replace(table=table), stored)


def _off_shelf(found: Found, shelf: Shelf, job: Job) -> Cases | None:
    if not isinstance(found, OnShelf):
        return found
    table = shelf.take(found.part.table, found.stored)
    return _taken(found.part._replace(table=table), job)


def _document(text: Text, parts: Sequence[Cases | None]) -> Document | None:
    where = str(text.path)
    try:
        frame = build(decoder(SCHEMA_VERSION, "")(text.layout.frame), Document)
        cases = tuple(case for part in parts for case in part or ())
        document = replace(frame, cases=cases)
        check_keys(document, where)
    except DOUBTS:
        return None
    sure = parts and None not in parts and not frame.cases
    return document if sure and not may_repeat_keys(text.layout.frame) else None
