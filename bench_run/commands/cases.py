"""`--dry-run`: the cases of a run, without running any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.runner.planning import plan_closed

if TYPE_CHECKING:
    from bench_run.options import Options


def case_list(options: Options) -> str:
    """The cases of a run, one line each; for several devices engines are opened, since only they
    know how many there are."""
    planned = plan_closed(options)
    notes = [f"note: {note}" for note in planned.gathered.notes]
    lines = [f"{case.id}  ({case.graph.id.path})" for case in planned.cases]
    effort = f"{options.iterations} iterations in {options.rounds} rounds each"
    return "\n".join([*notes, *lines, f"{len(lines)} cases, {effort}"])
