"""The judge on real documents of one build: what is unclear, what is found, what is false.

Usage:
  judge_table.py DOCUMENT... [--series=NAME] [--sides=LIST] [--threshold=T] [--effects=LIST]
                 [--draws=N] [--seed=N]

Options:
  --series=NAME   the metric that is judged [default: device_ns]
  --sides=LIST    documents a side [default: 1,2,3]
  --threshold=T   as a share [default: 0.01]
  --effects=LIST  slow-downs that are planted in half of the cases [default: 0.015,0.03,0.05]
  --draws=N       comparisons a row, of all that the documents allow [default: 60]
  --seed=N        of the draws and of what is planted [default: 0]

All documents are identical runs of one build. Each row compares disjoint sets of them through
`compare`, as they are and with one slow-down after another planted in a random half of the cases.
Columns: documents a side; verdicts; unclear ones in % (nothing planted); faster or slower ones of
cases that did not move (nothing planted, and beside what was planted); planted slow-downs that are
called slower, in %.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from bench_schema import files

from bench_compare.comparison.compare import compare
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import side
from tests.benchmarks.harness import script

CALLED = (Verdict.FASTER, Verdict.SLOWER)


def slowed(document, names, series, factor):
    """The document with some of its cases slower."""
    cases = [
        replace(
            case,
            rounds=tuple(
                replace(one, series={**one.series, series: np.rint(one.series[series] * factor)})
                for one in case.rounds
            ),
        )
        if case.graph.name in names
        else case
        for case in document.cases
    ]
    return replace(document, cases=tuple(cases))


def drawn(random, count, size, most):
    """Pairs of disjoint sets of so many documents."""
    every = [
        (one, two)
        for one in itertools.combinations(range(count), size)
        for two in itertools.combinations(range(count), size)
        if not {*one} & {*two}
    ]
    if len(every) <= most:
        return every
    return [every[place] for place in sorted(random.choice(len(every), most, replace=False))]


def judged(base, other, series, threshold):
    policy = Policy(metrics=(series,), threshold_ratio=threshold)
    return compare(side("a", *base), [side("b", *other)], policy).cases


def row(documents, size, series, threshold, effects, most, seed):
    """The figures of a row, as a table of counts."""
    random = np.random.default_rng(seed)
    found = dict.fromkeys(("verdicts", "unclear", "called", "beside", "of_beside"), 0)
    hits = {effect: [0, 0] for effect in effects}
    for one, two in drawn(random, len(documents), size, most):
        base, other = ([documents[place] for place in places] for places in (one, two))
        cases = judged(base, other, series, threshold)
        found["verdicts"] += len(cases)
        found["unclear"] += sum(case.verdict is Verdict.UNCLEAR for case in cases)
        found["called"] += sum(case.verdict in CALLED for case in cases)
        names = [case.name for case in cases]
        for effect in effects:
            planted = {*random.permutation(names)[: len(names) // 2].tolist()}
            moved = [slowed(each, planted, series, 1 + effect) for each in other]
            for case in judged(base, moved, series, threshold):
                if case.name in planted:
                    hits[effect][0] += case.verdict is Verdict.SLOWER
                    hits[effect][1] += 1
                else:
                    found["beside"] += case.verdict in CALLED
                    found["of_beside"] += 1
    return found, {effect: 100 * hit / max(of, 1) for effect, (hit, of) in hits.items()}


def main(
    document: list[str],
    series: str,
    sides: str,
    threshold: float,
    effects: str,
    draws: int,
    seed: int,
) -> None:
    documents = [files.read(path) for path in document]
    sizes, sizes_of = [int(word) for word in sides.split(",")], [*map(float, effects.split(","))]
    print(f"{len(documents)} documents, {series}, threshold {100 * threshold:g} %")
    for size in (size for size in sizes if 2 * size <= len(documents)):
        found, hits = row(documents, size, series, threshold, sizes_of, draws, seed)
        told = ", ".join(f"+{100 * effect:g} %: {share:.0f}" for effect, share in hits.items())
        print(
            f"  {size} against {size}: unclear {100 * found['unclear'] / found['verdicts']:.0f} of "
            f"100; false {found['called']} of {found['verdicts']}, beside planted "
            f"{found['beside']} of {found['of_beside']}; found in 100: {told}",
            flush=True,
        )


if __name__ == "__main__":
    script(main)
