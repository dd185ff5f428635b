"""The same samples have one time and one ratio, in whatever command or format they are shown."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import statistics
from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Work
from bench_schema.estimate import LEAST_PAIRS
from bench_schema.units import MOST_FACTOR, NOTHING
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.comparison.compare import compare
from bench_compare.compose.table import Table, levels
from bench_compare.history.digest import digest
from bench_compare.input.sides import Grouping, group
from bench_compare.model import Source, View
from bench_compare.policy import Policy
from bench_compare.report import single
from bench_run import opperf
from bench_run.report import console, formats
from bench_run.tune import known
from tests.bench_compare import build
from tests.bench_compare.report.read_page import panels, table
from tests.bench_compare.report.shown import render
from tests.support import examples

UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
WIDE = View(width=200, all=True)
PRINTED = 6e-4
"""Four significant digits."""


@st.composite
def rounds(draw, indices=None, blocks=()):
    """Some of five rounds, of any lengths and warm-ups, on a random scale; buffers moved or not.
    `blocks`: the number of blocks of each round, and the place of the side in its turn."""
    seed = draw(st.integers(0, 2**32 - 1))
    level = 10 ** draw(st.floats(2, 8))
    indices = draw(st.sets(st.integers(0, 4), min_size=1)) if indices is None else indices
    random = np.random.default_rng(seed)
    made = []
    for index in sorted(indices):
        count = draw(st.integers(blocks[0] if blocks else 1, 40))
        scatter, transient = draw(st.sampled_from([(0.0, 0.0), (0.02, 0.0), (0.3, 0.0), (0.01, 2)]))
        decay = 1 + transient * np.exp(-np.arange(count) / 4)
        samples = level * decay * np.exp(random.normal(0, 0.05) + random.normal(0, scatter, count))
        cut = 0 if blocks else draw(st.sampled_from([None, 0, count // 3]))
        one = build.round_(index, {"e2e_ns": np.rint(samples).astype(int)}, cut=cut)
        moves = draw(st.sets(st.integers(1, count), max_size=3))
        if moves:
            one = replace(one, placements={"e2e_ns": np.array(sorted(moves))})
        if blocks:
            begins = np.linspace(0, count, blocks[0], endpoint=False).astype(int)
            one = replace(one, blocks={"e2e_ns": begins}, block_places=(blocks[1],) * blocks[0])
        made.append(one)
    return made


@st.composite
def pairs(draw):
    """Rounds of two engines that took turns in blocks."""
    indices, blocks = draw(st.sets(st.integers(0, 4), min_size=2)), draw(st.integers(1, 6))
    return [draw(rounds(indices, (blocks, place))) for place in (0, 1)]


def document(run_id, **by_engine):
    made = [
        build.case(
            "g",
            found,
            engine=engine,
            summaries=True,
            work=Work(10**6, 10**6, 1.0),
            validation=build.validation(),
        )
        for engine, found in by_engine.items()
    ]
    return build.document(made, run_id, run_id)


def location(one):
    """From the definition: the mean over the places of the buffers of the median at each."""
    samples, moves = one.series["e2e_ns"], one.placements.get("e2e_ns", np.array([], int))
    ends = [0, *(end for end in moves.tolist() if 0 < end < len(samples)), len(samples)]
    medians = [
        statistics.median(math.log(x) for x in samples[begin:end].tolist())
        for begin, end in itertools.pairwise(ends)
    ]
    return math.log(statistics.fmean(map(math.exp, medians)))


def time_of(*documents):
    return math.exp(statistics.fmean(statistics.fmean(map(location, found)) for found in documents))


def times_of_pair(base, other):
    """Of two cases of one document: in pairs where two visits have both. In visits whose sides took
    turns in blocks, they differ by the median over the blocks, around the middle of both."""
    before = {one.index: one for one in base}
    after = {one.index: one for one in other}
    both = before.keys() & after.keys()
    if len(both) < LEAST_PAIRS:
        return time_of(base), time_of(other)
    levels = [pair_of(before[index], after[index]) for index in both]
    return tuple(math.exp(statistics.fmean(side)) for side in zip(*levels, strict=True))


def pair_of(base, other):
    one, two = location(base), location(other)
    if not base.blocks:
        return one, two
    levels = [
        [
            statistics.median(map(math.log, part.tolist()))
            for part in np.split(each.series["e2e_ns"], each.blocks["e2e_ns"][1:])
        ]
        for each in (base, other)
    ]
    step = statistics.median(b - a for a, b in zip(*levels, strict=True))
    return (one + two - step) / 2, (one + two + step) / 2


def times_in(text):
    """What is printed as a time, in nanoseconds."""
    found = re.findall(r"(?<![\w.])(\d[\d.]*(?:e[+-]?\d+)?) (ns|µs|ms|s)\b", text)
    return [float(number) * UNITS[unit] for number, unit in found]


def changes_in(text):
    """What is printed as a change: a percentage, or a factor."""
    percents = re.findall(r"([+-]\d[\d.]*) ?%", text)
    factors = re.findall(r"(\d[\d.]*(?:e\+?\d+)?)\+?× (slower|faster)", text)
    return [
        *(1 + float(one) / 100 for one in percents),
        *(float(size) if word == "slower" else 1 / float(size) for size, word in factors),
    ]


def cells(text, heading):
    """The first row of the Markdown table that has this heading, by its headings."""
    lines = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    at = next(at for at, line in enumerate(lines) if heading in line)
    return dict(zip(lines[at], lines[at + 2], strict=True))


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def told_alone(found):
    """The time of the first case of a document in each output that shows a document."""
    case = found.cases[0]
    line = next(line for line in console.table(found).splitlines() if times_in(line))
    yield "console", times_in(line)[0]
    yield "details", float(times_in(console.details(found).partition("time ")[2])[0])
    yield "markdown", times_in(cells(formats.markdown(found), "time")["time"])[0]
    yield "csv", float(rows_of(formats.cases_csv(found))[0]["time_ns"])
    yield "call", opperf._times(case)["time_ns"]
    confirmed = known.Known("ok", None, case, is_confirmed=True)
    yield "tune", confirmed.time_ns
    yield "tune's rounds", math.exp(confirmed.logs.mean())
    yield "history", math.exp(digest(found).cases[0].levels[0].log_mean)
    run = single.ShownRun(Source("a.json", found, "bench"))
    told = json.loads(render("json", run))
    yield "json of one", told["cases"][0]["time_ns"]
    yield "text of one", times_in(render("text", run, WIDE))[0]


def told_together(comparison, metric="e2e_ns"):
    """(base, other, ratio) of the only case in each output of a comparison; None: not printed."""
    told = json.loads(render("json", comparison))["cases"][0]["metrics"]
    found = (
        told[metric]
        if isinstance(told, dict)
        else next(one for one in told if one["metric"] == metric)
    )
    yield "json", (found["base"], found["other"], found["ratio"])
    (row,) = [one for one in rows_of(render("csv", comparison)) if one["metric"] == metric]
    yield "csv", tuple(float(row[name]) for name in ("base", "other", "ratio"))
    row = cells(render("markdown", comparison, WIDE), "change")
    change = [*changes_in(row["change"]), None][0]
    yield "markdown", (*times_in(row["base"]), *times_in(row["other"]), change)
    text = render("text", comparison, WIDE)
    line = next(line for line in text.splitlines() if len(times_in(line)) >= 2)
    yield "text", (*times_in(line)[:2], None if NOTHING in line else changes_in(line)[0])
    ((markup, _),) = panels(render("html", comparison)).values()
    _, base, other, _, change, *_ = table(markup, "Metrics")["end-to-end time"]
    yield "page", (*times_in(base), *times_in(other), [*changes_in(change), None][0])


def readable(ratio):
    """Beyond a factor of a thousand people read `×1000+`."""
    return min(max(ratio, 1 / MOST_FACTOR), MOST_FACTOR)


def same_ratio(found, expected):
    """A change that is too noisy to tell is not printed."""
    return found is None or same(readable(found), readable(expected), 6e-3)


def same(found, expected, tolerance=PRINTED):
    return found == pytest.approx(expected, rel=tolerance)


@settings(max_examples=examples(15), deadline=None)
@given(rounds())
def test_a_case_has_one_time_in_every_output_of_its_document(found):
    told = dict(told_alone(document("a", numpy=found)))
    expected = time_of(found)
    assert dict.fromkeys(told, expected) == {
        name: expected if same(value, expected) else value for name, value in told.items()
    }


@pytest.mark.long
@settings(max_examples=examples(15), deadline=None)
@given(rounds(), rounds(), rounds())
def test_a_comparison_tells_the_times_of_its_documents(first, second, third):
    """One document against one, and two against one."""
    a, b, c = (
        document(name, numpy=one) for name, one in zip("abc", (first, second, third), strict=True)
    )
    for base, documents in (((first,), (a,)), ((first, second), (a, b))):
        found = compare(build.side("a", *documents), [build.side("c", c)], Policy())
        expected = time_of(*base), time_of(third)
        for name, told in told_together(found):
            assert (name, same(told[:2], expected)) == (name, True), (told, expected)
            assert (name, same_ratio(told[2], expected[1] / expected[0])) == (name, True)
        sources = [Source(f"{one.run.id}.json", one, "bench") for one in documents]
        table = Table(sources, {one.path: {"numpy"} for one in sources}, "e2e_ns")
        (log,) = levels(table.logs, table.document, table.every)
        assert same(math.exp(log), expected[0])


@settings(max_examples=examples(15), deadline=None)
@given(st.one_of(st.tuples(rounds(), rounds()), pairs()))
def test_two_engines_of_a_document_have_one_ratio_and_the_times_that_it_is_made_of(sides):
    a, b = sides
    found = document("a", numpy=a, torch=b)
    sources = [Source("a.json", found, "bench")]
    base, others = group(sources, Grouping(by="engine"))
    times = times_of_pair(a, b)
    ratio = times[1] / times[0]
    for name, told in told_together(compare(base, others, Policy())):
        assert (name, same(told[:2], times)) == (name, True), told
        assert (name, same_ratio(told[2], ratio)) == (name, True), (told, ratio)
    line = next(line for line in console.side_by_side(found).splitlines() if times_in(line))
    assert same(times_in(line), [*times])
    assert same_ratio(None if NOTHING in line else changes_in(line)[0], ratio)
    table = console.oracle_table(found, [("numpy", "torch")])
    line = next(line for line in table.splitlines() if times_in(line))
    assert same(times_in(line), [*times])
    if NOTHING not in line:
        saved = float(re.search(r"(-?[\d.]+) %", line)[1])
        assert saved == pytest.approx(100 * (1 - ratio), abs=0.06, rel=1e-6)


def test_a_side_with_wrong_outputs_has_no_change_in_the_tables_of_a_run():
    samples = [build.round_(n, {"e2e_ns": np.full(20, 1000 + n)}) for n in range(5)]
    found = document("a", numpy=samples, torch=samples)
    right, other = found.cases
    wrong = replace(other, validation=replace(other.validation, status="failed", reason="y is off"))
    found = replace(found, cases=(right, wrong))
    for text in (console.side_by_side(found), console.oracle_table(found, [("numpy", "torch")])):
        row = next(line for line in text.splitlines() if times_in(line))
        assert ("wrong" in row, "%" in row) == (True, False), text
