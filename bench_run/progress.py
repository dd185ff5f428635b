"""Progress of a run for the user: on stderr only, nothing when quiet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bench_schema.streams import write_text
from bench_schema.units import count_text

from bench_run.text import one_line, visible

if TYPE_CHECKING:
    from types import TracebackType


class Progress:
    """A bar with an estimate on a terminal, one line per round elsewhere, silence when quiet."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit="case", dynamic_ncols=True, leave=False)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def round(self, index: int, rounds: int, cases: int) -> None:
        """Report the begin of a round. `rounds`: as many as were asked for; further ones are those
        that a rule adds."""
        if self._bar is None and not self._quiet:
            place = f"{index + 1} of {rounds}" if index < rounds else f"{index + 1}, added"
            write_text(sys.stderr, f"round {place}: {count_text(cases, 'case')}\n")

    def start_case(self, name: str, engine: str) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(one_line(f"{name[:40]} on {engine}"))

    def finish_case(self) -> None:
        if self._bar is not None:
            self._bar.update()

    def more(self, cases: int) -> None:
        """Add cases that are going to be measured."""
        if self._bar is not None:
            self._bar.total += cases

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.write(visible(line), file=sys.stderr)
        else:
            write_text(sys.stderr, f"{visible(line)}\n")
