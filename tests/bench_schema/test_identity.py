"""Which case is which: engines' keys taken apart, and laws of what is paired."""

from __future__ import annotations

from itertools import pairwise

import pytest
from bench_schema.identity import (
    CaseIdentity,
    EngineName,
    PlacedCase,
    engine_name,
    engine_names,
    gather,
    without_device,
)
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.support import examples


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("numpy", EngineName("numpy", "numpy")),
        ("torch:cuda:1+compile", EngineName("torch", "torch:cuda:1+compile")),
        ("cudnn:all+device=12", EngineName("cudnn", "cudnn:all", device="12")),
        ("torch:cpu+threads=4+device=0", EngineName("torch", "torch:cpu", "0", "4")),
        (
            "hipdnn:A+knob:k=1+device=1@/p+device=2",
            EngineName("hipdnn", "hipdnn:A+knob:k=1", "1", plugin_path="/p+device=2"),
        ),
        ("cudnn math=tf32", EngineName("cudnn", "cudnn", math="tf32")),
        ("hipdnn:A@/a b #2", EngineName("hipdnn", "hipdnn:A", plugin_path="/a b", number="2")),
        ("numpy #2 math=fast", EngineName("numpy", "numpy", math="fast", number="2")),
    ],
)
def test_a_key_is_a_spec_and_circumstances(key, expected):
    assert expected == engine_name(key)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("cudnn+device=1", "cudnn"),
        ("cudnn:all+device=1+threads=2@/p+device=3", "cudnn:all+threads=2@/p+device=3"),
        ("cudnn+device=1 math=tf32", "cudnn math=tf32"),
    ],
)
def test_copies_on_several_devices_share_what_is_left_of_their_keys(key, expected):
    assert expected == without_device(key)


def test_engines_of_one_name_keep_their_keys():
    keys = ("cudnn+device=0", "cudnn+device=1", "torch+threads=2")
    assert ["cudnn+device=0", "cudnn+device=1", "torch"] == [*engine_names(keys).values()]


# --- what is paired ---

KEYS = ("numpy", "torch", "torch:cpu", "cudnn:1", "cudnn:2+compile")
VARIANTS = ((), (("layout", "nhwc"),), (("plan", "eng5"),))
cases = some.builds(
    CaseIdentity,
    fingerprint=some.sampled_from(["f", "g"]),
    name=some.sampled_from(["one", "two"]),
    path=some.sampled_from(["a/x.json", "b/x.json"]),
    engine=some.sampled_from(KEYS),
    variant=some.sampled_from(VARIANTS),
    is_tuned=some.booleans(),
    unit=some.just("GPU-1"),
    device_index=some.just("0"),
)
sides = some.lists(some.lists(cases, unique=True, max_size=6), max_size=3)
"""Documents with their cases."""

CIRCUMSTANCES = {
    "device": lambda one: one._replace(engine=f"{one.engine}+device=3", device_index="3"),
    "unit": lambda one: one._replace(unit="GPU-9"),
    "threads": lambda one: one._replace(engine=f"{one.engine}+threads=7"),
    "plugin path": lambda one: one._replace(engine=f"{one.engine}@/some/where"),
    "folder": lambda one: one._replace(path=f"/far/away/{one.path}"),
    "number": lambda one: one._replace(engine=f"{one.engine} #2"),
}


def held_by(*both):
    return [
        PlacedCase(side, number, case)
        for side, documents in enumerate(both)
        for number, document in enumerate(documents)
        for case in document
    ]


def paired(held):
    """Groups as sets of (side, place in the side)."""
    first = sum(one.side == 0 for one in held)
    places = [(one.side, n - first * one.side) for n, one in enumerate(held)]
    return {frozenset(places[n] for n in group.members) for group in gather(held)}


@given(sides, sides)
def test_no_case_is_lost_or_paired_twice(base, other):
    held = held_by(base, other)
    assert [*range(len(held))] == sorted(n for group in gather(held) for n in group.members)


@given(sides, sides)
def test_swapping_the_sides_swaps_the_pairs(base, other):
    swapped = paired(held_by(other, base))
    back = {frozenset((1 - side, n) for side, n in group) for group in swapped}
    assert paired(held_by(base, other)) == back


@given(sides, sides, some.sampled_from(sorted(CIRCUMSTANCES)))
def test_a_circumstance_of_a_whole_side_changes_no_pair(base, other, what):
    added = [[CIRCUMSTANCES[what](case) for case in document] for document in other]
    assert paired(held_by(base, other)) == paired(held_by(base, added))


@given(some.lists(cases, unique_by=lambda one: one.fingerprint), some.permutations([0, 1]))
def test_where_each_side_has_one_case_of_each_graph_all_meet(base, order):
    other = [
        one._replace(engine="other:7@/p", variant=(("a", "b"),), name="new", unit="GPU-5")
        for one in base
    ]
    both = [[base], [other]]
    found = paired(held_by(*(both[n] for n in order)))
    assert [{0, 1}] * len(base) == [{side for side, _ in group} for group in found]


@given(sides, sides)
@settings(max_examples=examples(30))
def test_groups_stand_in_the_order_of_their_first_cases(base, other):
    firsts = [group.members[0] for group in gather(held_by(base, other))]
    assert all(a < b for a, b in pairwise(firsts))


def engines_of(base, other):
    """Pairs of one graph on these engines, by their keys."""
    held = held_by(
        *([[CaseIdentity("f", "g", "g.json", key) for key in keys]] for keys in (base, other))
    )
    return [tuple(held[n].case.engine for n in group.members) for group in gather(held)]


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        (["torch"], ["torch:cpu"], [("torch", "torch:cpu")]),
        (["cudnn"], ["torch"], [("cudnn", "torch")]),
        (["numpy"], ["torch", "cudnn"], [("numpy",), ("torch",), ("cudnn",)]),
        (["cudnn", "torch"], ["cudnn:5"], [("cudnn", "cudnn:5"), ("torch",)]),
        (
            ["torch", "torch:cpu"],
            ["torch:cpu+threads=2"],
            [("torch",), ("torch:cpu", "torch:cpu+threads=2")],
        ),
        (["h@/a", "h@/b"], ["h@/b"], [("h@/a",), ("h@/b", "h@/b")]),
        (["numpy", "numpy #2"], ["numpy"], [("numpy", "numpy"), ("numpy #2",)]),
    ],
)
def test_the_engine_decides_only_where_a_side_has_several(base, other, expected):
    assert expected == engines_of(base, other)


def on_devices(*units):
    return [
        [
            CaseIdentity(
                "f", "g", "g.json", f"cudnn+device={index}", unit=unit, device_index=f"{index}"
            )
            for index, unit in units
        ]
    ]


def met(base, other):
    held = held_by(base, other)
    return [
        tuple(held[n].case.unit for n in group.members)
        for group in gather(held)
        if len(group.members) == 2
    ]


def test_of_several_devices_the_same_units_meet():
    base, other = on_devices((0, "A"), (1, "B")), on_devices((0, "B"), (1, "C"))
    assert [("B", "B")] == met(base, other)


def test_on_another_host_devices_meet_by_what_the_run_called_them():
    base, other = on_devices((0, "A"), (1, "B")), on_devices((1, "C"), (0, "D"))
    assert [("A", "D"), ("B", "C")] == met(base, other)


def test_a_graph_that_a_tuning_rewrote_is_the_one_that_was_given():
    plain = CaseIdentity("f", "g", "g.json", "numpy")
    tuned = CaseIdentity("h", "g", "g.json#dtype=half", "torch", (("dtype", "half"),), True)
    assert 1 == len(gather(held_by([[plain]], [[tuned]])))


def test_a_graph_that_the_user_wanted_rewritten_is_another_one():
    plain = CaseIdentity("f", "g", "g.json", "numpy")
    asked = CaseIdentity("h", "g", "g.json#dtype=half", "numpy", (("dtype", "half"),))
    assert 2 == len(gather(held_by([[plain]], [[asked]])))


def test_a_tuned_case_meets_the_variant_that_was_chosen_where_variants_decide():
    plans = [(), (("plan", "a"),), (("plan", "b"),)]
    base = [[CaseIdentity("f", "g", "g.json", "cudnn", plan) for plan in plans]]
    tuned = [[CaseIdentity("f", "g", "g.json", "cudnn", plans[2], True)]]
    found = [group.members for group in gather(held_by(base, tuned)) if len(group.members) == 2]
    assert [[2, 3]] == found
