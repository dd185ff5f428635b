"""What one round found out about outputs serves the next, and only for the very same bytes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bench_run.engines.base import PlanAbilities
from bench_run.graph.make import make_graphs
from bench_run.streams.host import HostStream
from bench_run.tensors.data import Data
from bench_run.tensors.layout import to_storage
from bench_run.tensors.seeded.inputs import make_inputs
from bench_run.validate.expected import Remembered
from bench_run.validate.settings import ValidationSettings
from bench_run.worker.evaluate import compute_expected
from bench_run.worker.outputs import OutputKeeper, OutputReader, OutputValidator, Subject

GRAPH = make_graphs("add: dims=4x8 dtype=float")[0]
OUTPUT = GRAPH.outputs[0]
INPUTS = make_inputs(GRAPH, 0)
CANARIES = SimpleNamespace(watching=True, looked=0, untouched=0)
EXPECTED = compute_expected(GRAPH, INPUTS)[OUTPUT.uid]


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / f"{OUTPUT.uid}.npy", EXPECTED)
    return tmp_path


class LeftBehind:
    """A plan whose runs leave these outputs, the last of them for ever."""

    abilities = PlanAbilities()

    def __init__(self, runs):
        self.left = [{OUTPUT.uid: to_storage(array, OUTPUT)} for array in runs]
        self.poisoned = 0

    def run(self):
        return None

    def poison(self):
        self.poisoned += 1

    def download(self):
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def judged(folder, *runs, expected=True):
    """The validator of a round whose first run and timed iterations left these outputs."""
    plan = LeftBehind(runs)
    settings = ValidationSettings("numpy", str(folder) if expected else None)
    subject = Subject("case", GRAPH, settings, 0, len(runs) - 1)
    reader = OutputReader(plan, HostStream(), GRAPH)
    keeper = OutputKeeper(plan, subject, reader.read(), CANARIES, reader, wanted=settings.wanted)
    for iteration in range(len(runs) - 1):
        keeper.timed_check(iteration)
    keeper.keep_last(len(runs) - 1)
    keeper.run_again(INPUTS)
    return OutputValidator(keeper.left(), settings, Data(0), lambda: INPUTS)


def wrong():
    array = EXPECTED.copy()
    array[1, 2] += 1
    return array


def test_what_was_found_out_is_there_for_the_next_round(folder):
    first = judged(folder, EXPECTED, EXPECTED)
    assert len(Remembered.read(str(folder)).results) == 1
    assert first.validation() == judged(folder, EXPECTED, EXPECTED).validation()


def test_the_next_round_needs_no_expected_values_for_the_same_bytes(folder):
    judged(folder, EXPECTED, EXPECTED)
    (folder / f"{OUTPUT.uid}.npy").unlink()
    assert "passed" == judged(folder, EXPECTED, EXPECTED).validation().status


def test_other_bytes_are_held_against_the_expected_values_in_every_round(folder):
    judged(folder, EXPECTED, EXPECTED)
    found = judged(folder, EXPECTED, wrong()).validation()
    assert ("failed", 1) == (found.status, found.outputs[0].mismatched)
    assert (1, 2) == found.outputs[0].worst[0].index


def test_a_wrong_result_is_remembered_as_wrong(folder):
    judged(folder, EXPECTED, wrong())
    found = judged(folder, wrong(), wrong()).validation()
    assert ("failed", 1, 1) == (
        found.status,
        found.iterations_checked,
        found.iterations_mismatched,
    )


@pytest.mark.parametrize("content", [b"", b"no pickle"])
def test_a_memory_that_cannot_be_read_is_no_memory(folder, content):
    (folder / "remembered").write_bytes(content)
    assert "passed" == judged(folder, EXPECTED, EXPECTED).validation().status


def test_where_nothing_is_expected_nothing_is_checked(folder):
    plan = judged(folder, EXPECTED, EXPECTED, expected=False)
    assert ("not checked", None) == (plan.validation().status, plan.checks())
