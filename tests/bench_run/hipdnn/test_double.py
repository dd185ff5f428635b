"""The double refuses what the real module refuses; else a green test would say nothing."""

from __future__ import annotations

import pytest

from bench_run.engines.hipdnn.buffers import Buffers
from bench_run.engines.hipdnn.dialect import graph_text
from bench_run.engines.hipdnn.loading import Library
from tests.conformance.graphs import FAMILIES

ADD = FAMILIES["pointwise_add"]("float", "packed")


def built(module, former=False):
    """A graph with its plans built, and its handle."""
    handle, graph = module.create_handle(), module.Graph()
    assert graph.from_json(graph_text(ADD, former=former)).is_good()
    for step in ("validate", "build_operation_graph", "create_execution_plans", "check_support",
                 "build_plans"):  # fmt: skip
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


@pytest.mark.parametrize(
    ("profile", "absent"),
    [
        ("old", {"engine_id_to_name", "hip_stream_synchronize", "HipEvent", "KnobSetting"}),
        ("telling", {"HipEvent", "KnobSetting"}),
        ("middle", {"HipEvent", "HipStallGate", "KnobSetting"}),
        ("newest", set()),
    ],
)
def test_older_releases_lack_what_came_later(double, profile, absent):
    module = double(profile)
    every = {"engine_id_to_name", "hip_stream_synchronize", "HipEvent", "HipStallGate",
             "KnobSetting"}  # fmt: skip
    assert absent <= {name for name in every if not hasattr(module, name)}
    assert hasattr(module, "HipEvent") == (profile == "newest")


def test_the_double_is_not_among_the_installed_packages(root):
    packages = (
        '[tool.hatch.build.targets.wheel]\npackages = ["bench_run", "bench_compare", "schema/'
    )
    assert packages in (root / "pyproject.toml").read_text()
