"""The double refuses what the real module refuses; else a green test would say nothing."""

from __future__ import annotations

import json
import re

import pytest

from bench_run.engines.hipdnn.dialect import graph_text
from bench_run.engines.hipdnn.loading import Library
from bench_run.engines.hipdnn.plan import Buffers
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")


def built(module, former=False):
    """A graph with its plans built, and its handle."""
    handle, graph = module.create_handle(), module.Graph()
    assert graph.from_json(graph_text(ADD, former=former)).is_good()
    for step in (
        "validate",
        "build_operation_graph",
        "create_execution_plans",
        "check_support",
        "build_plans",
    ):
        assert getattr(graph, step)(*([handle] if "operation" in step else [])).is_good()
    return handle, graph


@pytest.mark.parametrize("step", ["validate", "check_support", "build_plans"])
def test_a_step_before_its_time_is_a_bad_error(double, step):
    assert "INVALID_VALUE" == getattr(double().Graph(), step)().get_code().name


@pytest.mark.parametrize(("profile", "former"), [("old", False), ("newest", True)])
def test_each_release_reads_its_own_keys_only(double, profile, former):
    error = double(profile).Graph().from_json(graph_text(ADD, former=former))
    assert error.is_bad()


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
    with pytest.raises(RuntimeError, match="a handle is alive"):
        module.set_engine_plugin_paths([], module.PluginLoadingMode.ABSOLUTE)
    module.destroy_handle(handle)


def test_a_destroyed_handle_is_refused(double):
    module = double()
    handle = module.create_handle()
    module.destroy_handle(handle)
    with pytest.raises(RuntimeError, match="destroyed"):
        handle.get()


@pytest.mark.parametrize("words", [(), (1, 2), ("0",)])
def test_arguments_that_the_stub_does_not_list_are_refused(double, words):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        double().HipStallGate().timed_out(*words, extra=1)


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
    return module.device.buffers[buffers.pack[uid]].data


@pytest.mark.parametrize("change", ["missing", "extra", "workspace"])
def test_a_wrong_variant_pack_is_an_error_value(double, change):
    module = double()
    handle, graph = built(module)
    buffers, workspace = buffers_of(module), module.DeviceBuffer(256)
    pack = dict(buffers.pack)
    if change == "missing":
        pack.popitem()
    elif change == "extra":
        pack[99] = workspace.ptr()
    pointer = 0 if change == "workspace" else workspace.ptr()
    assert "INVALID_VARIANT_PACK" == graph.execute(handle, pack, pointer).get_code().name


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


ABSENT = {
    "old": {"engine_id_to_name", "HipEvent", "HipStallGate", "KnobSetting", "AutotuneConfig"},
    "middle": {"KnobSetting", "AutotuneConfig"},
    "hard": {"KnobValueType", "AutotuneConfig"},
    "newest": set(),
}


@pytest.mark.parametrize("profile", ABSENT)
def test_older_releases_lack_what_came_later(double, profile):
    module = double(profile)
    every = set.union(*ABSENT.values()) - {"KnobValueType"} | ABSENT[profile]
    assert ABSENT[profile] == {name for name in every if not hasattr(module, name)}


@pytest.mark.parametrize("profile", ["middle", "hard"])
def test_the_first_gate_has_no_word_on_time_outs_and_is_no_context_manager(double, profile):
    gate = double(profile).HipStallGate()
    absent = ("timed_out", "close", "__enter__", "__exit__")
    assert [] == [name for name in absent if hasattr(gate, name)]


def test_copies_of_zero_bytes_are_refused(double):
    buffer = double().DeviceBuffer(0)
    with pytest.raises(RuntimeError, match="zero bytes"):
        buffer.copy_from_host(b"")
    with pytest.raises(RuntimeError, match="zero bytes"):
        buffer.copy_to_host()


def test_a_type_that_is_not_bound_raises_where_it_is_read(double):
    module = double("hard")
    handle, graph = built(module)
    knob = graph.get_knobs_for_engine(graph.get_execution_plan_engine_id())[0]
    with pytest.raises(TypeError, match="Unable to convert"):
        _ = knob.value_type
    assert not hasattr(knob, "constraint")
    module.destroy_handle(handle)


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
    assert ["0x15b46865c717a122_plan_0", "MIOPEN_ENGINE_plan_0"] == [
        graph.get_plan_name(),
        graph.get_plan_name(handle),
    ]


@pytest.mark.parametrize(("profile", "kind"), [("old", "fp8_e4m3"), ("hard", "fp8_e4m3_fnuz")])
def test_types_that_a_release_does_not_know_are_refused(double, profile, kind):
    text = graph_text(ADD, former=profile == "old").replace(
        '"data_type":"float"', f'"data_type":"{kind}"'
    )
    assert "unknown data type" in double(profile).Graph().from_json(text).get_message()


def test_graph_types_come_before_the_text(double):
    module = double()
    graph = module.Graph()
    assert graph.from_json(graph_text(ADD)).is_good()
    with pytest.raises(RuntimeError, match="read already"):
        graph.set_io_data_type(module.DataType.FLOAT)


def test_a_sticky_gate_stays_open_after_its_watchdog_fired(double, monkeypatch):
    module = double(gate="sticky")
    gate = module.HipStallGate()
    gate.arm(0)
    module.hip_stream_synchronize(0)
    assert gate.timed_out()
    with pytest.raises(RuntimeError, match="disabled after a stall watchdog timeout"):
        module.HipStallGate().arm(0)


def test_the_double_is_not_among_the_installed_packages(root):
    text = (root / "pyproject.toml").read_text()
    included = re.search(r"^only-include = \[(.*)\]$", text, re.MULTILINE)[1]
    assert {"bench_run", "bench_compare", "schema/bench_schema", "graphs"} == set(
        json.loads(f"[{included}]")
    )
