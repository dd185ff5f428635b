"""The double refuses what the real module refuses; else a green test would say nothing."""

from __future__ import annotations

import enum
import json
import re
import sys

import pytest

from bench_run.engines.hipdnn.dialect import graph_text
from bench_run.engines.hipdnn.loading import Library
from bench_run.engines.hipdnn.plan import Buffers
from tests.bench_run.hipdnn.conftest import STATES
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")


def built(module):
    """A graph with its plans built, and its handle."""
    handle, graph = module.create_handle(), module.Graph()
    assert graph.from_json(handle, graph_text(ADD)).is_good()
    for step in ("create_execution_plans", "check_support", "build_plans"):
        assert getattr(graph, step)().is_good()
    return handle, graph


@pytest.mark.parametrize("step", ["validate", "check_support", "build_plans"])
def test_a_step_before_its_time_is_a_bad_error(double, step):
    assert "INVALID_VALUE" == getattr(double().Graph(), step)().get_code().name


@pytest.mark.parametrize("data", [bytearray(4), memoryview(b"1234"), [1, 2, 3, 4]])
def test_copies_take_bytes_only(double, data):
    with pytest.raises(TypeError):
        double().DeviceBuffer(4).copy_from_host(data)


@pytest.mark.parametrize("size", [3, 5])
def test_copies_are_of_the_buffers_exact_size(double, size):
    with pytest.raises(RuntimeError):
        double().DeviceBuffer(4).copy_from_host(bytes(size))


def test_plugin_paths_are_refused_while_a_handle_lives(double):
    module = double()
    handle = module.create_handle()
    with pytest.raises(RuntimeError, match="Failed to set engine plugin paths"):
        module.set_engine_plugin_paths([], module.PluginLoadingMode.ABSOLUTE)
    module.destroy_handle(handle)


def test_a_destroyed_handle_is_refused(double):
    module = double()
    handle = module.create_handle()
    module.destroy_handle(handle)
    with pytest.raises(RuntimeError, match="Handle has been destroyed"):
        handle.get()


def test_execution_shows_only_after_a_wait(double):
    module = double()
    handle, graph = built(module)
    buffers = buffers_of(module)
    workspace = module.DeviceBuffer(256)
    buffers.poison()
    before = bytes(_memory(module, buffers, ADD.outputs[0].uid))
    assert graph.execute(handle, buffers.pack, workspace.ptr()).is_good()
    assert before == bytes(_memory(module, buffers, ADD.outputs[0].uid))
    module.hip_device_synchronize()
    assert before != bytes(_memory(module, buffers, ADD.outputs[0].uid))


def buffers_of(module):
    return Buffers(Library(module, "test"), ADD)


def _memory(module, buffers, uid):
    return sys.modules["hipdnn_frontend.device"].buffers[buffers.pack[uid]].data


@pytest.mark.parametrize("value", [True, 1.0, None])
def test_pointers_are_plain_numbers(double, value):
    module = double()
    handle, graph = built(module)
    buffers, workspace = buffers_of(module), module.DeviceBuffer(256)
    pack = {**buffers.pack, ADD.outputs[0].uid: value}
    with pytest.raises(TypeError):
        graph.execute(handle, pack, workspace.ptr())


def test_events_that_are_not_over_have_no_time(double):
    event = double().HipEvent()
    event.record()
    with pytest.raises(RuntimeError, match="NotReady"):
        event.elapsed_time(event)


def test_copies_of_zero_bytes_are_refused(double):
    buffer = double().DeviceBuffer(0)
    with pytest.raises(RuntimeError, match="zero bytes"):
        buffer.copy_from_host(b"")
    with pytest.raises(RuntimeError, match="zero bytes"):
        buffer.copy_to_host()


def test_a_knob_judges_a_setting_and_returns_an_error(double):
    module = double()
    _, graph = built(module)
    knob = graph.get_knobs_for_engine(graph.get_execution_plan_engine_id())[0]
    with pytest.raises(TypeError):
        knob.validate(1)
    setting = module.KnobSetting
    good = [knob.validate(setting("global.benchmarking", value)).is_good() for value in (1, 2)]
    assert [True, False] == good


def test_a_plugins_plan_is_a_number_without_the_handle(double):
    handle, graph = built(double())
    assert ["0x15B46865C717A122", "MIOPEN_ENGINE"] == [
        graph.get_plan_name(),
        graph.get_plan_name(handle),
    ]


def test_types_that_the_bindings_do_not_know_are_refused(double, monkeypatch):
    module = double()
    text = graph_text(ADD).replace('"data_type":"float"', '"data_type":"fp8_e4m3"')
    known = enum.Enum("DataType", {"FLOAT": 1})
    monkeypatch.setitem(sys.modules["hipdnn_frontend.surface"].namespace, "DataType", known)
    assert "unknown data type" in module.Graph().from_json(text).get_message()


# What upstream's own tests of the bindings ask, in our words.


def unbuilt(module):
    """A graph with its operation graph made, and its handle."""
    handle, graph = module.create_handle(), module.Graph()
    assert graph.from_json(handle, graph_text(ADD)).is_good()
    return handle, graph


@pytest.mark.parametrize("state", STATES)
def test_setters_are_the_graph_also_late(double, state):
    module = double(state)
    _, graph = built(module)
    kind = module.DataType.HALF
    assert graph is graph.set_name("n").set_io_data_type(kind).set_compute_data_type(kind)
    assert graph is graph.set_preferred_engine_id_ext(3).deselect_engines(["A"])
    assert ("n", kind, 3) == (
        graph.get_name(),
        graph.get_io_data_type(),
        graph.get_preferred_engine_id_ext(),
    )
    assert graph.set_preferred_engine_id_ext("MIOPEN_ENGINE") is graph
    assert 1563989756945604898 == graph.get_preferred_engine_id_ext()


@pytest.mark.parametrize("name", ["Knob", "EngineInfo", "IntConstraint"])
def test_what_the_library_makes_cannot_be_constructed(double, name):
    with pytest.raises(TypeError, match="no constructor defined"):
        getattr(double(), name)()


def test_knob_settings_are_equal_by_value_and_cannot_be_changed(double):
    setting = double().KnobSetting
    assert setting("a", 1) == setting(value=1, knob_id="a") != setting("a", 2)
    with pytest.raises(AttributeError):
        setting("a", 1).value = 2


def test_the_tuners_defaults_are_the_bindings(double):
    module = double()
    config = module.AutotuneConfig()
    names = ("mode", "strategy", "warmup_iterations", "timed_iterations", "stability_threshold")
    assert (module.TuneMode.STANDARD, module.AutotuneStrategy.RUN_UNTIL_STABLE, 1, 10, 0.05) == (
        tuple(getattr(config, name) for name in names)
    )
    assert (-1, False) == (module.AutotuneResult().rank, module.AutotuneResult().succeeded)


def test_any_object_that_gives_a_pointer_is_a_handle(double):
    module = double()
    handle, graph = unbuilt(module)
    assert graph.build_operation_graph(SimpleHandle(handle.get())).is_good()
    assert "handle must not be null" in graph.build_operation_graph(SimpleHandle(0)).get_message()
    with pytest.raises(TypeError):
        graph.build_operation_graph(handle.get())


class SimpleHandle:
    def __init__(self, pointer):
        self.pointer = pointer

    def get(self):
        return self.pointer


def test_what_is_unnamed_upstream_goes_by_position_only(double):
    module = double()
    with pytest.raises(TypeError):
        module.Graph().set_name(name="n")
    assert module.Graph().create_execution_plans(modes=[module.HeuristicMode.FALLBACK]).is_bad()


@pytest.mark.parametrize(
    "getter",
    [
        "get_execution_plan_engine_id",
        "get_workspace_size",
        "get_plan_name",
        "get_ranked_engine_ids",
        "get_engine_configs",
        "get_estimated_max_workspace_size",
    ],
)
def test_a_getter_before_its_time_raises(double, getter):
    with pytest.raises(RuntimeError, match="Failed to get"):
        getattr(double().Graph(), getter)()


def test_candidates_before_the_operation_graph_are_bad_errors(double):
    module = double()
    graph = module.Graph()
    for added in (graph.add_engine(1), graph.add_engines([1]), graph.add_all_engines()):
        assert added.is_bad()
    _, graph = unbuilt(module)
    unknown = graph.add_engine(1563989756945604898, [module.KnobSetting("speed", 1)])
    assert "no knob speed" in unknown.get_message()


def test_a_deselected_engine_is_no_candidate(double):
    module = double()
    _, graph = unbuilt(module)
    first, second = graph.get_ranked_engine_ids()
    assert [second] == graph.deselect_engines([first]).get_ranked_engine_ids()


@pytest.mark.parametrize("place", [-1, 2])
def test_a_plan_out_of_bounds_is_refused(double, place):
    module = double()
    handle, graph = built(module)
    assert 2 == graph.get_execution_plan_count()
    with pytest.raises(RuntimeError, match="out of bounds"):
        graph.get_plan_name_at_index(place, handle)
    assert "out of bounds" in graph.build_plan_at_index(place).get_message()


def test_a_missing_tensor_is_named_and_one_too_many_is_not(double):
    module = double()
    handle, graph = built(module)
    buffers, workspace = buffers_of(module), module.DeviceBuffer(256)
    assert "workspace" in graph.execute(handle, buffers.pack, 0).get_message()
    error = graph.execute(handle, {}, workspace.ptr())
    assert "missing required non-virtual tensor UIDs: [" in error.get_message()
    assert graph.execute(handle, {**buffers.pack, 99: 1}, workspace.ptr()).is_good()


def test_an_execution_without_a_plan_is_a_bad_error_without_a_time(double):
    module = double("attested")
    handle, graph = unbuilt(module)
    assert graph.execute(handle, {}).is_bad()
    error, timing = graph.execute_timed_ext(handle, {})
    assert error.is_bad()
    assert (None, "INVALID") == (timing.elapsed_ms, timing.quality.name)


def test_a_tuner_writes_what_it_found_where_it_is_told(double, tmp_path):
    module = double()
    handle, graph = unbuilt(module)
    graph.add_all_engines()
    workspace, storage = module.DeviceBuffer(256), module.AutotuneStorageConfig()
    storage.file_path = tmp_path / "winners.json"
    buffers = buffers_of(module)
    words = (handle, buffers.pack, workspace.ptr(), 256)
    results, outcome = graph.autotune_exhaustive_sweep(*words, storage_config=storage)
    assert ("WRITTEN", 0) == (outcome.name, results[0].rank)
    assert "engine_overrides" in json.loads(storage.file_path.read_text())
    config = module.AutotuneConfig()
    config.timed_iterations = 0
    with pytest.raises(RuntimeError, match="timed_iterations"):
        graph.autotune(*words, config=config)


def test_a_graph_goes_round_as_text_and_as_bytes(double):
    module = double()
    handle, graph = unbuilt(module)
    again = module.Graph()
    assert again.from_binary(handle, graph.to_binary()).is_good()
    assert graph.to_json() == again.to_json()
    assert again.get_ranked_engine_ids() == graph.get_ranked_engine_ids()


def test_values_of_the_pack_are_what_the_state_takes(double):
    for state, taken in (("sweep", False), ("dlpack", True), ("newest", True)):
        module = double(state)
        handle, graph = built(module)
        buffers, workspace = buffers_of(module), module.DeviceBuffer(256)
        pack = dict(buffers._device)
        if taken:
            assert graph.execute(handle, pack, workspace).is_good()
            tensor = module.Tensor().set_uid(next(iter(pack)))
            pack[tensor] = pack.pop(tensor.get_uid())
            assert graph.execute(handle, pack, workspace).is_good()
        else:
            with pytest.raises(TypeError, match="incompatible"):
                graph.execute(handle, pack, workspace.ptr())


def test_a_gate_is_a_context_that_closes_it_for_good(double):
    with double().HipStallGate() as gate:
        gate.arm()
        gate.release()
    gate.close()
    for use in (gate.arm, gate.release, gate.timed_out):
        with pytest.raises(RuntimeError, match="HipStallGate is closed"):
            use()


def test_a_dead_event_raises_whatever_is_asked(double):
    event = double().HipEvent()
    event.destroy()
    for use in (event.record, event.synchronize, event.ptr, event.__repr__):
        with pytest.raises(RuntimeError, match="has been destroyed"):
            use()


@pytest.mark.parametrize(("state", "words"), [("sweep", "is"), ("newest", "declined arm:")])
def test_a_gate_that_its_watchdog_opened_closes_never_again(double, state, words):
    module = double(state)
    gate = module.HipStallGate()
    gate.arm(0)
    module.hip_stream_synchronize(0)
    assert gate.timed_out()
    match = f"HIP stall gate {words} disabled after a stall watchdog timeout"
    with pytest.raises(RuntimeError, match=match):
        gate.arm(0)
    assert not gate.timed_out()


def test_the_double_is_not_among_the_installed_packages(root):
    text = (root / "pyproject.toml").read_text()
    included = re.search(r"^only-include = \[(.*)\]$", text, re.MULTILINE)[1]
    assert {"bench_run", "bench_compare", "schema/bench_schema", "graphs"} == set(
        json.loads(f"[{included}]")
    )
