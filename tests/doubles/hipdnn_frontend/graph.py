"""The graph in three releases: the order of calls is checked, failures are `Error` values."""

from __future__ import annotations

import json
import os

import numpy as np

from bench_run.errors import GraphError, UnsupportedGraphError
from bench_run.graph.hipdnn_json import read_graph
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view, storage_type, to_storage

from . import device
from .enums import DataType, HeuristicMode
from .errors import GOOD, bad
from .knobs import KNOBS

ORDER = ("new", "read", "valid", "operations", "planned", "supported", "built")
TYPE_KEYS = ("io_data_type", "intermediate_data_type", "compute_data_type")
FORMER_TYPE_KEYS = ("io_type", "intermediate_type", "compute_type")
WORKSPACE_BYTES = 256


class OldGraph:
    """Numbered engines, soft preference only, former keys, no query of the engine that ran."""

    type_keys = FORMER_TYPE_KEYS

    def __init__(self):
        self._state, self._graph, self._handle = "new", None, None
        self._preferred, self._engine, self._storages = None, None, {}

    def _before(self, state, step):
        if ORDER.index(self._state) < ORDER.index(state):
            return bad(
                "INVALID_VALUE", f"{step}: called before its time, the graph is {self._state}"
            )
        return None

    def from_json(self, text):
        if not isinstance(text, str):
            raise TypeError("from_json(): incompatible function arguments")
        data = json.loads(text)
        for key in (*self.type_keys, "name", "tensors", "nodes"):
            if key not in data:
                return bad(
                    "INVALID_VALUE", f"[json.exception.out_of_range.403] key '{key}' not found"
                )
        for node in data["nodes"]:
            if node.get("compute_data_type", "unset") == "unset" and self.type_keys == TYPE_KEYS:
                return bad("INVALID_VALUE", f"node {node.get('name')!r}: compute type is unset")
        for tensor in data["tensors"]:
            missing = {"uid", "name", "dims", "strides", "virtual"} - set(tensor)
            if missing:
                return bad("INVALID_VALUE", f"key '{missing.pop()}' not found")
        try:
            self._graph = read_graph(text.encode(), "graph")
        except GraphError as error:
            return bad("INVALID_VALUE", str(error))
        self._preferred = self._graph.preferred_engine_id
        self._state = "read"
        return GOOD

    def set_compute_data_type(self, kind):
        if not isinstance(kind, DataType):
            raise TypeError("set_compute_data_type(): incompatible function arguments")
        return self

    set_io_data_type = set_intermediate_data_type = set_compute_data_type

    def set_preferred_engine_id_ext(self, engine_id):
        if self._state in ORDER[ORDER.index("planned") :]:
            raise RuntimeError("set_preferred_engine_id_ext: plans exist already")
        self._preferred = engine_id

    def validate(self):
        problem = self._before("read", "validate")
        self._state = self._state if problem else "valid"
        return problem or _forced("validate") or GOOD

    def build_operation_graph(self, handle):
        problem = self._before("valid", "build_operation_graph")
        if problem:
            return problem
        handle.expect_alive()
        self._handle, self._state = handle, "operations"
        return _forced("build_operation_graph") or GOOD

    def _accepting(self):
        """Engines that take the graph, the first of the first plugin first."""
        return [engine for engine in self._handle.engines.values() if engine.takes(self._graph)]

    def create_execution_plans(self, modes=(HeuristicMode.FALLBACK,)):
        problem = self._before("operations", "create_execution_plans")
        if problem:
            return problem
        assert all(isinstance(mode, HeuristicMode) for mode in modes)
        engines = self._accepting()
        if not engines:
            return bad("GRAPH_EXECUTION_PLAN_CREATION_FAILED", "no engine configurations")
        chosen = [engine for engine in engines if engine.id == self._preferred]
        self._engine, self._state = (chosen or engines)[0], "planned"
        return _forced("create_execution_plans") or GOOD

    def check_support(self):
        problem = self._before("planned", "check_support")
        if problem:
            return problem
        try:
            _results(
                self._graph, {t.uid: np.zeros(t.span, storage_type(t)) for t in self._graph.inputs}
            )
        except UnsupportedGraphError as error:
            return bad("GRAPH_NOT_SUPPORTED", str(error))
        self._state = "supported"
        return _forced("check_support") or GOOD

    def build_plans(self):
        problem = self._before("supported", "build_plans")
        if problem:
            return problem
        self._engine.do("build")
        self._state = "built"
        return _forced("build_plans") or GOOD

    def get_workspace_size(self):
        if self._state != "built":
            raise RuntimeError("get_workspace_size: no plan was built")
        return WORKSPACE_BYTES

    def execute(self, handle, variant_pack, workspace=0):
        handle.expect_alive()
        problem = self._before("built", "execute") or self._wrong_pack(variant_pack, workspace)
        if problem:
            return problem
        self._engine.do("execute")
        pack = dict(variant_pack)
        device.enqueue(lambda: self._run(pack))
        return _forced("execute") or GOOD

    def _wrong_pack(self, pack, workspace):
        wanted = {t.uid: t for t in self._graph.tensors if not t.virtual and t.value is None}
        if set(pack) != set(wanted):
            missing, extra = set(wanted) - set(pack), set(pack) - set(wanted)
            return bad("INVALID_VARIANT_PACK", f"missing uids {missing}, unknown uids {extra}")
        for uid, pointer in pack.items():
            if type(uid) is not int or type(pointer) is not int:
                raise TypeError("execute(): expected {int: int}")
            size = wanted[uid].span * storage_type(wanted[uid]).itemsize
            memory = device.buffers.get(pointer)
            if not wanted[uid].runtime_scalar and (memory is None or len(memory.data) != size):
                return bad("INVALID_VARIANT_PACK", f"uid {uid}: no buffer of {size} bytes there")
        scratch = device.buffers.get(workspace)
        if scratch is None or len(scratch.data) < WORKSPACE_BYTES:
            return bad("INVALID_VARIANT_PACK", "the workspace is too small")
        return None

    def _run(self, pack):
        plugin, graph = self._engine.plugin, self._graph
        key = tuple((pack[t.uid], device.buffers[pack[t.uid]].writes) for t in graph.inputs
                    if not t.runtime_scalar)  # fmt: skip
        if key not in self._storages:
            self._storages = {
                key: _results(graph, _inputs(graph, pack), plugin.get("wrong", False))
            }
        for uid, data in self._storages[key].items():
            device.buffers[pack[uid]].data[:] = data
        device.advance(plugin.get("milliseconds", 0.0))


class TellingGraph(OldGraph):
    """Today's keys; the engine that ran can be asked for, but still only be preferred."""

    type_keys = TYPE_KEYS

    def get_execution_plan_engine_id(self):
        if self._state != "built":
            raise RuntimeError("get_execution_plan_engine_id: no plan was built")
        return self._engine.id


class MiddleGraph(TellingGraph):
    """Ranking and hard choice by id."""

    def get_ranked_engine_ids(self, modes):
        if self._before("operations", ""):
            raise RuntimeError("get_ranked_engine_ids: build_operation_graph comes first")
        found = [engine.id for engine in self._accepting()]
        if not found:
            raise RuntimeError("HEURISTIC_QUERY_FAILED: no engine accepts the graph")
        return found

    def create_execution_plan_ext(self, engine_id):
        problem = self._before("operations", "create_execution_plan_ext")
        if problem:
            return problem
        accepting = {engine.id: engine for engine in self._accepting()}
        if engine_id not in accepting:
            return bad("GRAPH_EXECUTION_PLAN_CREATION_FAILED", f"engine {engine_id} does not apply")
        self._engine, self._state = accepting[engine_id], "planned"
        return GOOD

    def build_plans(self, policy=None):
        return super().build_plans()


class NewestGraph(MiddleGraph):
    """Knobs, plan names."""

    def create_execution_plan_ext(self, engine_id, knob_settings=()):
        known = {knob.knob_id: knob for knob in KNOBS}
        for setting in knob_settings:
            knob = known.get(setting.knob_id)  # an unknown one is only warned of
            if knob is not None and not knob.validate(setting.value):
                return bad("INVALID_VALUE", f"knob {setting.knob_id}: wrong type")
        return super().create_execution_plan_ext(engine_id)

    def get_knobs_for_engine(self, engine_id):
        if engine_id not in self._handle.engines:
            raise RuntimeError(f"no engine {engine_id}")
        return list(KNOBS)

    def get_plan_name(self):
        return f"{self._engine.name}_plan_0"


RELEASES = {"old": OldGraph, "telling": TellingGraph, "middle": MiddleGraph, "newest": NewestGraph}


def _forced(step):
    """The failure that the test asked for: ``HIPDNN_DOUBLE_FAIL=execute:HIPDNN_BACKEND_ERROR``."""
    wanted, _, code = os.environ.get("HIPDNN_DOUBLE_FAIL", "").partition(":")
    return bad(code, f"{step} was told to fail\nwith a second line") if wanted == step else None


def _inputs(graph, pack):
    found = {}
    for tensor in graph.inputs:
        kind = storage_type(tensor)
        if tensor.runtime_scalar:
            size = tensor.span * kind.itemsize
            raw = (np.ctypeslib.ctypes.c_uint8 * size).from_address(pack[tensor.uid])
        else:
            raw = device.buffers[pack[tensor.uid]].data
        found[tensor.uid] = np.frombuffer(raw, np.uint8).view(kind)
    return found


def _results(graph, inputs, wrong=False):
    """Bytes of every output, by uid; with `wrong` one element of the first is far off."""
    arrays = {t.uid: logical_view(inputs[t.uid], t) for t in graph.inputs}
    found = evaluate(graph, arrays)
    storages = {t.uid: to_storage(found[t.uid], t) for t in graph.outputs}
    if wrong:
        first = storages[graph.outputs[0].uid]
        first[first.size // 2] += 1
    return {uid: storage.view(np.uint8).tobytes() for uid, storage in storages.items()}
