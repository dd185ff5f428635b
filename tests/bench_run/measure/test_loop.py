"""The timing loops with a scripted clock: numbers and the order of calls are exact."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.engines.base import PlanAbilities
from bench_run.measure import loop
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.checks import NoChecks
from bench_run.measure.loop import end_to_end, measure, on_device, quiet
from bench_run.measure.placements import OnePlace
from bench_run.streams.base import StreamAbilities


class ScriptedStream:
    """Advances its own clock: each run takes the next duration."""

    abilities = StreamAbilities()

    def __init__(self, durations, clock="host", gate_depth=0):
        self.durations = list(durations)
        self.now = 0
        self.calls = []
        self.clock = clock
        self.gate_depth = gate_depth

    def time(self):
        return self.now

    def mark(self):
        self.calls.append("mark")
        return self.now

    def elapsed_ns(self, begin, end):
        return end - begin

    @contextmanager
    def gate(self):
        self.calls.append("close gate")
        try:
            yield
        finally:
            self.calls.append("open gate")

    def flush(self):
        self.calls.append("flush")

    def synchronize(self):
        self.calls.append("synchronize")


class ScriptedPlan:
    abilities = PlanAbilities()

    def __init__(self, stream):
        self.stream = stream
        self.runs = 0

    def run(self):
        self.runs += 1
        self.stream.calls.append("run")
        self.stream.now += self.stream.durations.pop(0)


class Check(NoChecks):
    """Takes so long before and after each sample."""

    def __init__(self, stream, took_ns, *, before_ns=0, disturbs=False):
        self.stream, self.took_ns, self.disturbs = stream, took_ns, disturbs
        self.before_ns = before_ns
        self.last = None

    def plan(self, estimate_ns, count, queued):
        self.estimate_ns, self.count = estimate_ns, count

    def before(self):
        self.stream.now += self.before_ns

    def after(self, index):
        self.stream.now += self.took_ns
        self.last = index
        return self.disturbs and index is not None

    before_queued = before

    def after_queued(self):
        self.stream.now += self.took_ns

    def before_block(self):
        self.stream.calls.append("before block")

    def after_block(self):
        self.stream.calls.append("after block")


def measured(stream, budget, check=loop.NONE):
    plan = ScriptedPlan(stream)
    return measure(plan, stream, budget, check, stream.time), plan


def test_warmup_runs_are_kept_apart_from_the_samples():
    result, _ = measured(ScriptedStream([900, 10, 12]), SamplingBudget(warmup=1, iterations=2))
    assert (result.warmup, result.series) == ({"e2e_ns": [900]}, {"e2e_ns": [10, 12]})


def test_a_sample_is_flush_wait_run_wait():
    stream = ScriptedStream([10])
    measured(stream, SamplingBudget(warmup=0, iterations=1))
    assert stream.calls == ["flush", "synchronize", "run", "synchronize"]


def test_iterations_stop_the_loop():
    result, _ = measured(ScriptedStream([1] * 9), SamplingBudget(warmup=0, iterations=3))
    assert (result.series["e2e_ns"], result.stopped_by) == ([1, 1, 1], "iterations")


def test_min_time_adds_samples():
    result, _ = measured(ScriptedStream([10] * 9), SamplingBudget(0, 2, min_time_ns=45))
    assert (len(result.series["e2e_ns"]), result.stopped_by) == (5, "min time")


def test_max_time_ends_a_pass_early():
    result, _ = measured(ScriptedStream([10] * 9), SamplingBudget(0, 9, max_time_ns=25))
    assert (len(result.series["e2e_ns"]), result.stopped_by) == (3, "max time")


def test_max_time_still_takes_one_sample():
    result, _ = measured(ScriptedStream([10_000] * 3), SamplingBudget(0, 9, max_time_ns=1))
    assert result.series["e2e_ns"] == [10_000]


def costly(costs_ns, limit_ns, clock, **budget):
    """The wall time of the last pass where all that comes with a sample takes so long: a run, a
    flush, a wait, and checks before and after."""
    run, flush, wait, before, after = costs_ns
    stream = ScriptedStream([run] * 2000, clock=clock, gate_depth=16)
    took = lambda cost: lambda *_: setattr(stream, "now", stream.now + cost)  # noqa: E731
    stream.flush, stream.synchronize = took(flush), took(wait)
    check = Check(stream, after, before_ns=before)
    budget = SamplingBudget(0, max_time_ns=limit_ns, **budget)
    plan, begin = ScriptedPlan(stream), stream.now
    if clock == "host":
        end_to_end(plan, stream, budget, stream.time, check)
    else:
        on_device(plan, stream, budget, run, check, stream.time)
    return stream.now - begin


COSTS = st.tuples(*[st.integers(1, 100)] * 5)


@pytest.mark.parametrize("limits", [{}, {"min_time_ns": 900}])
@given(costs_ns=COSTS)
def test_max_time_bounds_the_wall_time_whatever_comes_with_a_sample(limits, costs_ns):
    """The last sample begins in time, and what was begun may end: a check runs the plan again."""
    took_ns = costly(costs_ns, 1_000, "host", iterations=10**20, **limits)
    once_ns = sum(costs_ns) + 2 * costs_ns[2]
    again_ns = costs_ns[0] + costs_ns[2]
    assert 1_000 <= took_ns < 1_000 + once_ns + again_ns


@given(costs_ns=COSTS)
def test_max_time_bounds_the_wall_time_of_the_device_pass(costs_ns):
    """By one block, which is as long as the time that the samples before leave."""
    took_ns = costly(costs_ns, 1_000, "events", iterations=10**20)
    run, flush, wait, before, after = costs_ns
    each_ns = run + flush + before + after
    first_ns = max(1, min(16, 1_000 // run)) * each_ns + wait
    assert 1_000 <= took_ns <= max(first_ns, 1_000 + each_ns + wait)


@given(costs_ns=COSTS, clock=st.sampled_from(("host", "events")))
def test_min_time_is_wall_time_too(costs_ns, clock):
    took_ns = costly(costs_ns, None, clock, iterations=1, min_time_ns=1_000)
    assert 1_000 <= took_ns < 1_000 + 16 * sum(costs_ns) + 1_000


def test_a_check_is_part_of_the_time():
    stream = ScriptedStream([10] * 9)

    check = Check(stream, 20, disturbs=True)
    result, _ = measured(stream, SamplingBudget(0, 9, max_time_ns=75), check)
    assert (len(result.series["e2e_ns"]), result.stopped_by) == (2, "max time")
    assert 1 == check.last


@pytest.mark.parametrize("clock", ["host", "events"])
def test_without_any_time_limit_samples_end_where_memory_would(clock, monkeypatch):
    monkeypatch.setattr(loop, "MOST_SAMPLES", 5)
    stream = ScriptedStream([1] * 20, clock=clock, gate_depth=5)
    result, _ = measured(stream, SamplingBudget(0, 10**20))
    assert [5] * len(result.series) == [len(samples) for samples in result.series.values()]
    assert result.stopped_by == "most samples"


class FlushingStream(ScriptedStream):
    """On the processor; each flush takes ten times as long as a sample."""

    abilities = StreamAbilities(flushes=lambda: True)

    def flush(self):
        super().flush()
        self.now += 100


def test_what_is_done_for_the_caches_counts_for_the_longest_time():
    stream, budget = FlushingStream([10] * 20), SamplingBudget(0, 20, 0, 330)
    measured = measure(ScriptedPlan(stream), stream, budget, clock=stream.time)
    assert [10] * 3 == measured.series["e2e_ns"]


def test_before_a_sample_in_cold_caches_the_loop_runs_once_without_work():
    stream = FlushingStream([10])
    measure(ScriptedPlan(stream), stream, SamplingBudget(0, 1), clock=stream.time)
    assert ["flush", "synchronize", "synchronize", "run", "synchronize"] == stream.calls


def test_a_block_is_no_longer_than_the_time_that_is_left():
    """The first one by the estimate, later ones by the samples before."""
    stream = ScriptedStream([10] * 99, clock="events", gate_depth=16)
    on_device(ScriptedPlan(stream), stream, SamplingBudget(0, 99, 0, 100), 20, clock=stream.time)
    assert [5, 5] == [
        block.count("run") for block in " ".join(stream.calls).split("close gate")[1:]
    ]


def test_warmup_takes_at_most_half_of_the_time():
    result, _ = measured(ScriptedStream([10] * 40), SamplingBudget(20, 2, max_time_ns=100))
    assert len(result.warmup["e2e_ns"]) == 5


def test_a_check_runs_outside_of_the_sample_and_an_untimed_run_precedes_the_next():
    stream = ScriptedStream([10, 999, 12])

    check = Check(stream, 5_000, disturbs=True)
    result, plan = measured(stream, SamplingBudget(0, 2), check)
    assert (result.series["e2e_ns"], plan.runs) == ([10, 12], 3)


def test_a_check_surrounds_each_block_of_device_samples():
    stream = ScriptedStream([10] * 8, clock="events", gate_depth=2)
    measured(stream, SamplingBudget(0, 4), Check(stream, 0))
    words = [w for w in stream.calls if "block" in w or "gate" in w]
    assert ["before block", "close gate", "open gate", "after block"] * 2 == words


def test_several_executions_in_a_sample_are_averaged():
    result, _ = measured(ScriptedStream([10, 20, 30, 40]), SamplingBudget(0, 2, executions=2))
    assert result.series["e2e_ns"] == [15, 35]


def test_device_samples_lie_behind_a_gate_no_deeper_than_the_queue():
    stream = ScriptedStream([10] * 10, clock="events", gate_depth=2)
    measured(stream, SamplingBudget(0, 5))
    blocks = " ".join(stream.calls).split("close gate")[1:]
    assert [block.split("open gate")[0].count("run") for block in blocks] == [2, 2, 1]


def test_nothing_is_synchronised_behind_the_closed_gate():
    stream = ScriptedStream([10] * 6, clock="events", gate_depth=8)
    measured(stream, SamplingBudget(0, 3))
    inside = " ".join(stream.calls).split("close gate")[1].split("open gate")[0]
    assert "synchronize" not in inside


def test_the_gate_opens_when_the_plan_fails():
    stream = ScriptedStream([], clock="events", gate_depth=8)
    with pytest.raises(IndexError):
        measured(stream, SamplingBudget(0, 3))
    assert stream.calls[-1] == "open gate"


def test_garbage_collection_is_off_inside_and_back_afterwards():
    import gc

    with quiet():
        inside = gc.isenabled()
    assert (inside, gc.isenabled()) == (False, True)


@pytest.mark.parametrize(("warmup", "estimate_ns"), [(0, 5000), (2, 30)])
def test_without_warmup_the_first_run_says_how_long_an_iteration_takes(warmup, estimate_ns):
    stream = ScriptedStream([30] * 3)
    check = Check(stream, 0)
    measured(stream, SamplingBudget(warmup=warmup, iterations=1, first_run_ns=5000), check)
    assert estimate_ns == check.estimate_ns


@pytest.mark.parametrize(
    ("each_ns", "taken"), [(20_000_000, 30), (400_000, 30), (200_000, 60), (1_000, 360)]
)
def test_by_time_as_many_samples_are_taken_as_fit_in_a_round(each_ns, taken):
    stream = ScriptedStream([each_ns] * 400)
    result, _ = measured(stream, SamplingBudget(1, 0, by_time=True))
    assert ([taken], "iterations") == ([len(s) for s in result.series.values()], result.stopped_by)


def test_by_time_of_a_device_its_own_time_counts_and_the_host_takes_no_more_than_60():
    stream = ScriptedStream([50_000] * 400, clock="events", gate_depth=64)
    check = Check(stream, 0)
    result, _ = measured(stream, SamplingBudget(0, 0, by_time=True), check)
    lengths = {name: len(samples) for name, samples in result.series.items()}
    assert {"device_ns": 240, "e2e_ns": 60, "submit_ns": 60} == lengths
    assert 60 == check.count


def test_where_records_follow_few_samples_are_taken_by_events():
    stream = ScriptedStream([50_000] * 400, clock="events", gate_depth=64)
    budget, plan = SamplingBudget(0, 0, by_time=True), ScriptedPlan(stream)
    result = measure(plan, stream, budget, clock=stream.time, has_records=lambda ns: ns == 50_000)
    assert (30, 240, True) == (len(result.series["device_ns"]), result.wanted, result.is_recorded)


def test_the_call_alone_is_a_series_of_its_own():
    class Asynchronous(ScriptedStream):
        def synchronize(self):
            super().synchronize()
            self.now += 40

    stream = Asynchronous([7] * 4, clock="events", gate_depth=8)
    result, _ = measured(stream, SamplingBudget(0, 2))
    assert ([7, 7], [47, 47]) == (result.series["submit_ns"], result.series["e2e_ns"])


def test_more_places_than_end_to_end_samples_leave_every_series_whole():
    stream = ScriptedStream([50_000] * 400, clock="events", gate_depth=64)
    places = OnePlace()
    places.count = 100
    budget = SamplingBudget(0, 0, by_time=True)
    result = measure(ScriptedPlan(stream), stream, budget, clock=stream.time, placements=places)
    assert [240, 60, 60] == [len(samples) for samples in result.series.values()]
