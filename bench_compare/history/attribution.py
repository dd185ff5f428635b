"""Why: what of the documents' own provenance differs across an event."""

from __future__ import annotations

import re
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from bench_schema.document import Settings
from bench_schema.settings import rows_of

from bench_compare.history.model import BuildInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_compare.history.archive import Archive

WINDOW = 3
"""Documents on either side that have to agree among themselves."""
CAUSES = "plugin sha256|library|driver|power limit|clocks|ceiling|other processes|knob|environment"
SETTINGS = "|".join(row.word for row in rows_of(Settings).values() if row.agree == "must")
ASIDE = "device times|vendor caches|graphs|package|kernel|os|python|tool|host|unit|cpu"
ORDER = f"{CAUSES}|{SETTINGS}|{ASIDE}".split("|")
"""Words of facts, the likeliest cause of a change first."""
NUMBER = re.compile(r"^([0-9.e+-]+) (.*)$")
CEILING_RATIO = 1.01
"""A ceiling is measured: smaller differences are its noise."""
OTHERS = "other processes"
OTHERS_PERCENT = 10.0
"""Share of all processors whose use by other processes is felt
(`comparison.circumstances.disturbances`)."""
SHORT = 12


def causes(
    archive: Archive,
    rows: Sequence[int],
    before: Mapping[int, Sequence[int]],
    after: Mapping[int, Sequence[int]],
) -> list[str]:
    """Return sentences, the likeliest first. `before`, `after`: row → columns on either side."""
    outcomes = archive.outcomes
    ends = [
        (outcomes.get((row, before[row][-1])), outcomes.get((row, after[row][0])))
        for row in rows
        if before.get(row) and after.get(row)
    ]
    # ``plan engine id 5 → 57 in 4 of 6 cases``; kernels where no plan tells it.
    plans: Counter[str] = Counter()
    other_kernels = same_kernels = 0
    for old, new in ends:
        if old is None or new is None:
            continue
        for key in sorted(old.plan.keys() | new.plan.keys()):
            was, has = old.plan.get(key), new.plan.get(key)
            if was != has:
                plans[f"plan: {key} {was} → {has}"] += 1
        other_kernels += None not in (old.kernels, new.kernels) and old.kernels != new.kernels
        same_kernels += old.kernels is not None and old.kernels == new.kernels
    cases = f"{len(rows)} case{'' if len(rows) == 1 else 's'}"
    found = [f"{text} in {times} of {cases}" for text, times in plans.most_common(WINDOW)]
    if other_kernels and not plans:
        found.append(f"other kernels in {other_kernels} of {cases}")
    sides = [
        [archive.columns[column].doc.held.facts for column in side]
        for side in (_nearest(before, last=True), _nearest(after, last=False))
    ]
    for name in sorted({name for side in sides for facts in side for name in facts}, key=_rank):
        text = _difference(name, *sides)
        if text is not None:
            found.append(text)
    if found:
        return found
    if same_kernels and same_kernels == len(rows):
        return ["nothing recorded differs, and the kernels are the same: suspect the machine"]
    return ["nothing that the documents record differs"]


def _nearest(columns: Mapping[int, Sequence[int]], last: bool) -> list[int]:
    """Return the documents of any series that stand next to the gap."""
    every = sorted({column for held in columns.values() for column in held})
    return every[-WINDOW:] if last else every[:WINDOW]


def _rank(name: str) -> tuple[int, str]:
    place = next((at for at, word in enumerate(ORDER) if word in name), len(ORDER))
    return place, name


def _difference(
    name: str, before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
) -> str | None:
    """Return a difference; None unless each side agrees with itself, and not with the other. Of
    what is measured each document says something else: medians count, and for ceilings that the
    sides do not overlap."""
    olds, news = ({facts.get(name) for facts in side} for side in (before, after))
    if not _is_measured(name):
        if len(olds) != 1 or len(news) != 1 or olds == news:
            return None
        return f"{name}: {_short(olds.pop())} → {_short(news.pop())}"
    numbers_before, numbers_after = (
        sorted(
            float(number[1])
            for facts in side
            if (number := NUMBER.match(facts.get(name, ""))) is not None
        )
        for side in (before, after)
    )
    if not numbers_before or not numbers_after:
        return None
    old, new = median(numbers_before), median(numbers_after)
    if name == OTHERS:
        if abs(new - old) < OTHERS_PERCENT:
            return None
        busy = "busier" if new > old else "less busy"
        return f"{name} {old:.0f} → {new:.0f} % of the processors: the machine was {busy}"
    apart = numbers_before[-1] < numbers_after[0] or numbers_after[-1] < numbers_before[0]
    if not apart or old <= 0 or 1 / CEILING_RATIO < new / old < CEILING_RATIO:
        return None
    return f"{name} {100 * (new / old - 1):+.1f} %: the machine itself changed"


def _is_measured(name: str) -> bool:
    return "ceiling" in name or name == OTHERS


def _short(text: str | None) -> str:
    if text is None:
        return "none"
    is_hash = len(text) > 3 * SHORT and set(text) <= set("0123456789abcdef")
    return text[:SHORT] if is_hash else text


def build_infos(archive: Archive) -> tuple[BuildInfo, ...]:
    """Return the builds for people."""
    units: dict[int, dict[str, None]] = {}
    for column in archive.columns:
        units.setdefault(column.build, {})[column.unit] = None
    return tuple(
        BuildInfo(
            one.name,
            one.started,
            tuple(doc.path for doc in one.documents),
            tuple(units.get(number, ())),
        )
        for number, one in enumerate(archive.builds)
    )
