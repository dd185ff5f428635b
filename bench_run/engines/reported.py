"""The border between engines and the rest: what engines and plans report is converted.

An engine may be a stranger's, and its values of any type. Facts of an engine that do not fit are
an `EngineError`. What is read after the samples and does not fit is left out with a note: the
samples are there.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from bench_run.engines.base import EngineFacts, PlanFacts
from bench_run.errors import EngineError, message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.base import Plan

Words = dict[str, str]
Bytes = Annotated[int, msgspec.Meta(ge=0)]


def converted(engine: str, name: str, value: object, kind: Any) -> Any:
    """Return the value as a type that `msgspec` knows. Raises `EngineError`, which names the
    engine, the value and the type."""
    try:
        if kind in (EngineFacts, PlanFacts):
            value = {each.name: getattr(value, each.name) for each in fields(kind)}
        return msgspec.convert(value, kind)
    except Exception as error:  # foreign: reading an attribute may raise anything
        raise EngineError(f"{engine}: {name}: {message_of(error)}") from error


def listed(engine: str, name: str, found: object) -> tuple[Mapping[str, str], ...]:
    """Return variants, plans or choices. Raises `EngineError`."""
    values: tuple[Mapping[str, str], ...] = converted(engine, name, found, tuple[Words, ...])
    return values


class Reports:
    """Reads what a plan reports after its samples; `notes` say what was left out, and why."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self.notes: list[str] = []

    def read(self, name: str, ask: Callable[[], object], kind: Any, otherwise: Any) -> Any:
        """Return the value; `otherwise` if it cannot be read."""
        try:
            return converted(self._engine, name, ask(), kind)
        except Exception as error:  # foreign
            self.notes.append(f"{message_of(error)}: left out")
            return otherwise

    def plan_facts(self, plan: Plan) -> PlanFacts:
        facts: PlanFacts = self.read(
            "plan.facts", partial(getattr, plan, "facts"), PlanFacts, PlanFacts()
        )
        return facts
