"""Statements on the quality of the libraries' own choices, where sides are tunings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.names import safe
from bench_schema.tuning import default_quality

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_schema.tuning import DefaultQuality

    from bench_compare.model import Comparison, Side


def default_texts(comparison: Comparison) -> list[str]:
    """Return a statement for each family of graphs whose default was held against other plans."""
    sides = (comparison.base, *comparison.others)
    found = {side.label: quality_of(side) for side in sides}
    families = sorted({family for of_side in found.values() for family in of_side})
    return [safe(f"how good is the default, {each}: {_told(each, found)}") for each in families]


def quality_of(side: Side) -> dict[str, DefaultQuality]:
    """Return the quality of the default by family, of the last tuning of a side."""
    tunings = [one.document.tuned for one in side.sources if one.document.tuned is not None]
    return {each.family: each for each in default_quality(tunings[-1])} if tunings else {}


def _told(family: str, found: dict[str, dict[str, DefaultQuality]]) -> str:
    return "; ".join(_parts(family, found))


def _parts(family: str, found: dict[str, dict[str, DefaultQuality]]) -> Iterator[str]:
    for label, of_side in found.items():
        each = of_side.get(family)
        if each is None:
            yield f"{label}: not known"
            continue
        worst = f", worst {each.worst_ratio:.3f}× ({each.worst})" if each.beaten else ""
        mean = f", mean {each.mean_ratio:.3f}×" if each.beaten else ""
        yield f"{label}: beaten in {each.beaten} of {each.graphs} graphs{mean}{worst}"
