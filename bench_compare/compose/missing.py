"""What was not measured, as command lines that measure it in the way of the documents."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from bench_compare.compose.model import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench_compare.compose.table.forms import Conversion
    from bench_compare.compose.table.network import Network, Station
    from bench_compare.model import Source

VALUED = (
    *("--timer", "--duty", "--math", "--threads", "--executions", "--init", "--knob"),
    *("--device", "--rounds", "--iters", "--max-time", "--plugin-path", "--hipdnn-prefix"),
)
SWITCHES = ("--replay", "--energy")
"""Flags of the run that a repeat needs as well."""
MOST_NAMES = 4


class Lines:
    """Makes them, each with an output file of its own."""

    def __init__(self, network: Network, sources: Sequence[Source]) -> None:
        self._pipeline = os.path.relpath(network.path)
        if self._pipeline.startswith(".."):
            self._pipeline = str(network.path)
        self._flags = _flags(sources[0].document.run.command)
        self._made = 0

    def layers(self, stations: Iterable[Station], engine: str, cache: str) -> Missing:
        rows = list({s.layer.file or s.layer.op: s for s in stations}.values())
        files = [str(s.layer.file) for s in rows if s.layer.file is not None]
        ops = [word for s in rows if s.layer.op is not None for word in ("--op", s.layer.op)]
        what = f"{_named(s.layer.id for s in rows)} on {engine}"
        whole = [self._pipeline, "--seams"]  # a pass is that of the pipeline
        words = whole if cache == "pass" else [*files, *ops]
        return Missing("layer", what, self._line(words, engine, cache), blocks=True)

    def unnamed(self, stations: Sequence[Station], engine: str, cache: str) -> Missing:
        """Layers of which no document says which graph they are."""
        what = f"which graphs {_named(s.layer.id for s in stations)} are"
        line = self._line([self._pipeline, "--seams"], engine, cache)
        return Missing("layer", what, line, blocks=True)

    def seams(self, count: int, engine: str, cache: str) -> Missing:
        what = f"{count} seam{'' if count == 1 else 's'} on {engine}"
        line = self._line([self._pipeline, "--seams"], engine, cache)
        return Missing("seam", what, line, blocks=False)

    def conversions(
        self, needs: Iterable[Conversion], engine: str, cache: str, blocks: bool
    ) -> Missing:
        specs = list(dict.fromkeys(need.spec for need in needs))
        words = [word for spec in specs for word in ("--op", spec)]
        what = f"{len(specs)} conversion{'' if len(specs) == 1 else 's'} on {engine}"
        state = "hot" if cache == "pass" else cache
        return Missing("conversion", what, self._line(words, engine, state), blocks)

    def cache(self, state: str, engine: str) -> Missing:
        line = self._line([self._pipeline, "--seams"], engine, state)
        return Missing("cache", f"layers and seams with {state} caches on {engine}", line, False)

    def energy(self, engine: str, cache: str, blocks: bool) -> Missing:
        asked = [] if "--energy" in self._flags else ["--energy"]
        line = self._line([self._pipeline, "--seams", *asked], engine, cache)
        return Missing("energy", f"joules on {engine}", line, blocks)

    def _line(self, words: Sequence[str], engine: str, cache: str) -> str:
        self._made += 1
        state = [] if cache == "hot" else ["--cache", cache]
        flags = [*self._flags, *state, "-o", f"missing-{self._made}.json"]
        return shlex.join(["bench-run", *words, "-e", engine, *flags])


def _flags(command: Sequence[str]) -> list[str]:
    found: list[str] = []
    words = iter(command)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in VALUED:
            found += [word] if equals else [word, next(words, "")]
        elif word in SWITCHES:
            found.append(word)
    return found


def _named(ids: Iterable[str]) -> str:
    names = list(ids)
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def by_engine(
    needs: Iterable[tuple[Conversion, str]],
) -> Iterator[tuple[str, list[Conversion]]]:
    found: dict[str, list[Conversion]] = {}
    for need, engine in needs:
        found.setdefault(engine, []).append(need)
    yield from found.items()


def limits_text(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{name} ≤ {bound:g}" for name, bound in limits.items())
