"""Rows that a better answer needs, each with the command line that measures them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.settings import RecordedSettings, rows_of

from bench_compare.compose.forms import FormConversion, varied
from bench_compare.compose.model import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_compare.compose.bench import Picks
    from bench_compare.compose.setup import Setup

MOST_OPS = 8
"""Conversions on one line."""


def missing_rows(
    setup: Setup, picks: Picks | None, baseline: str, has_chain: bool
) -> Iterator[Missing]:
    """Yield what was not measured, what blocks the answer first."""
    lines = _Lines(setup, baseline)
    bench, network = setup.bench, setup.network
    layers = range(len(network.layers))
    unknown = [setup.names[n] for n in layers if network.prints[n] is None and not bench.options[n]]
    lacking = [n for n in layers if not bench.usable(n)]
    if unknown:
        what = f"which graphs {', '.join(unknown)} are"
        yield Missing("layer", what, lines.of_pipeline(), blocks=True)
    elif lacking:
        what = f"layers {', '.join(setup.names[n] for n in lacking)}"
        yield Missing("layer", what, lines.of_layers(lacking), blocks=True)
    if lacking:
        return
    if picks is None and setup.question.choose is None and setup.baseline()[1] is None:
        absent = [n for n, row in enumerate(setup.as_named(baseline)) if row is None]
        what = f"layers {', '.join(setup.names[n] for n in absent)} on {baseline}"
        yield Missing("layer", what, lines.of_layers(absent), blocks=True)
    if setup.question.choose == "energy" and not all(
        np.isfinite(bench.table.joules[row]).any() for n in layers for row in bench.usable(n)
    ):
        line = lines.of_pipeline("--seams", "--energy")
        yield Missing("energy", "the energy of the layers", line, blocks=picks is None)
    needs = list(dict.fromkeys(_unconverted(setup, picks)))
    if needs:
        what = ", ".join(dict.fromkeys(need.name for need in needs))
        line = lines.of_conversions(needs[:MOST_OPS])
        yield Missing("conversion", f"conversions {what}", line, blocks=picks is None)
    if picks is None:
        return
    seams = [
        setup.names[n]
        for n in layers
        if bench.seam(n) is not None and bench.seam_terms(n, picks, bench.every) is None
    ]
    if seams:
        what = f"what lies before {seams[0]}" + (f" and {len(seams) - 1} more" * (len(seams) > 1))
        yield Missing("seam", what, lines.of_pipeline("--seams"), blocks=False)
    if not has_chain:
        what = "how far the whole is from the sum"
        yield Missing("chain", what, lines.of_chain(), blocks=False)


def _unconverted(setup: Setup, picks: Picks | None) -> Iterator[FormConversion]:
    """Yield conversions that some choice of the usable rows needs, and no document has."""
    bench, question = setup.bench, setup.question
    if question.choose is None and picks is not None:
        return
    fixed, base = setup.fixed(), setup.baseline()[1]
    usual = [(row,) for row in base or ()] if question.choose is None else []
    rows = [
        fixed.get(n) or (usual[n] if usual else bench.usable(n))
        for n in range(len(setup.network.layers))
    ]
    for passed in setup.network.passed():
        ends = [(passed.writer, passed.form), *passed.readers]
        forms = [
            {form if at is None else varied(form, bench.rows[row].variant) for row in rows[at or 0]}
            for at, form in ends
        ]
        for source in sorted(forms[0], key=str):
            for target in sorted(set().union(*forms[1:]), key=str):
                need = FormConversion(source, target)
                if source != target and need.alike not in bench.conversions:
                    yield need


class _Lines:
    """Command lines of bench-run that measure as the documents were measured."""

    def __init__(self, setup: Setup, baseline: str) -> None:
        self._setup, self._count = setup, 0
        wanted = {baseline.split()[0] if baseline else ""} & set(setup.engine_names)
        if setup.question.choose is not None or not wanted:
            wanted = set(setup.engine_names)
        keys = {row.engine: row.key for row in setup.bench.rows}
        self._engines = [word for name in sorted(wanted) for word in ("-e", keys[name].split()[0])]
        self._flags = list(_settings(setup.sources[0].document.run.command))
        self._energy = ["--energy"] if "--energy" in setup.sources[0].document.run.command else []

    def of_pipeline(self, *words: str) -> str:
        return self._line([str(self._setup.question.path), *words], self._setup.state)

    def of_chain(self) -> str:
        words = [str(self._setup.question.path), "--chain", "--seams"]
        return self._line(words, "pass" if self._setup.state == "hot" else self._setup.state)

    def of_layers(self, places: Sequence[int]) -> str:
        if self._setup.state == "pass":
            return self.of_pipeline("--seams")
        layers = [self._setup.network.layers[n] for n in places]
        words = [str(layer.file) for layer in layers if layer.file is not None]
        words += [word for layer in layers if layer.op is not None for word in ("--op", layer.op)]
        return self._line(
            list(dict.fromkeys(words)) if "--op" not in words else words, self._setup.state
        )

    def of_conversions(self, needs: Sequence[FormConversion]) -> str:
        words = [word for need in needs for word in ("--op", need.spec)]
        state = self._setup.state
        return self._line(words, "hot" if state == "pass" else state)

    def _line(self, words: Sequence[str], state: str) -> str:
        self._count += 1
        cache = [] if state == "hot" else ["--cache", state]
        energy = [] if "--energy" in words else self._energy
        flags = [*cache, *self._flags, *energy, "-o", f"missing-{self._count}.json"]
        return shlex.join(["bench-run", *words, *self._engines, *flags])


def _settings(command: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command line that set what documents must share."""
    flags = {
        name: bool(row.metavar)
        for row in rows_of(RecordedSettings).values()
        if row.agree == "must" and row.name != "cache"
        for name in (row.flag, row.short)
        if name
    }
    words = iter(command)
    for word in words:
        name, given, _ = word.partition("=")
        if name in flags:
            yield word
            if flags[name] and not given:
                yield next(words, "")
