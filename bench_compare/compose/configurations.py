"""Many configurations from one file, in the form in which HPVM's tuner writes them::

    +++++
    conf1 1 1 83.2 0.0
    1 gpu conv fp16 12
    relu*=cudnn
    -----

A block has a name, a speed-up and a reduction of energy, then a line for each layer: its number, or
names and a configuration. What a block does not name runs as in the first one, the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench_schema.knobs import TYPES

from bench_compare.compose.answer import configuration, ratios_of
from bench_compare.compose.setup import Question, Setup, complete
from bench_compare.compose.table import varied_only
from bench_compare.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_schema.knobs import Knob

    from bench_compare.compose.bench import Picks
    from bench_compare.compose.model import Configuration, Ratios

BEGIN, END = "+++++", "-----"


@dataclass(frozen=True)
class Block:
    name: str
    number: int
    """Number of the line with the name, from 1."""
    lines: tuple[tuple[int, str], ...]
    """Its other lines with their numbers."""


@dataclass(frozen=True)
class Simulated:
    """A configuration of the file and what it takes."""

    name: str
    made: Configuration
    ratios: Ratios
    """The first configuration over this one."""


def read_blocks(text: str, where: str) -> tuple[Block, ...]:
    """Return the blocks of a file. Raises `InputError` with the line."""
    blocks: list[Block] = []
    inside: list[tuple[int, str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.strip()
        if plain == BEGIN:
            if inside is not None:
                raise InputError(f"{where}: line {number}: a block begins within another one")
            inside = []
        elif plain == END and inside is not None:
            if not inside:
                raise InputError(f"{where}: line {number}: a block without a name ends")
            (first, head), *lines = inside
            blocks.append(Block(head.split()[0], first, tuple(lines)))
            inside = None
        elif inside is not None and plain and not plain.startswith("#"):
            inside.append((number, plain))
    if not blocks:
        raise InputError(f"{where}: expected blocks between {BEGIN} and {END}")
    return tuple(blocks)


def simulate(
    question: Question, blocks: Sequence[Block], knobs: Sequence[Knob], where: str
) -> list[Simulated]:
    """Return what each block takes, against the first one. Raises `InputError` for a line that
    names nothing."""
    setup = Setup(question)
    variants = {(knob.type, knob.id): knob.variant for knob in knobs}
    base: Picks | None = None
    found = []
    for block in blocks:
        picks = _picks(setup, block, variants, where, base or setup.baseline()[1])
        made = configuration(setup, block.name, picks, setup.bench.table.every)
        if made is None:
            what = f"{where}: {block.name}: conversions between its layers were not measured"
            raise InputError(f"{what}: --choose time names them")
        base = base or picks
        found.append(
            Simulated(
                block.name, made, ratios_of(setup.bench, base, picks, setup.bench.table.every)
            )
        )
    return found


def _picks(
    setup: Setup,
    block: Block,
    variants: Mapping[tuple[str, int], Mapping[str, str]],
    where: str,
    start: Picks | None,
) -> Picks:
    bench, names = setup.bench, setup.names
    rows: list[int | None] = [None] * len(names) if start is None else [*start]
    engine = setup.baseline()[0].split()[0]
    for number, line in block.lines:
        at = f"{where}: line {number}"
        if line.split()[0].isdigit():
            place = int(line.split()[0]) - 1
            if not 0 <= place < len(names):
                raise InputError(f"{at}: no layer {place + 1}; the pipeline has {len(names)}")
            rows[place] = _by_knob(setup, place, line.split(), variants, engine, at)
            continue
        pattern, _, text = line.partition("=")
        if not text:
            known = "expected LAYER=CONFIGURATION, or a layer's number, 'gpu' and its knobs"
            raise InputError(f"{at}: {line!r}: {known}")
        places = [n for n, name in enumerate(names) if fnmatchcase(name, pattern)]
        if not places:
            raise InputError(f"{at}: no layer {pattern!r}; there are {', '.join(names)}")
        for place in places:
            rows[place] = setup.as_named(text, bench)[place]
            if rows[place] is None:
                raise InputError(f"{at}: layer {names[place]}: {_known(setup, place, text)}")
    picks = complete(rows)
    if picks is None:
        lacking = ", ".join(name for name, row in zip(names, rows, strict=True) if row is None)
        raise InputError(f"{where}: {block.name}: no row of {lacking}")
    return picks


def _by_knob(
    setup: Setup,
    place: int,
    words: Sequence[str],
    variants: Mapping[tuple[str, int], Mapping[str, str]],
    engine: str,
    at: str,
) -> int:
    """Return the row of ``1 gpu conv fp16 12``: the first operation of the line counts, as others
    are fused with it."""
    if len(words) < 5 or not words[4].isdigit():
        raise InputError(f"{at}: expected NUMBER gpu OPERATION TYPE KNOB")
    kind, knob = words[3], int(words[4])
    wanted = variants.get((kind, knob))
    if wanted is None:
        if kind not in TYPES:
            raise InputError(f"{at}: {kind} {knob} is in no table of knobs: --space FILE")
        wanted = {"dtype": TYPES[kind]}
    bench = setup.bench
    for row in sorted(bench.usable(place), key=lambda r: bench.rows[r].engine != engine):
        made = bench.rows[row]
        if made.variant == varied_only(wanted, bench.own_type(place)):
            return row
    told = " ".join(f"{key}={value}" for key, value in wanted.items())
    raise InputError(f"{at}: layer {setup.names[place]}: {_known(setup, place, told)}")


def _known(setup: Setup, place: int, text: str) -> str:
    rows = [setup.bench.rows[row].configuration for row in setup.bench.usable(place)]
    return f"no row {text!r}; there are {', '.join(rows)}"


def rewritten(text: str, blocks: Sequence[Block], found: Sequence[Simulated]) -> str:
    """Return the file with the speed-up and the reduction of energy of each block as predicted."""
    lines = text.splitlines()
    for block, one in zip(blocks, found, strict=True):
        words = lines[block.number - 1].split()
        energy = one.ratios.energy
        reduction = "nan" if energy is None else f"{energy.value:.6g}"
        numbers = [f"{one.ratios.time.value:.6g}", reduction]
        lines[block.number - 1] = " ".join([block.name, *numbers, *words[3:]])
    return "\n".join(lines) + "\n"
