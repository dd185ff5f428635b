"""Large documents: read in parts by several processes, their rounds as columns.

Only what is surely valid is read this way; for all else the ordinary reader has the word.

It stays for memory: two documents of 100,000 cases of 100 samples are compared in 1.1 GiB a process
(93 s, 41 s of processor time), by way of the ordinary reader in 2.4 GiB (214 s, 78 s). Of 10,000
cases of 1,000 samples it is 0.28 GiB (16 s, 7.3 s) and 0.46 GiB (28 s, 9.3 s), on two processors
that others used too (2026-11-23). Reading alone takes as long as plain decoding by msgspec, 4.2 and
4.1 s, in a quarter of its memory (`tests/benchmarks/reading_paths.py`, the same day).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import mmap
import os
import re
import sys
import tempfile
import typing
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from bench_schema.checks.acceptor import Arrays, decoder, limits, load_schema, outline
from bench_schema.checks.duplicate_keys import may_repeat, may_repeat_keys
from bench_schema.checks.validator import check, check_case
from bench_schema.codec import (
    build,
    check_keys,
    check_rounds,
    parse,
    refuse_not_finite,
    whole_numbers,
)
from bench_schema.document import SCHEMA_VERSION, Case, Document, Round
from bench_schema.errors import DocumentError, UnreadableError
from bench_schema.packing import GZIP_MAGIC, ZSTD_MAGIC, read_bytes
from bench_schema.upgrade import version_of

from bench_compare.parallel import process_count, take_turns
from bench_compare.rounds.lazy import LazyRounds
from bench_compare.rounds.table import RoundTable, joined, table_of
from bench_compare.statistics.samples import SampleParts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from bench_schema.document import Samples

    from bench_compare.rounds.table import RoundTable
    from bench_compare.statistics.arrays import Ints

T = TypeVar("T")


# The text of a large document, and the parts of it that can be read apart.
#
# Parts are cut where our own writer puts the border of two cases. What is no border after all makes
# a part that is no list of cases, and the document is read as a whole.

CASES = re.compile(rb',"cases":\[')
AFTER_CASES = b'],"parts":['
BORDER = re.compile(rb'\},\{"id":')
WINDOW_BYTES = 1 << 16
"""What stands around the cases is found in so much of either end, or else in all of the text."""
STEP_BYTES = 1 << 14
"""The border of two cases is looked for in so much at a time."""
LONGEST_BORDER = 16
OPEN, CLOSE = ord("["), ord("]")


@dataclass(frozen=True)
class Layout:
    """Where the cases of a document are in its text."""

    first: int
    last: int
    frame: bytes
    """The document without its cases."""


Span: TypeAlias = "tuple[int, int]"
"""Of a text: its first byte, and the one after its last."""
Fetch: TypeAlias = Callable[[int, int], bytearray]
"""A range of a text, as memory of the caller's own."""


class Reread:
    """Ranges of a file that stays as it is: nothing of it has to be in memory."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.state = _state(file)

    def __call__(self, first: int, last: int) -> bytearray:
        """Raises `UnreadableError` where it is no longer the file that it was."""
        found = bytearray(last - first)
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(first)
                whole = file.readinto(found) == len(found)
                same = _state(file) == self.state
        except OSError as error:
            raise UnreadableError(str(self.path), f"cannot be read: {error.strerror}") from None
        if not (same and whole):
            raise UnreadableError(str(self.path), "it was changed while it was read")
        return found


def _state(file: BinaryIO) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def open_text(path: Path) -> tuple[int, Fetch]:
    """How long the text of a file is, unpacked, and how to come by ranges of it."""
    with path.open("rb") as file:
        if not file.peek(4).startswith((GZIP_MAGIC, ZSTD_MAGIC)):
            return os.fstat(file.fileno()).st_size, Reread(path, file)
    data = read_bytes(path)
    return len(data), lambda first, last: bytearray(data[first:last])


def layout(fetch: Fetch, size: int) -> Layout | None:
    """None where it is written in another way than ours."""
    for window in (min(WINDOW_BYTES, size), size):
        head, tail = fetch(0, window), fetch(size - window, size)
        begin, end = CASES.search(head), tail.rfind(AFTER_CASES)
        if begin is not None and end >= 0:
            first, last = begin.end(), size - window + end
            return Layout(first, last, bytes(head[:first] + tail[end:])) if first <= last else None
    return None


def pieces(fetch: Fetch, found: Layout, count: int) -> list[Span]:
    """Ranges of the text of about equal length, `count` at most, each of whole cases."""
    starts = [found.first]
    for part in range(1, count):
        place = found.first + (found.last - found.first) * part // count
        for start in range(max(place, starts[-1]), found.last, STEP_BYTES):
            text = fetch(start, min(start + STEP_BYTES + LONGEST_BORDER, found.last))
            border = BORDER.search(text)
            if border is not None:
                starts.append(start + border.start() + 2)
                break
        else:
            break  # nor is there one behind a later place
    ends = [*(start - 1 for start in starts[1:]), found.last]
    return list(zip(starts, ends, strict=True))


def as_list(fetch: Fetch, span: Span) -> bytearray:
    """The text of a piece as that of a list: what parts it from its neighbours is a bracket."""
    first, last = span
    text = fetch(first - 1, last + 1)
    text[0], text[-1] = OPEN, CLOSE
    return text


# Samples in memory that processes share: a pipe would take as long as parsing them does.


@dataclass(frozen=True, eq=False)
class Stored:
    """Arrays that stand one after another on a shelf."""

    offset: int
    sizes: Ints


Places: TypeAlias = Mapping[str, Stored]
"""Where the samples of each series of a table are."""


class Shelf:
    """Made before a process is forked; filled by that process, looked at by the other one."""

    def __init__(self) -> None:
        if sys.platform == "linux":
            self.handle = os.memfd_create("samples")
        else:
            with tempfile.TemporaryFile() as file:
                self.handle = os.dup(file.fileno())
        self.size = 0

    def put(self, table: RoundTable) -> tuple[RoundTable, Places]:
        """The table without its samples, and where those of each series stand now."""
        stored, series = {}, {}
        for name, one in table.series.items():
            values = np.concatenate([*one.samples, np.empty(0, np.int64)])
            with open(self.handle, "wb", closefd=False) as file:
                file.write(values.data)
            stored[name] = Stored(self.size, one.samples.sizes)
            self.size += values.nbytes
            series[name] = replace(one, samples=SampleParts.of(()))
        return replace(table, series=series), stored

    def take(self, table: RoundTable, stored: Sequence[Places]) -> RoundTable:
        """The table with its samples, which are where they were put, some neighbouring cases at a
        time."""
        size = os.fstat(self.handle).st_size
        memory = mmap.mmap(self.handle, size, access=mmap.ACCESS_READ) if size else b""
        values = np.frombuffer(memory, np.int64)
        series = {}
        for name, one in table.series.items():
            here = [at[name] for at in stored if name in at]
            sizes = np.concatenate([part.sizes for part in here])
            first = np.concatenate(
                [part.offset // values.itemsize + offsets(part.sizes) for part in here]
            )
            samples = SampleParts([values], np.zeros_like(first), first, sizes)
            series[name] = replace(one, samples=samples)
        return replace(table, series=series)

    def close(self) -> None:
        """What was taken stays."""
        os.close(self.handle)


def offsets(sizes: Ints) -> Ints:
    """Where each of neighbours begins."""
    return np.asarray(np.cumsum(sizes) - sizes)


# Blocks of a document's text → the columns of their rounds, and their cases without them.


SPANS_KEPT = 64
"""Blocks of which it is remembered where their cases are."""


@dataclass(frozen=True, eq=False)
class CaseBlock:
    """Neighbouring cases of a document."""

    cases: bytes
    """Packed, without rounds."""
    count: int
    table: RoundTable


@dataclass(frozen=True, eq=False)
class ReadShare:
    """Blocks of a document that one process read, not all of them neighbours."""

    numbers: Sequence[int]
    """Of the blocks."""
    counts: Sequence[int]
    """Cases of each."""
    cases: Sequence[bytes]
    """Of each, packed, without rounds."""
    table: RoundTable
    """The rounds of all of them."""


def decode_block(fetch: Fetch, span: Span) -> CaseBlock:
    """Raises `ValueError` or `DocumentError` for what may not be valid."""
    cases = _cases_decoder().decode(as_list(fetch, span))
    # Arrays in the place of the texts of all series.
    arrays = {name: Arrays(*bounds) for name, bounds in limits(SCHEMA_VERSION, "Series").items()}
    for case in cases:
        for one in case.rounds:
            for name in one.series:
                arrays[name].add(one.series, name)
    for some in arrays.values():
        some.flush()
    for case in cases:
        check_rounds(case, "")
    table = table_of(cases)
    for case in cases:
        case.rounds = []
    return CaseBlock(msgspec.msgpack.encode(cases), len(cases), table)


def share_of(blocks: dict[int, CaseBlock]) -> ReadShare:
    """What a process read, by the number of the block."""
    some = list(blocks.values())
    table = joined([one.table for one in some])
    return ReadShare(list(blocks), [one.count for one in some], [one.cases for one in some], table)


@functools.cache
def _cases_decoder() -> msgspec.json.Decoder[list[Any]]:
    kind: Any = list[outline(SCHEMA_VERSION, "Case", frozenset({"series"}))]  # type: ignore[misc]
    return msgspec.json.Decoder(kind)


# --- cases of what was read ---


class PackedValues(Mapping[str, T]):
    """Values by their names, built anew at each look: those of few cases are looked at."""

    __slots__ = ("_names", "_packed", "_unpack")

    def __init__(
        self, names: tuple[str, ...], packed: bytes, unpack: Callable[[bytes], Mapping[str, T]]
    ) -> None:
        self._names, self._packed, self._unpack = names, packed, unpack

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> T:
        return self._unpack(self._packed)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class CaseBuilder:
    """Cases of documents that are valid and compared with each other: equal parts of them are one
    object, and what few are asked for stays packed. So each takes 1 kB in place of 2."""

    def __init__(self) -> None:
        types = typing.get_type_hints(Case)
        self.parts: dict[str, Callable[[msgspec.Raw], Any]] = {
            name: _shared(types[name]) for name in types if name != "rounds"
        }
        self.parts["init"] = _late(_init_of)
        self.parts["summary"] = _late(msgspec.msgpack.Decoder(types["summary"]).decode)
        names = [(one.name, msgspec.Raw if one.name in self.parts else Any) for one in fields(Case)]
        shell: Any = msgspec.defstruct("Shell", names, gc=False)
        self.decode: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[shell]).decode

    def built(
        self, share: ReadShare, fetch: Fetch, spans: Sequence[Span]
    ) -> Iterator[tuple[int, list[Case]]]:
        """Each block's number and cases, whose rounds are built when they are looked at; `spans`:
        where in the text the blocks of the document are."""
        counts = np.diff(share.table.starts).tolist()
        first = 0
        parts = [self.parts.get(one.name) for one in fields(Case)]
        for number, count, packed in zip(share.numbers, share.counts, share.cases, strict=True):
            build = functools.partial(_rounds_at, fetch, spans[number], first)
            cases = []
            for place, shell in enumerate(self.decode(packed), first):
                rounds = LazyRounds(share.table, place, counts[place], build)
                raw = msgspec.structs.astuple(shell)
                values: list[Any] = [
                    rounds if of is None else of(value)
                    for of, value in zip(parts, raw, strict=True)
                ]
                cases.append(Case(*values))
            yield number, cases
            first += count


def _shared(kind: Any) -> Callable[[msgspec.Raw], Any]:
    decode = msgspec.msgpack.Decoder(kind).decode
    known: dict[bytes, Any] = {}

    def value(packed: msgspec.Raw) -> Any:
        text = bytes(packed)
        found = known.get(text, known)
        if found is known:  # it may be None
            found = known[text] = decode(text)
        return found

    return value


def _late(unpack: Callable[[bytes], Mapping[str, Any]]) -> Callable[[msgspec.Raw], Any]:
    names_in = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
    known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def values(packed: msgspec.Raw) -> Mapping[str, Any]:
        text = bytes(packed)
        names = tuple(names_in(text))
        return PackedValues(known.setdefault(names, names), text, unpack)

    return values


def _init_of(packed: bytes) -> dict[str, Samples]:
    found = msgspec.msgpack.decode(packed, type=dict[str, list[int]])
    return {name: np.array(values, np.int64) for name, values in found.items()}


class _OnlyRounds(msgspec.Struct):
    """What is read of a case whose other fields are known already."""

    rounds: tuple[Round, ...] = ()


def _rounds_at(fetch: Fetch, block: Span, first: int, place: int) -> tuple[Round, ...]:
    """Of the case at a place of a table, where the block's first case is at `first`."""
    text = fetch(*_case_spans(fetch, block)[place - first])
    return msgspec.json.decode(text, type=_OnlyRounds, dec_hook=_samples).rounds


@functools.lru_cache(SPANS_KEPT)
def _case_spans(fetch: Fetch, block: Span) -> list[Span]:
    text = as_list(fetch, block)
    start = block[0] - 1 - _address(text)
    cases = msgspec.json.decode(text, type=list[msgspec.Raw])
    places = [start + _address(case) for case in cases]
    return [(at, at + len(memoryview(case))) for at, case in zip(places, cases, strict=True)]


def _address(text: Any) -> int:
    """Of its first byte."""
    address: int = np.frombuffer(text, np.uint8).__array_interface__["data"][0]
    return address


def _samples(_kind: type, values: Any) -> Any:
    found = np.array(values, np.int64)
    found.flags.writeable = False
    return found


# What is wrong with a document whose block cannot be read.


def refuse_frame(frame: bytes, where: str) -> None:
    """Raise what the ordinary reader would say of a document without its cases, unless only it
    knows: what it is, if it is none of ours; whether fields that are missing stand behind the
    cases."""
    try:
        tree = parse(frame, where)
        current = version_of(tree, where) == SCHEMA_VERSION
    except DocumentError:
        return
    if current and tree.keys() >= set(load_schema(SCHEMA_VERSION)["required"]):
        check(tree, SCHEMA_VERSION, where)


def refuse_block(fetch: Fetch, block: Span, where: str, before: int) -> None:
    """The same of the first case that is wrong in a block; so many cases are `before`."""
    text = bytes(as_list(fetch, block))
    try:
        trees = parse(text, where)
    except DocumentError:
        refuse_not_finite(text, where, before)
        return  # of what is no JSON it says where that is in the file
    for number, tree in enumerate(trees, before):
        check_case(tree, SCHEMA_VERSION, where, number)
        try:
            case = build(whole_numbers(tree), Case)
        except (msgspec.MsgspecError, OverflowError):
            return  # a number is too large
        check_rounds(case, f"{where}: cases[{number}]")


# Large files → documents, by as many processes as there are processors.
#
# Their texts are cut into blocks, which the processes take in turns. Where a block may not be valid
# nobody reads on in its document: what is wrong with it is then said, or the ordinary reader has
# the word.


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


class ReadTurn(NamedTuple):
    """What a process does at a time."""

    text: int
    block: int
    """`KEYS`: no block, but the keys of all the text are looked at."""


class ReadPart(NamedTuple):
    """What one process read of a document."""

    share: ReadShare
    process: int
    """Its number; 0 is this one."""
    stored: Sequence[Places]
    """Where the samples are on its shelf."""

    @property
    def numbers(self) -> Sequence[int]:
        """Of the blocks."""
        return self.share.numbers


class Found(NamedTuple):
    """What one process read."""

    parts: Mapping[int, ReadPart]
    """By the number of the text."""
    doubts: Sequence[ReadTurn]


def read_large(paths: Sequence[Path]) -> Mapping[Path, Document]:
    """The documents of those files that are large and surely valid. Raises `DocumentError` for one
    that surely is not; the others, which are not there, the ordinary reader has to look at."""
    texts = [text for path in paths if (text := _text(path)) is not None]
    if not texts:
        return {}
    processes = process_count(sum(text.size for text in texts), LEAST_BYTES)
    with contextlib.ExitStack() as stack:
        shelves = [Shelf() for _ in range(processes)]
        for shelf in shelves:
            stack.callback(shelf.close)
        found, builder = _found(texts, shelves), CaseBuilder()
        documents = {
            text.path: _read(number, text, found, shelves, builder)
            for number, text in enumerate(texts)
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
    try:
        frame = build(decoder(SCHEMA_VERSION, "")(found.frame), Document)
    except msgspec.MsgspecError:
        refuse_frame(found.frame, str(path))
        return None
    return None if frame.cases else Text(path, size, fetch, frame, blocks)


# --- what each process does ---


def _found(texts: Sequence[Text], shelves: Sequence[Shelf]) -> list[Found]:
    """What all processes read: every block, but for texts with doubts."""
    blocks = [[ReadTurn(n, one) for one in range(len(text.blocks))] for n, text in enumerate(texts)]
    turns = [ReadTurn(number, KEYS) for number in range(len(texts))]
    turns += [turn for some in itertools.zip_longest(*blocks) for turn in some if turn]
    doubtful = mmap.mmap(-1, len(texts))  # shared by all processes: a flag for each text

    def work(number: int, some: Iterable[int]) -> Found:
        reader = _Reader(texts, number, shelves[number])
        for one in some:
            if not (doubtful[turns[one].text] or reader.take(turns[one])):
                doubtful[turns[one].text] = True
        return reader.found()

    every, _ = take_turns(work, len(turns), len(shelves), lambda: None)
    found = [one for one in every if one is not None]
    if len(found) < len(every):  # a process was lost, what it took, and why it had doubts
        doubtful[:] = bytes(len(texts))
        known = {
            ReadTurn(n, b) for one in found for n, part in one.parts.items() for b in part.numbers
        }
        found.append(work(0, [n for n, turn in enumerate(turns) if turn not in known]))
    return found


class _Reader:
    """One process."""

    def __init__(self, texts: Sequence[Text], number: int, shelf: Shelf) -> None:
        self.texts, self.number, self.shelf = texts, number, shelf
        self.blocks: dict[int, dict[int, CaseBlock]] = defaultdict(dict)
        self.stored: dict[int, list[Places]] = defaultdict(list)
        self.doubts: list[ReadTurn] = []

    def take(self, turn: ReadTurn) -> bool:
        """Whether what was read is surely valid."""
        text = self.texts[turn.text]
        try:
            if turn.block == KEYS:
                sure = not may_repeat(text.fetch, text.size)
            else:
                block = decode_block(text.fetch, text.blocks[turn.block])
                table, places = self.shelf.put(block.table)
                self.stored[turn.text].append(places)
                self.blocks[turn.text][turn.block] = replace(block, table=table)
                sure = True
        except DOUBTS:
            sure = False
        if not sure:
            self.doubts.append(turn)
        return sure

    def found(self) -> Found:
        shares = {number: share_of(blocks) for number, blocks in self.blocks.items()}
        parts = {n: ReadPart(one, self.number, self.stored[n]) for n, one in shares.items()}
        return Found(parts, self.doubts)


# --- documents of what was read ---


def _read(
    number: int,
    text: Text,
    found: Sequence[Found],
    shelves: Sequence[Shelf],
    builder: CaseBuilder,
) -> Document | None:
    """None where the ordinary reader has the word."""
    doubts = {turn.block for one in found for turn in one.doubts if turn.text == number}
    blocks: dict[int, list[Case]] = {}
    for one in found:
        if number in one.parts:
            part = one.parts[number]
            table = shelves[part.process].take(part.share.table, part.stored)
            share = replace(part.share, table=table)
            blocks.update(builder.built(share, text.fetch, text.blocks))
    sure = list(itertools.takewhile(blocks.__contains__, range(len(text.blocks))))
    cases = tuple(itertools.chain.from_iterable(blocks[block] for block in sure))
    if len(sure) in doubts:  # the first block that is not there: all before it were taken before it
        refuse_block(text.fetch, text.blocks[len(sure)], str(text.path), len(cases))
    if doubts or len(sure) < len(text.blocks):
        return None
    document = replace(text.frame, cases=cases)
    check_keys(document, str(text.path))
    return document
