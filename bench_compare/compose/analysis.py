"""The core: documents and a pipeline in, a `Composition` out. Nothing runs, nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_compare.compose.answer import Answer
from bench_compare.compose.choose.select import allowed
from bench_compare.compose.given import blocked, read_given, unusable, without_answer

if TYPE_CHECKING:
    from bench_compare.compose.given import Inputs
    from bench_compare.compose.model import Composition
    from bench_compare.compose.table.network import Network
    from bench_compare.compose.table.rows import Row


@dataclass(frozen=True, eq=False)
class Composed:
    composition: Composition
    network: Network
    rows: tuple[Row, ...]
    """Of the chosen configuration, one a layer; empty where there is no answer."""


def compose(inputs: Inputs) -> Composed:
    """Raises `InputError` for documents that make no table, `UsageError` for names that nobody
    has."""
    given = read_given(inputs)
    missing = blocked(given)
    if missing:
        why = "; ".join(("rows are missing: see below", *unusable(given)))
        made = without_answer(given, missing, (why,))
        return Composed(made, given.network, ())
    limited = bool(inputs.asked.limits)
    rows = allowed(given.table, given.network, given.cache, given.fixes, limited)
    composition, chosen = Answer(given, rows).composition()
    return Composed(composition, given.network, tuple(chosen))
