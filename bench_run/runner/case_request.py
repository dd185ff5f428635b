"""A planned case as the request that a worker gets. Made here only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.worker.messages import RunCase

if TYPE_CHECKING:
    from bench_run.measure.loop import SamplingBudget
    from bench_run.plan.cases import PlannedCase
    from bench_run.runner.references.store import ReferenceStore
    from bench_run.validate.settings import ValidationSettings


def request_of(
    case: PlannedCase,
    references: ReferenceStore,
    validation_settings: ValidationSettings,
    budget: SamplingBudget,
    place: tuple[int, int] = (0, 0),
) -> RunCase:
    """`references` say where inputs come from; `place`: the round, and the position in it."""
    graph = case.graph
    return RunCase(
        case_id=case.id,
        graph=graph.loaded.graph,
        graph_id=graph.id,
        engine=case.engine.key,
        variant=case.variant,
        work=graph.work,
        round_index=place[0],
        position=place[1],
        load_ns=graph.loaded.load_ns,
        data=references.data(graph),
        validation_settings=validation_settings,
        budget=budget,
        notes=graph.loaded.notes,
        surroundings=graph.loaded.surroundings,
        is_pass=graph.loaded.is_pass,
    )
