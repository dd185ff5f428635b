"""What further documents of one build add: power, coverage and false verdicts by grouping.

Usage:
  compare_groupings.py FOLDER [--groupings=LIST] [--shifts=LIST] [--draws=N]

Options:
  --groupings=LIST  documents of base and of other
                    [default: 1+1,2+1,1+2,3+1,1+3,2+2,3+2,2+3,3+3,5+5]
  --shifts=LIST     delays planted into every case of other, % [default: 0,1.7,4,10]
  --draws=N         groupings drawn for each row [default: 40]

FOLDER has documents of identical runs, measured one after another on a machine left alone.
Every row draws documents for base and other at random, without a common one, plants the delay into
the samples of other and compares them as `bench-compare` does. Printed: cases judged, share called
slower (without a delay: called anything), *same* and *unclear*, share of 95 % intervals that hold
the planted ratio, and the median half width. With each further document of a side the share of
planted delays that are found must not fall; rows where it does by more than 2 % are marked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.files import read

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import side
from tests.benchmarks.harness import script

if TYPE_CHECKING:
    from bench_schema.document import Document

TOLERANCE = 0.02


@dataclass(frozen=True)
class Row:
    cases: int
    called: float
    same: float
    unclear: float
    held: float
    half_width: float


def planted(document: Document, ratio: float) -> Document:
    """The document with all of its samples longer by a factor."""
    if ratio == 1:
        return document
    cases = []
    for case in document.cases:
        rounds = [
            replace(
                one,
                series={
                    name: np.rint(samples * ratio).astype(np.int64)
                    for name, samples in one.series.items()
                },
            )
            for one in case.rounds
        ]
        cases.append(replace(case, rounds=rounds, summary={}))
    return replace(document, cases=tuple(cases))


def row(documents: list[Document], counts: tuple[int, int], ratio: float, draws: int) -> Row:
    random = np.random.default_rng(7)
    verdicts: list[Verdict] = []
    held, widths = [], []
    for _ in range(draws):
        chosen = [documents[n] for n in random.permutation(len(documents))[: sum(counts)]]
        base = side("base", *chosen[: counts[0]])
        other = side("other", *(planted(one, ratio) for one in chosen[counts[0] :]))
        for case in compare(base, [other], Policy()).cases:
            metric = case.gate_metric
            if metric is None or metric.ci_low is None or metric.ci_high is None:
                continue
            verdicts.append(metric.verdict)
            held.append(metric.ci_low <= ratio <= metric.ci_high)
            widths.append(math.log(metric.ci_high / metric.ci_low) / 2)
    moved = (Verdict.SLOWER, Verdict.FASTER) if ratio == 1 else (Verdict.SLOWER,)

    def share(*wanted: Verdict) -> float:
        return sum(one in wanted for one in verdicts) / len(verdicts)

    return Row(
        cases=len(verdicts),
        called=share(*moved),
        same=share(Verdict.SAME),
        unclear=share(Verdict.UNCLEAR),
        held=float(np.mean(held)),
        half_width=float(np.median(widths)),
    )


def main(folder: str, groupings: str, shifts: str, draws: int) -> None:
    paths = sorted(path for path in Path(folder).iterdir() if ".json" in path.name)
    documents = [read(path) for path in paths]
    wanted = [tuple(int(word) for word in text.split("+")) for text in groupings.split(",")]
    usable = [one for one in wanted if sum(one) <= len(documents)]
    print(f"{len(documents)} documents of {len(documents[0].cases)} cases")
    print("delay  grouping  cases  called   same  unclear   held  half width")
    for shift in map(float, shifts.split(",")):
        found: dict[tuple[int, ...], float] = {}
        for base, other in usable:
            one = row(documents, (base, other), 1 + shift / 100, draws)
            fewer = [called for (a, b), called in found.items() if a <= base and b <= other]
            weaker = shift > 0 and any(called > one.called + TOLERANCE for called in fewer)
            found[base, other] = one.called
            print(
                f"{shift:4g} %    {base} + {other}  {one.cases:6}  {one.called:6.3f}"
                f"  {one.same:5.3f}    {one.unclear:5.3f}  {one.held:5.3f}"
                f"      {100 * one.half_width:4.2f} %"
                f"{'  weaker with more' if weaker else ''}",
                flush=True,
            )


if __name__ == "__main__":
    script(main)
