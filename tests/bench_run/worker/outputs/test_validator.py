"""Outputs are held against what is expected of the inputs that they were computed from; what one
round found out serves the next, and only for the very same bytes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bench_run.engines.arrange import RotatingPlan
from bench_run.engines.base import PlanAbilities
from bench_run.graph.make import make_graphs
from bench_run.measure.rotation import rotate_inputs
from bench_run.streams.host import HostStream
from bench_run.tensors.data import Data
from bench_run.tensors.layout import to_storage
from bench_run.tensors.rotation import input_sets
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.expected import Remembered
from bench_run.validate.settings import ValidationSettings
from bench_run.worker.evaluate import compute_expected
from bench_run.worker.judge import read_outputs, write_outputs
from bench_run.worker.outputs import OutputKeeper, OutputReader, OutputValidator, Subject

GRAPH = make_graphs("add: dims=4x8 dtype=float")[0]
OUTPUT = GRAPH.outputs[0]
INPUTS = make_inputs(GRAPH, 0)
SETS = input_sets(GRAPH, Data(0), INPUTS)
CANARIES = SimpleNamespace(looked=0, untouched=0, restore=lambda: None)


@pytest.fixture
def folder(tmp_path):
    for index, inputs in enumerate(SETS):
        path = tmp_path / str(index) if index else tmp_path
        path.mkdir(exist_ok=True)
        np.save(path / f"{OUTPUT.uid}.npy", compute_expected(GRAPH, inputs)[OUTPUT.uid])
    return tmp_path


class Plan:
    """Adds, and then does what it is told, with the number of the run and the output."""

    def __init__(self, then):
        self.homes = {uid: storage.copy() for uid, storage in INPUTS.items()}
        self.then, self.y, self.runs = then, np.zeros(OUTPUT.span, np.float32), 0

    @property
    def abilities(self):
        return PlanAbilities(locate_inputs=lambda: self.homes, locate_outputs=self.locate)

    def locate(self, *, upcoming):
        return {OUTPUT.uid: self.y}

    def run(self):
        self.runs += 1
        result = to_storage(compute_expected(GRAPH, self.homes)[OUTPUT.uid], OUTPUT)
        self.y[...] = self.then(self.runs, result, self.y)

    def poison(self):
        self.y[...] = np.nan


def honest(_, result, __):
    return result


def left_by(then, *, iterations=24, sets=SETS, wanted=True, round_index=0):
    """What a round of such a plan left."""
    plan = Plan(then)
    settings = ValidationSettings("numpy", "folder" if wanted else None)
    subject = Subject("case", GRAPH, settings, round_index)
    stream = HostStream()
    reader = OutputReader(plan, stream, GRAPH)
    plan.run()
    rotation = rotate_inputs(plan, stream, sets) if wanted else None
    keeper = OutputKeeper(plan, subject, reader.read(), CANARIES, reader, rotation)
    keeper.plan_samples(iterations)

    def run(before, touch):
        before()
        touch()
        plan.run()

    for index in range(iterations):
        plan.run()
        if index < iterations - 1:
            keeper.after_sample(index, run)
    keeper.after_last(iterations - 1, run)
    keeper.finish(INPUTS)
    return keeper.left()


def judged(folder, then, *, expected=True, **options):
    settings = ValidationSettings("numpy", str(folder) if expected else None)
    left = left_by(then, wanted=expected, **options)
    return OutputValidator(left, settings, Data(0), lambda: INPUTS)


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("runs", range(1, 7))
def test_a_block_on_copies_of_the_buffers_is_never_held_against_the_set_of_another_copy(
    copies, runs, folder
):
    """As many runs as bring the first copy back: the one before it left the outputs."""
    plans = [Plan(honest) for _ in range(copies)]
    plan = plans[0] if copies == 1 else RotatingPlan(plans)
    subject = Subject("case", GRAPH, ValidationSettings("numpy", str(folder)), 0)
    stream = HostStream()
    reader = OutputReader(plan, stream, GRAPH)
    plan.run()
    keeper = OutputKeeper(
        plan, subject, reader.read(), CANARIES, reader, rotate_inputs(plan, stream, SETS)
    )
    keeper.before_block()
    for _ in range(runs):
        plan.run()
    keeper.after_block()
    keeper.finish(INPUTS)
    settings = ValidationSettings("numpy", str(folder))
    found = OutputValidator(keeper.left(), settings, Data(0), lambda: INPUTS).validation()
    assert "passed" == found.status


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("executions", range(1, 6))
def test_a_sample_of_several_executions_is_held_against_the_inputs_of_its_last_copy(
    copies, executions, folder
):
    plan = RotatingPlan([Plan(honest) for _ in range(copies)])
    subject = Subject("case", GRAPH, ValidationSettings("numpy", str(folder)), 0)
    stream = HostStream()
    reader = OutputReader(plan, stream, GRAPH)
    plan.run()
    rotation = rotate_inputs(plan, stream, SETS)
    keeper = OutputKeeper(
        plan, subject, reader.read(), CANARIES, reader, rotation, executions=executions
    )

    def run(before, touch):
        before()
        touch()
        for _ in range(executions):
            plan.run()

    for index in range(7):
        keeper.after_sample(index, run)
    keeper.after_last(7, run)
    keeper.finish(INPUTS)
    left = keeper.left()
    assert len(left.kept) > 1
    settings = ValidationSettings("numpy", str(folder))
    assert "passed" == OutputValidator(left, settings, Data(0), lambda: INPUTS).validation().status


def test_every_set_comes_up_and_the_usual_one_comes_last():
    kept = left_by(honest).kept
    assert {0, 1, 2, 3} == {each.index for each in kept}
    assert (23, 0) == (kept[-1].iteration, kept[-1].index)


@pytest.mark.parametrize("round_index", range(3))
def test_an_honest_plan_is_right_on_every_set(folder, round_index):
    found = judged(folder, honest, round_index=round_index).validation()
    assert ("passed", True, 0) == (found.status, found.deterministic, found.iterations_mismatched)


def test_a_kept_answer_is_wrong_on_other_sets(folder):
    kept = {}
    found = judged(folder, lambda _, result, __: kept.setdefault("answer", result)).validation()
    assert "failed" == found.status
    assert "the outputs do not follow the inputs: right on the usual ones" in found.reason


@pytest.fixture
def usual_only(folder):
    """Where the references of other sets would take too long."""
    for path in folder.glob(f"*/{OUTPUT.uid}.npy"):
        path.unlink()
        path.parent.rmdir()
    return folder


def test_without_references_of_other_sets_a_kept_answer_is_wrong_too(usual_only):
    kept = {}

    def answer(runs, result, _):
        noise = np.zeros_like(result)
        noise[runs % 8] = np.spacing(result[runs % 8]) / 2
        return kept.setdefault("answer", result) + noise

    found = judged(usual_only, answer).validation()
    assert "failed" == found.status
    assert "the outputs do not follow the inputs" in found.reason


def test_without_references_of_other_sets_an_honest_plan_is_right(usual_only):
    assert "passed" == judged(usual_only, honest).validation().status


def test_half_of_an_answer_of_the_run_before_is_wrong(folder):
    def halves(runs, result, before):
        half = np.arange(result.size) % 2 == runs % 2
        return np.where(half | (runs == 1), result, before)

    assert "failed" == judged(folder, halves).validation().status


def test_with_one_set_only_an_iteration_that_writes_nothing_is_wrong_all_the_same(folder):
    def idle(runs, result, before):
        return result if runs == 1 else before

    assert "failed" == judged(folder, idle, sets=SETS[:1]).validation().status


def wrong_when(is_wrong):
    def then(runs, result, _):
        result[3] += 1 if is_wrong(runs) else 0
        return result

    return then


def test_the_last_iteration_on_the_usual_inputs_is_a_row_of_the_checks(folder):
    checks = judged(folder, honest).checks()
    assert ((23,), (0,)) == (checks.iteration, checks.mismatched)


def test_what_was_found_out_is_there_for_the_next_round(folder):
    first = judged(folder, honest)
    assert len(Remembered.read(str(folder)).results) == 1
    assert first.validation() == judged(folder, honest).validation()


def test_the_next_round_needs_no_expected_values_for_the_same_bytes(folder):
    judged(folder, honest)
    for path in folder.glob(f"**/{OUTPUT.uid}.npy"):
        path.unlink()
    assert "passed" == judged(folder, honest).validation().status


def test_other_bytes_are_held_against_the_expected_values_in_every_round(folder):
    judged(folder, honest)
    found = judged(folder, wrong_when(lambda runs: runs > 5)).validation()
    assert ("failed", 1) == (found.status, found.outputs[0].mismatched)
    assert (0, 3) == found.outputs[0].worst[0].index


def test_a_wrong_result_is_remembered_as_wrong(folder):
    wrong = wrong_when(lambda _: True)
    judged(folder, wrong)
    assert "failed" == judged(folder, wrong).validation().status


@pytest.mark.parametrize("content", [b"", b"no message", b"\x80\x04N."])
def test_a_memory_that_cannot_be_read_is_no_memory(folder, content):
    (folder / "remembered-fp32").write_bytes(content)
    assert "passed" == judged(folder, honest).validation().status


def test_where_nothing_is_expected_nothing_is_checked(folder):
    plan = judged(folder, honest, expected=False)
    assert ("not checked", None) == (plan.validation().status, plan.checks())


def test_what_is_left_is_the_same_in_the_process_that_judges_it(folder, tmp_path):
    left = left_by(honest)
    write_outputs(str(tmp_path / "left"), left)
    again = read_outputs(str(tmp_path / "left"), "case", GRAPH)
    settings = ValidationSettings("numpy", str(folder))
    one, other = (OutputValidator(x, settings, Data(0), lambda: INPUTS) for x in (left, again))
    assert (one.validation(), one.checks()) == (other.validation(), other.checks())
