from dataclasses import replace

import numpy as np
import pytest

from bench_run.errors import EngineError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.layouts import packed
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.tensors.files import read_tensors
from bench_run.tensors.layout import fill_with_poison, logical_view, to_storage
from bench_run.validate.outputs import (
    OutputChecker,
    checksum,
    compare,
    save_outputs,
    validation,
)
from bench_run.validate.tolerance import Tolerance

DIMS = (2, 3, 4)
PADDED = (20, 6, 1)
LOOSE = Tolerance(0.0, 0.01, "test")


def graph(*tensors):
    outputs = {f"out_{t.uid}": t.uid for t in tensors}
    return Graph(
        "g", "float", "float", "float", tensors, (Node("T", "", "float", {}, outputs, {}),)
    )


def output(data_type="float", strides=None, dims=DIMS, uid=7, name="y"):
    return Tensor(uid, name, data_type, dims, packed(dims) if strides is None else strides)


def ramp(dims=DIMS):
    return np.arange(np.prod(dims), dtype=np.float64).reshape(dims) / 8


@pytest.mark.parametrize("strides", [packed(DIMS), PADDED, (1, 2, 6), (4, 8, 1)])
def test_one_wrong_element_is_found_at_its_logical_index(strides):
    tensor = output("half", strides)
    storage = to_storage(ramp(), tensor)
    logical_view(storage, tensor)[1, 2, 3] += 1
    row = compare(storage, ramp(), tensor, LOOSE)
    assert (row.mismatched, row.elements) == (1, 24)
    assert [(w.index, w.expected, w.actual) for w in row.worst] == [((1, 2, 3), 2.875, 3.875)]


def test_gaps_of_the_strides_count_for_nothing():
    tensor = output(strides=PADDED)
    storage, dirty = to_storage(ramp(), tensor), to_storage(ramp(), tensor)
    dirty[4:6] = 99
    assert compare(dirty, ramp(), tensor, LOOSE).mismatched == 0
    assert checksum(graph(tensor), {7: storage}) == checksum(graph(tensor), {7: dirty})


def test_every_element_counts_for_the_checksum():
    tensor = output(strides=PADDED)
    storage = to_storage(ramp(), tensor)
    changed = storage.copy()
    logical_view(changed, tensor)[1, 0, 0] += 1
    assert checksum(graph(tensor), {7: storage}) != checksum(graph(tensor), {7: changed})


@pytest.mark.parametrize("data_type", [n for n, row in DTYPES.items() if row.array_type])
def test_outputs_that_nobody_wrote_are_wrong(data_type):
    tensor = output(data_type)
    expected = np.ones(DIMS) * (data_type != "boolean")
    poisoned = to_storage(expected, tensor)
    fill_with_poison(poisoned, data_type)
    assert compare(poisoned, expected, tensor, LOOSE).mismatched == 24


def test_the_reason_names_element_value_and_what_is_allowed():
    tensor = output()
    storage = to_storage(ramp(), tensor)
    logical_view(storage, tensor)[0, 1, 2] = 3.5
    result = OutputChecker(graph(tensor), {7: ramp()}, {7: LOOSE}).check({7: storage})
    worst = "worst at (0, 1, 2): 3.5, expected 0.75: off by 2.75, allowed 0.01"
    reason = validation("numpy", graph(tensor), [result]).reason
    assert reason == f"1 of 24 elements of y (uid 7) differ: {worst}"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (1.5, "allowed 0.01; accepted with --math tf32"),
        (2.5, "allowed 0.01; accepted with --math fast"),
        (4.0, "allowed 0.01"),
    ],
)
def test_the_reason_ends_with_the_strictest_flag_that_takes_every_element(error, advice):
    tensor = output()
    looser = (("--math tf32", Tolerance(0, 2, "test")), ("--math fast", Tolerance(0, 3, "test")))
    bounds = replace(LOOSE, looser=lambda: looser)
    checker = OutputChecker(graph(tensor), {7: ramp()}, {7: bounds})
    result = checker.check({7: to_storage(ramp() + error, tensor)})
    assert validation("numpy", graph(tensor), [result]).reason.endswith(advice)


def results(*errors):
    tensor = output()
    checker = OutputChecker(graph(tensor), {7: ramp()}, {7: LOOSE})
    return graph(tensor), [checker.check({7: to_storage(ramp() + e, tensor)}) for e in errors]


def test_right_outputs_pass_without_a_reason():
    verdict = validation("numpy", *results(0, 0))
    assert (
        verdict.status,
        verdict.reason,
        verdict.iterations_checked,
        verdict.iterations_mismatched,
        verdict.deterministic,
    ) == ("passed", None, 1, 0, True)


def test_right_once_and_wrong_later_is_failed():
    verdict = validation("numpy", *results(0, 0, 1, 1))
    assert (verdict.status, verdict.iterations_mismatched) == ("failed", 2)
    assert verdict.reason.startswith(
        "right in the first run, wrong in 2 of 3 checked iterations: 24 of 24"
    )


def test_other_bytes_within_the_tolerance_are_not_deterministic():
    assert validation("numpy", *results(0, 0.001)).deterministic is False


def test_determinism_of_a_single_run_is_unknown():
    assert validation("numpy", *results(0)).deterministic is None


def test_equal_outputs_are_compared_once():
    tensor = output()
    checker = OutputChecker(graph(tensor), {7: ramp()}, {7: LOOSE})
    first, second = (checker.check({7: to_storage(ramp(), tensor)}) for _ in range(2))
    assert first is second


def test_an_empty_output_passes_with_a_note():
    tensor = output(dims=(0, 4))
    empty = np.zeros((0, 4))
    result = OutputChecker(graph(tensor), {7: empty}, {7: LOOSE}).check(
        {7: to_storage(empty, tensor)}
    )
    verdict = validation("numpy", graph(tensor), [result])
    assert (verdict.status, verdict.reason) == (
        "passed",
        "nothing to check: no elements in y (uid 7)",
    )


def test_nan_is_spelled_for_the_document():
    tensor = output(dims=(2,))
    row = compare(to_storage([np.nan, 1], tensor), np.ones(2), tensor, LOOSE)
    assert (row.mismatched, row.max_abs, row.worst[0].actual) == (1, "NaN", "NaN")


@pytest.mark.parametrize(
    ("outputs", "words"),
    [({}, "no output for y"), ({7: np.zeros(3, "f4")}, "expected 24 elements of float32, got 3")],
)
def test_outputs_that_are_no_storages_are_the_engines_failure(outputs, words):
    checker = OutputChecker(graph(output()), {7: ramp()}, {7: LOOSE})
    with pytest.raises(EngineError, match=words):
        checker.check(outputs)


def test_rms_forgives_single_elements_that_cancel():
    tensor = output("float", dims=(100,))
    expected = np.full(100, 10.0)
    storage = to_storage(expected, tensor)
    storage[3] += 0.5
    by_rms = Tolerance(0.0, 0.0, "test", "rms", rms=0.01)
    assert compare(storage, expected, tensor, by_rms).mismatched == 0
    assert compare(storage, expected, tensor, Tolerance(0.01, 0, "test")).mismatched == 1


def test_rms_above_its_threshold_names_elements():
    tensor = output("float", dims=(100,))
    expected = np.full(100, 10.0)
    storage = to_storage(expected * 1.2, tensor)
    row = compare(storage, expected, tensor, Tolerance(0.0, 0.0, "test", "rms", rms=0.01), worst=2)
    assert (row.mismatched, len(row.worst)) == (100, 2)


@pytest.mark.parametrize(
    ("data_type", "given"), [("half", np.inf), ("fp8_e4m3", 448.0), ("fp8_e5m2", 57344.0)]
)
def test_what_lies_beyond_the_type_is_what_the_type_makes_of_it(data_type, given):
    tensor = output(data_type, dims=(2,))
    actual = np.array([given, -given]).astype(to_storage(np.ones(2), tensor).dtype)
    assert compare(actual, np.array([1e6, -1e6]), tensor, LOOSE).mismatched == 0


def test_saved_outputs_are_logical_arrays_under_the_tensors_names(tmp_path):
    tensor = output("bfloat16", PADDED)
    storage = to_storage(ramp(), tensor)
    path = save_outputs(tmp_path, "conv/x · torch:cpu", {7: storage}, graph(tensor))
    saved = read_tensors(path)
    wanted = np.ascontiguousarray(logical_view(storage, tensor)).tobytes()
    assert (path.name, saved) == ("conv_x___torch_cpu.safetensors", {"y": ("BF16", DIMS, wanted)})


def test_saved_outputs_without_a_graph_are_storages_by_uid(tmp_path):
    storage = np.arange(4, dtype=np.float32)
    saved = read_tensors(save_outputs(tmp_path, "case", {7: storage}))
    assert saved == {"7": ("F32", (4,), storage.tobytes())}
