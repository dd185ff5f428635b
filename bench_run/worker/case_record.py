"""A case as one round leaves it: with one round, or with the reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_schema.document import Case, Outcome

if TYPE_CHECKING:
    from bench_run.worker.messages import RunCase


def case_of(request: RunCase, outcome: Outcome, **parts: Any) -> Case:
    """A `Case` of this request; what is not given is empty or unknown."""
    return Case(
        id=request.case_id,
        graph=request.graph_id,
        engine=request.engine,
        variant=request.variant,
        outcome=outcome,
        work=request.work,
        **{"notes": request.notes, **parts},
    )
