"""The core: documents and a pipeline in, a `Composition` out. Nothing runs, nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_compare.compose.answer import Answer
from bench_compare.compose.choose.select import allowed
from bench_compare.compose.given import blocked, read_given, without_answer

if TYPE_CHECKING:
    from bench_compare.compose.given import Inputs
    from bench_compare.compose.model import Composition


def compose(inputs: Inputs) -> Composition:
    """Raises `InputError` for documents that make no table, `UsageError` for names that nobody
    has."""
    given = read_given(inputs)
    missing = blocked(given)
    if missing:
        return without_answer(given, missing, ("rows are missing: see below",))
    limited = bool(inputs.asked.limits)
    rows = allowed(given.table, given.network, given.cache, given.fixes, limited)
    return Answer(given, rows).composition()
