"""Large files → documents, by as many processes as there are processors.

Their texts are cut into blocks, which the processes take in turns. Where a block may not be valid
nobody reads on in its document: what is wrong with it is then said, or the ordinary reader has the
word.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from bench_schema.checks.acceptor import decoder
from bench_schema.checks.duplicate_keys import may_repeat, may_repeat_keys
from bench_schema.codec import build, check_keys
from bench_schema.document import SCHEMA_VERSION, Document
from bench_schema.errors import DocumentError

from bench_compare.input.large.decode import Block, Share, built, decode_block, share_of
from bench_compare.input.large.parts import Fetch, Span, layout, open_text, pieces
from bench_compare.input.large.refuse import refuse_block, refuse_frame
from bench_compare.input.large.share import Places, Shelf
from bench_compare.parallel import process_count, take_turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from bench_schema.document import Case

LEAST_BYTES = 1 << 22
"""Of a file that is worth it: to start takes longer than to read a smaller one."""
BLOCK_BYTES = 1 << 20
"""Of text at a time, about: it and what is made of it stay in the cache meanwhile."""
DOUBTS = (msgspec.MsgspecError, ValueError, RecursionError, DocumentError)
"""What a document may not be valid by."""


class Text(NamedTuple):
    path: Path
    size: int
    fetch: Fetch
    frame: Document
    """The document without its cases."""
    blocks: Sequence[Span]
    """Where its cases are."""


KEYS = -1


class Turn(NamedTuple):
    """What a process does at a time."""

    text: int
    block: int
    """`KEYS`: no block, but the keys of all the text are looked at."""


class Part(NamedTuple):
    """What one process read of a document."""

    share: Share
    process: int
    """Its number; 0 is this one."""
    stored: Sequence[Places]
    """Where the samples are on the shelf of another process."""

    @property
    def numbers(self) -> Sequence[int]:
        """Of the blocks."""
        return self.share.numbers


class Found(NamedTuple):
    """What one process read."""

    parts: Mapping[int, Part]
    """By the number of the text."""
    doubts: Sequence[Turn]


def read_large(paths: Sequence[Path]) -> Mapping[Path, Document]:
    """The documents of those files that are large and surely valid. Raises `DocumentError` for one
    that surely is not; the others, which are not there, the ordinary reader has to look at."""
    texts = [text for path in paths if (text := _text(path)) is not None]
    if not texts:
        return {}
    processes = process_count(sum(text.size for text in texts), LEAST_BYTES)
    with contextlib.ExitStack() as stack:
        shelves = [Shelf() for _ in range(1, processes)]
        for shelf in shelves:
            stack.callback(shelf.close)
        found = _found(texts, shelves)
        documents = {
            text.path: _read(number, text, found, shelves) for number, text in enumerate(texts)
        }
    return {path: one for path, one in documents.items() if one is not None}


def _text(path: Path) -> Text | None:
    try:
        if not path.is_file() or path.stat().st_size < LEAST_BYTES:
            return None
        size, fetch = open_text(path)
        found = layout(fetch, size)
        if found is None or may_repeat_keys(found.frame):
            return None
        blocks = pieces(fetch, found, -(-size // BLOCK_BYTES))
    except (OSError, *DOUBTS):
        return None
    frame = _frame(found.frame, str(path))
    return None if frame is None or frame.cases else Text(path, size, fetch, frame, blocks)


def _frame(text: bytes, where: str) -> Document | None:
    try:
        return build(decoder(SCHEMA_VERSION, "")(text), Document)
    except msgspec.MsgspecError:
        refuse_frame(text, where)
    return None


# --- what each process does ---


def _found(texts: Sequence[Text], shelves: Sequence[Shelf]) -> list[Found]:
    """What all processes read: every block, but for texts with doubts."""
    turns = _turns(texts)
    doubtful = mmap.mmap(-1, len(texts))  # shared by all processes: a flag for each text

    def work(number: int, some: Iterable[int]) -> Found:
        reader = _Reader(texts, number, shelves[number - 1] if number else None)
        for one in some:
            if not (doubtful[turns[one].text] or reader.take(turns[one])):
                doubtful[turns[one].text] = True
        return reader.found()

    every, _ = take_turns(work, len(turns), len(shelves) + 1, lambda: None)
    found = [one for one in every if one is not None]
    if len(found) < len(every):  # a process was lost, what it took, and why it had doubts
        doubtful[:] = bytes(len(texts))
        known = {Turn(n, b) for one in found for n, part in one.parts.items() for b in part.numbers}
        found.append(work(0, [n for n, turn in enumerate(turns) if turn not in known]))
    return found


def _turns(texts: Sequence[Text]) -> list[Turn]:
    keys = [Turn(number, KEYS) for number in range(len(texts))]
    blocks = [[Turn(n, one) for one in range(len(text.blocks))] for n, text in enumerate(texts)]
    return keys + [turn for some in itertools.zip_longest(*blocks) for turn in some if turn]


class _Reader:
    """One process."""

    def __init__(self, texts: Sequence[Text], number: int, shelf: Shelf | None) -> None:
        self.texts, self.number, self.shelf = texts, number, shelf
        self.blocks: dict[int, dict[int, Block]] = defaultdict(dict)
        self.stored: dict[int, list[Places]] = defaultdict(list)
        self.doubts: list[Turn] = []

    def take(self, turn: Turn) -> bool:
        """Whether what was read is surely valid."""
        text = self.texts[turn.text]
        try:
            if turn.block == KEYS:
                sure = not may_repeat(text.fetch, text.size)
            else:
                self._put(turn, decode_block(text.fetch, text.blocks[turn.block]))
                sure = True
        except DOUBTS:
            sure = False
        if not sure:
            self.doubts.append(turn)
        return sure

    def _put(self, turn: Turn, block: Block) -> None:
        if self.shelf is not None:
            table, places = self.shelf.put(block.table)
            block = replace(block, table=table)
            self.stored[turn.text].append(places)
        self.blocks[turn.text][turn.block] = block

    def found(self) -> Found:
        shares = {number: share_of(blocks) for number, blocks in self.blocks.items()}
        parts = {n: Part(one, self.number, self.stored[n]) for n, one in shares.items()}
        return Found(parts, self.doubts)


# --- documents of what was read ---


def _read(
    number: int, text: Text, found: Sequence[Found], shelves: Sequence[Shelf]
) -> Document | None:
    """None where the ordinary reader has the word."""
    doubts = {turn.block for one in found for turn in one.doubts if turn.text == number}
    blocks: dict[int, list[Case]] = {}
    for one in found:
        if number in one.parts:
            blocks.update(built(_off_shelf(one.parts[number], shelves), text.fetch, text.blocks))
    sure = list(itertools.takewhile(blocks.__contains__, range(len(text.blocks))))
    cases = tuple(itertools.chain.from_iterable(blocks[block] for block in sure))
    if len(sure) in doubts:  # the first block that is not there: all before it were taken before it
        refuse_block(text.fetch, text.blocks[len(sure)], str(text.path), len(cases))
    if doubts or len(sure) < len(text.blocks):
        return None
    document = replace(text.frame, cases=cases)
    check_keys(document, str(text.path))
    return document


def _off_shelf(part: Part, shelves: Sequence[Shelf]) -> Share:
    if not part.process:
        return part.share
    table = shelves[part.process - 1].take(part.share.table, part.stored)
    return replace(part.share, table=table)
