"""Many configurations of one pipeline, from a file in blocks; the first one is the baseline.

A block is what HPVM's autotuner writes::

    +++++
    conf2 1.84 2.01 82.9 0.3
    1 gpu conv fp16 12 add fp16 1 relu fp16 1
    2 gpu conv samp 31 relu fp16 1
    -----

The first line has a name, a speed-up, a reduction of energy, and more that is kept as it is. A
line after it is a layer by its number, and what it runs as; a table of knobs says what an id
means. A layer may also be named, as in ``--fix``: ``conv*=cudnn:plan=eng6``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.knobs import TYPES

from bench_compare.compose.analysis import Composer
from bench_compare.compose.given import blocked, idle_power_w, read_given, unusable
from bench_compare.compose.prediction import describe, evidence, ratios
from bench_compare.compose.select import allowed, fixes_of, rows_of
from bench_compare.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench_schema.knobs import Knob

    from bench_compare.compose.given import Given, Inputs
    from bench_compare.compose.model import Configuration, Ratios
    from bench_compare.compose.network import Station

BEGIN, END = "+++++", "-----"


@dataclass(frozen=True)
class Block:
    """A configuration in the file."""

    name: str
    line: int
    """Number of its first line, from 0."""
    fixes: tuple[tuple[str, int], ...]
    """Layers with what they run as, as in ``--fix``, and the number of the line."""


@dataclass(frozen=True)
class Simulated:
    """A configuration and how much better it is than the first."""

    name: str
    made: Configuration
    ratios: Ratios | None


def read_blocks(text: str, where: str) -> tuple[Block, ...]:
    """Read blocks. Raises `InputError` for a file without a block, and for one that is not
    closed."""
    blocks: list[Block] = []
    inside: list[tuple[str, int]] | None = None
    for number, line in enumerate(text.splitlines()):
        plain = line.strip()
        if plain == BEGIN:
            if inside is not None:
                raise InputError(f"{where}: line {number + 1}: a block begins within another one")
            inside = []
        elif plain == END:
            if not inside:
                raise InputError(f"{where}: line {number + 1}: a block without a name ends")
            (head, first), *rest = inside
            blocks.append(Block(head.split()[0], first, tuple(rest)))
            inside = None
        elif plain and inside is not None:
            inside.append((plain, number))
    if inside is not None or not blocks:
        raise InputError(f"{where}: expected blocks between {BEGIN} and {END}")
    return tuple(blocks)


def simulate(
    inputs: Inputs, blocks: Sequence[Block], knobs: Sequence[Knob], where: str
) -> tuple[Simulated, ...]:
    """Return each configuration with its time and energy. Raises `InputError` for lines that name
    no layer or no row that was measured."""
    given = read_given(inputs)
    missing = blocked(given)
    if missing:
        why = "; ".join(("rows are missing", *unusable(given), f"type: {missing[0].command}"))
        raise InputError(f"{inputs.path}: {why}")
    known = bool(np.isfinite(given.table.energies).any())
    idle = idle_power_w(inputs.sources) if known else None
    rounds = evidence(given.network, given.table, idle, None)
    found: list[Simulated] = []
    first = None
    for block in blocks:
        fixes = tuple(
            fix
            for line, number in block.fixes
            for fix in _fixes(given, line, knobs, f"{where}: line {number + 1}")
        )
        settings = replace(inputs.settings, fixes=fixes)
        own = replace(given, fixes=fixes_of(given.network, settings))
        rows = allowed(own.table, own.network, own.cache, own.fixes, limited=False)
        composition, chosen = Composer(own, rows).composition()
        if not chosen:
            raise InputError(f"{where}: {block.name}: {'; '.join(composition.problems)}")
        first = chosen if first is None else first
        made = describe(block.name, rounds, chosen)
        found.append(Simulated(block.name, made, ratios(rounds, first, chosen)))
    return tuple(found)


def _fixes(given: Given, line: str, knobs: Sequence[Knob], where: str) -> Iterator[tuple[str, str]]:
    """Yield the layer and configuration of a line, as ``--fix`` has them."""
    layer, equals, wanted = line.partition("=")
    words = line.split()
    if not words[0].isdecimal():
        if not equals or " " in layer.strip():
            raise InputError(
                f"{where}: {line!r}: expected LAYER=CONFIGURATION, or a layer's number"
            )
        yield layer.strip(), wanted.strip()
        return
    stations = given.network.stations
    number = int(words[0])
    if not 1 <= number <= len(stations):
        raise InputError(f"{where}: no layer {number}; the pipeline has {len(stations)}")
    if len(words) < 4:
        raise InputError(f"{where}: {line!r}: expected NUMBER DEVICE OPERATION TYPE ID")
    kind, knob = words[3], words[4] if len(words) > 4 else ""
    known = next((k for k in knobs if k.type == kind and str(k.id) == knob), None)
    variant = dict(known.variant) if known else {"dtype": TYPES[kind]} if kind in TYPES else None
    if variant is None:
        raise InputError(f"{where}: {kind} {knob} is in no table of knobs: --space FILE")
    yield stations[number - 1].layer.id, _configuration(given, stations[number - 1], variant)


def _configuration(given: Given, station: Station, variant: Mapping[str, str]) -> str:
    """Return the row that runs the variant; a type that the layer already has is left out."""
    engine = given.baseline if given.baseline in given.table.engines else given.table.engines[0]
    tensors = station.tensors
    own = {tensors.by_name[name].dtype for name in tensors.outputs} if tensors else set()

    def meaning(words: Mapping[str, str]) -> dict[str, str]:
        silent = {"dtype": own, "approx": {"none"}}
        return {key: value for key, value in words.items() if value not in silent.get(key, ())}

    for row in rows_of(given.table, station, given.cache):
        if row.engine == engine and meaning(row.variant) == meaning(variant):
            return row.text
    words = [f"{key}={value}" for key, value in sorted(variant.items())]
    return f"{engine}:{','.join(words)}"


def rewritten(text: str, blocks: Sequence[Block], found: Sequence[Simulated]) -> str:
    """Return the file with the speed-up and the reduction of energy of each configuration; nan for
    an energy that was not measured."""
    lines = text.splitlines()
    for block, one in zip(blocks, found, strict=True):
        words = lines[block.line].split()
        energy = one.ratios.energy.value if one.ratios and one.ratios.energy else math.nan
        speed = one.ratios.time.value if one.ratios else math.nan
        lines[block.line] = " ".join([block.name, f"{speed:.6g}", f"{energy:.6g}", *words[3:]])
    return "\n".join(lines) + "\n"
