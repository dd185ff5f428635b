"""`--group-by unit`: GPUs of one kind, held against each other case by case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench_schema import files

from bench_compare.comparison.compare import compare
from bench_compare.errors import InputError
from bench_compare.input.sides import Grouping, group
from bench_compare.model import Source, Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, engine, round_

TWO_UNITS = Path(__file__).resolve().parents[2] / "data" / "documents" / "two_units"


def on(unit, index, level_ns, host=None):
    """A round on a unit."""
    noise = np.random.default_rng([index, level_ns]).normal(0, 0.0005, 20)
    samples = {"device_ns": np.round(level_ns * (1 + noise)).astype(np.int64)}
    return replace(round_(index, samples), device_uuid=unit, host=host)


def rounds(unit, level_ns, host=None, count=5):
    return [on(unit, index, level_ns, host) for index in range(count)]


def source(cases, run_id="run", **changes):
    return Source(f"{run_id}.json", document(cases, run_id=run_id, **changes), "bench")


def sides(*sources):
    base, others = group(list(sources), Grouping("unit"))
    return [base, *others]


def two_devices(levels, names=("g", "h", "k")):
    """Each graph by one engine on two devices, as `--device all` writes it."""
    engines = [
        engine(f"cudnn+device={index}", device=f"GPU-{index}", device_kind="H200")
        for index in (0, 1)
    ]
    cases = [
        case(name, rounds(f"GPU-{index}", level), engine=f"cudnn+device={index}")
        for name, pair in zip(names, levels, strict=True)
        for index, level in enumerate(pair)
    ]
    return source(cases, engines=engines)


def test_engines_on_devices_of_their_own_are_one_engine_on_each_unit():
    found = sides(two_devices([(5000, 5000)] * 3))
    assert [("GPU-0", ("cudnn",)), ("GPU-1", ("cudnn",))] == [(s.label, s.engines) for s in found]


def test_rounds_of_one_case_are_taken_apart_by_unit():
    mixed = [*rounds("GPU-a", 5000, count=3), on("GPU-b", 3, 5100), on("GPU-b", 4, 5100)]
    found = sides(source([case("g", mixed)]))
    taken = {s.label: [r.index for r in s.sources[0].document.cases[0].rounds] for s in found}
    assert {"GPU-a": [0, 1, 2], "GPU-b": [3, 4]} == taken


def test_hosts_are_part_of_a_units_name_where_they_differ():
    first = source([case("g", rounds("GPU-a", 5000, "node1"))], "one")
    second = source([case("g", rounds("GPU-b", 5000, "node2"))], "two")
    assert ["node1 GPU-a", "node2 GPU-b"] == [side.label for side in sides(first, second)]


def test_documents_of_one_unit_stand_together():
    sources = [
        source([case("g", rounds(unit, 5000))], f"{unit} {number}")
        for unit in ("GPU-a", "GPU-b")
        for number in (1, 2)
    ]
    assert [2, 2] == [len(side.sources) for side in sides(*sources)]


def test_one_unit_alone_cannot_be_compared():
    with pytest.raises(InputError, match="everything ran on one unit"):
        sides(source([case("g", rounds("GPU-a", 5000))]))


def test_units_without_a_case_in_common_say_what_to_do():
    cases = [case("g", rounds("GPU-a", 5000)), case("h", rounds("GPU-b", 5000))]
    with pytest.raises(InputError, match=r"no case ran on each of the 2 units .* --device all"):
        sides(source(cases))


def test_cases_that_only_some_units_had_are_neither_added_nor_removed():
    extra = case("only here", rounds("GPU-0", 5000), engine="cudnn+device=0")
    one = two_devices([(5000, 5000)] * 3)
    cases = (*one.document.cases, replace(extra, id="extra"))
    found = sides(replace(one, document=replace(one.document, cases=cases)))
    assert [3, 3] == [len(side.sources[0].document.cases) for side in found]


def test_the_case_that_is_slow_on_a_unit_is_found():
    base, *others = sides(two_devices([(5000, 5000), (5000, 5900), (5000, 5000)]))
    comparison = compare(base, others, Policy())
    verdicts = {row.name: row.verdict for row in comparison.cases}
    slower = [name for name, verdict in verdicts.items() if verdict is Verdict.SLOWER]
    assert ["h"] == slower


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        (
            12,
            "median of all cases 1.18× slower: unit GPU-1 is slower than GPU-0 in 12 of 12 cases, "
            "faster in 0",
        ),
        (
            1,
            "median of all cases +0 %: unit GPU-1 is slower than GPU-0 in "
            "1 of 12 cases, faster in 0",
        ),
    ],
)
def test_a_slow_unit_is_named_with_the_number_of_its_slow_cases(slow, expected):
    levels = [(5000, 5900)] * slow + [(5000, 5000)] * (12 - slow)
    base, *others = sides(two_devices(levels, [f"g{number}" for number in range(12)]))
    comparison = compare(base, others, Policy())
    (movement,) = comparison.movements
    assert (expected, ()) == (movement.reason, comparison.warnings)


def test_that_units_differ_is_the_question_and_no_reservation():
    base, *others = sides(two_devices([(5000, 5900)] * 3))
    assert not any("another unit" in text for text in compare(base, others, Policy()).warnings)


@pytest.mark.long
def test_two_measured_units_differ_in_the_convolutions_by_up_to_18_percent():
    paths = [TWO_UNITS / f"{name}.json.zst" for name in ("solo_1", "solo_2", "solo1_1", "solo1_2")]
    base, *others = sides(*(Source(str(path), files.read(path), "bench") for path in paths))
    rows = compare(base, others, Policy()).cases
    ratios = {row.name: row.metrics["device_ns"].ratio for row in rows}
    moved = {name: ratio for name, ratio in ratios.items() if ratio < 0.95}
    assert ["conv_fwd", "conv_fwd"] == [name.split("_n")[0] for name in moved]
    assert min(moved.values()) == pytest.approx(0.82, abs=0.01)
