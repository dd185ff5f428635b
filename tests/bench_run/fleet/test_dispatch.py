"""Which unit measures what: every round taken once, whatever is lost, repeated or late."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from bench_schema.document import Case, GraphId, Outcome, Round, Work
from hypothesis import given
from hypothesis import strategies as st

import bench_run
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.errors import UsageError
from bench_run.fleet.cluster import check_reachable
from bench_run.fleet.dispatch import MOST_ATTEMPTS, Dispatch
from bench_run.fleet.ray_run import check_ray
from bench_run.options import Options
from bench_run.plan.engines import PlannedEngine

ROUNDS = 3
UNITS = ("a", "b", "c")


def planned(number, engine="numpy"):
    meaning = GraphId(f"g{number}", f"g{number}.json", "0" * 64, f"f{number}", "add", "float")
    graph = SimpleNamespace(id=meaning, work=Work(10**9 * number, 10**6, None))
    return SimpleNamespace(
        id=f"g{number} on {engine}",
        graph=graph,
        engine=PlannedEngine(engine, EngineSpec(engine, engine), EngineOptions(), "numpy"),
        variant={},
    )


def part(case, index, status="completed"):
    measured = (Round(index, "2026-01-01T00:00:00Z", 1, 0),) if status == "completed" else ()
    return Case(case.id, case.graph.id, case.engine.key, outcome=Outcome(status), rounds=measured)


def dispatch(count=6, **changes):
    cases = [planned(number) for number in range(count)]
    made = Dispatch(cases, ROUNDS, **{"open_ended": False, **changes})
    made.spread({}, UNITS)
    return made


def measure(fleet, unit, block, rounds=ROUNDS):
    """What a unit sends of its block."""
    done = {(known.id, each.index) for known in block.done for each in known.rounds}
    return [
        part(case, index)
        for index in range(rounds)
        for case in block.cases
        if (case.id, index) not in done
    ]


def work(fleet, units):
    """Units do all that they are given; gives what was kept."""
    kept = []
    while blocks := [(u, block) for u in units if (block := fleet.next_block(u)) is not None]:
        for unit, block in blocks:
            kept += filter(None, [fleet.take(unit, p) for p in measure(fleet, unit, block)])
            fleet.finish(unit, block.number)
    return kept


def rounds_of(kept):
    return sorted((case.id, each.index) for case in kept for each in case.rounds)


ALL = sorted((f"g{number} on numpy", index) for number in range(6) for index in range(ROUNDS))


def test_all_rounds_of_all_cases_are_measured_once():
    fleet = dispatch()
    assert ALL == rounds_of(work(fleet, UNITS))


def test_a_graph_stays_on_one_unit():
    cases = [planned(number, engine) for number in range(6) for engine in ("numpy", "torch")]
    fleet = Dispatch(cases, ROUNDS, open_ended=False)
    fleet.spread({}, UNITS)
    homes = {}
    for unit in UNITS:
        block = fleet.next_block(unit)
        for case in block.cases if block else ():
            homes.setdefault(case.graph.id.fingerprint, set()).add(unit)
    assert [1] * 6 == [len(units) for units in homes.values()]


def test_a_resumed_graph_goes_back_to_its_unit():
    fleet = Dispatch([planned(number) for number in range(6)], ROUNDS, open_ended=False)
    fleet.spread({f"f{number}": "b" for number in range(6)}, UNITS)
    assert [0, 6, 0] == [len(b.cases) if (b := fleet.next_block(u)) else 0 for u in UNITS]


def test_what_an_earlier_run_measured_is_not_measured_again():
    fleet = Dispatch([planned(0), planned(1)], ROUNDS, open_ended=False)
    fleet.resume([part(planned(0), 0), part(planned(1), 0)])
    fleet.spread({}, UNITS)
    assert [("g0 on numpy", 1), ("g0 on numpy", 2)] == rounds_of(work(fleet, UNITS))[:2]


def lost_in_the_middle():
    """A fleet whose unit a was lost after its first result; and that unit's block."""
    fleet = dispatch()
    block = fleet.next_block("a")
    kept = [fleet.take("a", measure(fleet, "a", block)[0])]
    return fleet, block, kept


def test_the_cases_of_a_lost_unit_are_measured_by_the_others():
    fleet, _, kept = lost_in_the_middle()
    fleet.give(fleet.lose("a"), ["b", "c"])
    assert ALL == rounds_of(kept + work(fleet, ["b", "c"]))


def test_what_a_lost_unit_had_begun_is_another_attempt():
    fleet, block, _ = lost_in_the_middle()
    fleet.give(fleet.lose("a"), ["b", "c"])
    again = work(fleet, ["b", "c"])
    begun = {case.id for case in block.cases}
    assert {1} == {each.attempt for case in again if case.id in begun for each in case.rounds}


def test_a_result_that_comes_twice_is_taken_once():
    fleet = dispatch()
    block = fleet.next_block("a")
    first = measure(fleet, "a", block)[0]
    assert (True, None, 1) == (
        fleet.take("a", first) is not None,
        fleet.take("a", first),
        fleet.dropped,
    )


def test_a_late_round_of_a_lost_unit_is_taken_where_it_is_missing():
    fleet, block, _ = lost_in_the_middle()
    fleet.lose("a")
    late = fleet.take("a", measure(fleet, "a", block)[1])
    assert {0} == {each.attempt for each in late.rounds}


def test_a_late_crash_of_a_lost_unit_is_no_outcome_of_the_case():
    fleet, block, _ = lost_in_the_middle()
    fleet.lose("a")
    assert fleet.take("a", part(block.cases[0], 1, "crashed")) is None


def test_rounds_behind_a_gate_are_void_once_a_case_had_to_do_without():
    fleet = dispatch(1)
    unit, block = next((u, b) for u in UNITS if (b := fleet.next_block(u)) is not None)

    def send(index, timing):
        sent = part(block.cases[0], index)
        return fleet.take(
            unit, replace(sent, rounds=(replace(sent.rounds[0], device_timing=timing),))
        )

    sent = [(0, "gated events"), (1, "events"), (2, "gated events"), (0, "events"), (2, "events")]
    assert [True, True, False, True, True] == [send(*each) is not None for each in sent]
    assert not fleet.open


def test_a_failure_ends_the_case():
    fleet = dispatch(1)
    unit = next(u for u in UNITS if fleet.next_block(u) is not None)
    fleet.take(unit, part(planned(0), 0, "failed"))
    assert not fleet.open


def test_a_case_that_no_unit_survives_is_given_up():
    fleet = dispatch(1)
    names = []
    for attempt in range(MOST_ATTEMPTS):
        unit = f"unit {attempt}"
        fleet.give(names or fleet.open, [unit]) if attempt else fleet.spread({}, [unit])
        block = fleet.next_block(unit)
        assert block is None or block.attempt == attempt
        names = fleet.lose(unit)
    (case,) = fleet.hopeless(fleet.open)
    assert ("crashed", set()) == (fleet.give_up(case, "lost").outcome.status, fleet.open)


def test_a_block_that_ends_early_gives_its_cases_back():
    fleet = dispatch()
    block = fleet.next_block("a")
    assert {case.id for case in block.cases} == set(fleet.finish("a", block.number))


def test_with_a_rule_that_adds_rounds_the_unit_knows_when_a_case_is_complete():
    fleet = dispatch(1, open_ended=True)
    unit, block = next((u, b) for u in UNITS if (b := fleet.next_block(u)) is not None)
    for sent in measure(fleet, unit, block, ROUNDS + 4):
        fleet.take(unit, sent)
    assert ([], set()) == (fleet.finish(unit, block.number), fleet.open)


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_whatever_is_lost_repeated_or_late_each_round_is_taken_once(seed, count):
    chance = random.Random(seed)
    fleet, kept, outbox, alive = dispatch(count), [], [], list(UNITS)
    while fleet.open:
        for unit in alive:
            block = fleet.next_block(unit)
            if block is not None:
                outbox.append((unit, block, measure(fleet, unit, block)))
        unit, block, results = chance.choice(outbox)
        for _ in range(chance.randrange(4)):
            if results:
                sent = results.pop(0) if chance.random() < 0.7 else results[0]
                kept.append(fleet.take(unit, sent))
        if len(alive) > 1 and chance.random() < 0.05:
            alive.remove(gone := chance.choice(alive))
            names = fleet.lose(gone)
            hopeless = {case.id for case in fleet.hopeless(names)}
            fleet.give([name for name in names if name not in hopeless], alive)
        elif not results and unit in alive:
            fleet.give(fleet.finish(unit, block.number), alive)
    found = rounds_of(filter(None, kept))
    expected = [
        (f"g{number} on numpy", index) for number in range(count) for index in range(ROUNDS)
    ]
    assert sorted(expected) == found


def test_what_is_kept_is_the_very_part_but_for_its_attempt():
    fleet = dispatch(1)
    unit = next(u for u in UNITS if fleet.next_block(u) is not None)
    sent = part(planned(0), 0)
    kept = fleet.take(unit, sent)
    assert replace(kept.rounds[0], attempt=None).index == sent.rounds[0].index


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"trace": "t.json"}, "--trace"),
        ({"counters": "x"}, "--counters"),
        ({"write_golden": "d"}, "--write-golden"),
        ({"save_outputs": "d"}, "--save-outputs"),
        ({"device": None}, "--device"),
        ({"device": (0, 1)}, "--device"),
        ({"until": "decided"}, "--until"),
        ({"parallel": "measure"}, "--parallel"),
        ({"require_idle": True}, "--require-idle"),
    ],
)
def test_what_a_fleet_cannot_do_is_refused_by_name(changes, flag):
    with pytest.raises(UsageError, match=flag):
        check_ray(Options(ray="local", **changes))


def test_from_python_a_cluster_is_refused():
    with pytest.raises(UsageError, match="only the command line"):
        bench_run.run(["g.json"], ray="local")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "host:port"])
def test_an_address_without_a_cluster_is_refused_at_once(address):
    with pytest.raises(UsageError, match=f"--ray {address}"):
        check_reachable(address)
