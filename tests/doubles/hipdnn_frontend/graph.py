"""The graph: the order of calls is checked, failures are `Error` values, getters raise."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, field

import numpy as np

from bench_run.errors import GraphError, UnsupportedGraphError
from bench_run.graph.dtypes import DTYPES
from bench_run.graph.format.hipdnn_json import read_graph
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view, storage_type, to_storage

from . import device, knobs, tuning
from .errors import bad, good
from .plugins import Engine, handle_of
from .surface import make, namespace

ORDER = ("new", "read", "valid", "operations")
TYPE_KEYS = ("io_data_type", "intermediate_data_type", "compute_data_type")
WORKSPACE_BYTES = 256
BENCHMARKING = "global.benchmarking"
NO_ENGINES = ("HIPDNN_BACKEND_ERROR", "no engines were found for the graph")
DECLINES = ("HIPDNN_BACKEND_ERROR", "Failed to finalize engine descriptor")
OUT_OF_BOUNDS = "plan index out of bounds"


@dataclass
class Plan:
    """An engine with knobs, for a graph."""

    engine: Engine
    settings: dict = field(default_factory=dict)
    built: bool = False

    @property
    def workspace_bytes(self):
        return self.engine.plugin.get("workspace_bytes", WORKSPACE_BYTES)


class Graph:
    def __init__(self):
        self._state, self._graph, self._text, self._handle = "new", None, None, None
        self._preferred, self._storages, self._searched = None, {}, False
        self._value_name, self._deselected, self._largest = "", set(), None
        self._plans, self._active, self._specs = [], 0, []

    def _before(self, state, step):
        if ORDER.index(self._state) < ORDER.index(state):
            return bad(
                "INVALID_VALUE", f"{step}: called before its time, the graph is {self._state}"
            )
        return None

    def _must_be(self, state, what):
        if self._before(state, ""):
            raise RuntimeError(f"Failed to get {what}: the graph is {self._state}")

    def _open(self, handle):
        """The handle behind whatever object gave its pointer; a bad `Error` for none."""
        found = handle_of(handle)
        return found, None if found is not None else bad("HANDLE_ERROR", "handle must not be null")

    def from_json(self, *words):
        text = words[-1]
        try:
            data = json.loads(text)
        except ValueError as error:
            return bad("INVALID_VALUE", f"[json.exception.parse_error.101] {error}")
        problem = self._unreadable(data)
        if problem is not None:
            return bad("INVALID_VALUE", problem)
        for tensor in data["tensors"]:
            name = DTYPES[tensor["data_type"]].name
            if name.upper() not in namespace["DataType"].__members__:
                return bad("INVALID_VALUE", f"unknown data type {tensor['data_type']!r}")
        try:
            self._graph = read_graph(text.encode(), "graph")
        except GraphError as error:
            return bad("INVALID_VALUE", str(error))
        self._preferred = self._graph.preferred_engine_id
        self._state, self._text, self._value_name = "read", text, data["name"]
        if len(words) == 1:
            return good()
        problem = self.validate()
        return problem if problem.is_bad() else self.build_operation_graph(words[0])

    def _unreadable(self, data):
        """What the strict reader misses in the text; None where it is fine."""
        for key in (*TYPE_KEYS, "name", "tensors", "nodes"):
            if key not in data:
                return f"[json.exception.out_of_range.403] key '{key}' not found"
        for node in data["nodes"]:
            if node.get("compute_data_type", "unset") == "unset":
                return f"node {node.get('name')!r}: compute type is unset"
        for tensor in data["tensors"]:
            missing = {"uid", "name", "dims", "strides", "virtual"} - set(tensor)
            if missing:
                return f"key '{missing.pop()}' not found"
        return None

    def to_json(self):
        self._must_be("read", "json")
        return self._text

    def to_binary(self):
        return self.to_json().encode()

    def from_binary(self, *words):
        return self.from_json(*words[:-1], words[-1].decode(errors="replace"))

    def set_preferred_engine_id_ext(self, engine=None):
        if isinstance(engine, str):
            engine = Engine(None, {}, {"name": engine}).id
        self._preferred = engine
        return self

    def get_preferred_engine_id_ext(self):
        return self._preferred

    def validate(self):
        problem = self._before("read", "validate") or _forced("validate")
        if problem:
            return problem
        self._state = max(self._state, "valid", key=ORDER.index)
        return good()

    def build_operation_graph(self, handle):
        found, problem = self._open(handle)
        problem = problem or self._before("valid", "build_operation_graph")
        problem = problem or _forced("build_operation_graph")
        if problem:
            return problem
        self._handle, self._state = found, "operations"
        return good()

    def _accepting(self):
        """Engines that take the graph, the first of the first plugin first."""
        return [
            engine
            for engine in self._handle._engines.values()
            if engine.takes(self._graph) and not {engine.id, engine.name} & self._deselected
        ]

    def _applicable(self, engine_id, what):
        self._must_be("operations", what)
        found = next((e for e in self._accepting() if e.id == engine_id), None)
        if found is None:
            raise RuntimeError(f"Failed to get {what}: {DECLINES[1]}")
        return found

    def deselect_engines(self, engines):
        self._deselected |= set(engines)
        return self

    def deselect_workspace_greater_than(self, workspace):
        self._largest = workspace
        return self

    def create_execution_plans(self, modes):
        problem = self._before("operations", "create_execution_plans")
        problem = problem or _forced("create_execution_plans")
        if problem:
            return problem
        engines = self._accepting()
        if not engines:
            return bad(*NO_ENGINES)
        engines.sort(key=lambda engine: engine.id != self._preferred)
        self._plans, self._active = [Plan(engine) for engine in engines], 0
        return good()

    def create_execution_plan_ext(self, engine_id, knob_settings):
        problem = self._before("operations", "create_execution_plan_ext")
        problem = problem or _forced("create_execution_plan_ext")
        if problem:
            return problem
        engine = next((e for e in self._accepting() if e.id == engine_id), None)
        if engine is None:
            return bad(*DECLINES)
        settings = {each._knob_id: each._value for each in knob_settings}
        problem = knobs.settings_problem(engine, settings)
        if problem:
            return problem
        self._plans, self._active = [Plan(engine, settings)], 0
        return good()

    def get_ranked_engine_ids(self, modes):
        self._must_be("operations", "ranked engine ids")
        found = [engine.id for engine in self._accepting()]
        if not found:
            raise RuntimeError("Failed to get ranked engine ids: no engine accepts the graph")
        return found

    def get_behavior_notes_for_engine(self, engine_id):
        notes = self._applicable(engine_id, "behavior notes").notes
        kinds = namespace["BehaviorNote"]
        return [kinds[note] for note in notes if note in kinds.__members__]

    def get_engine_configs(self, modes, handle=None):
        self._must_be("operations", "engine configs")
        return [
            make(
                "EngineConfigInfo",
                engine_id=engine.id,
                engine_name=engine.hexadecimal if handle is None else engine.name or "",
                knobs=list(knobs.offered(engine).values()),
                supports_exhaustive=BENCHMARKING in knobs.offered(engine),
                estimated_workspace_size=WORKSPACE_BYTES // 2,
            )
            for engine in self._accepting()
        ]

    def get_knobs_for_engine(self, engine_id):
        return list(self.get_knob_lookup_for_engine(engine_id).values())

    def get_knob_lookup_for_engine(self, engine_id):
        return knobs.offered(self._applicable(engine_id, "knobs for engine"))

    def check_support(self):
        problem = self._unplanned("check_support") or _forced("check_support")
        if problem:
            return problem
        failure = self._plans[self._active].engine.do("check_support")
        if failure is not None:
            return bad(*failure)
        if os.environ.get("HIPDNN_DOUBLE_SUPPORT") == "declared":
            return good()
        graph = self._graph
        try:
            _results(graph, {t.uid: np.zeros(t.span, storage_type(t)) for t in graph.inputs})
        except UnsupportedGraphError as error:
            return bad("GRAPH_NOT_SUPPORTED", str(error))
        return good()

    def _unplanned(self, step):
        problem = self._before("operations", step)
        if problem or self._plans:
            return problem
        return bad("INVALID_VALUE", f"{step}: no execution plans were created")

    def build_plans(self, policy):
        problem = self._unplanned("build_plans") or _forced("build_plans")
        if problem:
            return problem
        places = range(len(self._plans)) if policy.name == "ALL" else [self._active]
        for place in places:
            problem = problem or self._build(place)
        return problem or good()

    def _build(self, place):
        plan = self._plans[place]
        if self._largest is not None and plan.workspace_bytes > self._largest:
            return bad("GRAPH_EXECUTION_PLAN_CREATION_FAILED", "the workspace is deselected")
        failure = plan.engine.do("build")
        plan.built = failure is None
        return None if failure is None else bad(*failure)

    def build_plan_at_index(self, plan_index):
        if not 0 <= plan_index < len(self._plans):
            return bad("INVALID_VALUE", OUT_OF_BOUNDS)
        return self._build(plan_index) or good()

    def _plan_at(self, place, what):
        if place is None:
            place = self._active
        if not 0 <= place < len(self._plans) or not self._plans[place].built:
            raise RuntimeError(f"Failed to get {what}: {OUT_OF_BOUNDS}")
        return self._plans[place]

    def get_execution_plan_count(self):
        return len(self._plans)

    def get_execution_plan_engine_id(self):
        return self._plan_at(None, "execution plan engine id").engine.id

    def get_workspace_size(self):
        return self._plan_at(None, "workspace size").workspace_bytes

    def get_workspace_size_plan_at_index(self, plan_index):
        return self._plan_at(plan_index, "workspace size").workspace_bytes

    def get_autotune_workspace_size(self):
        """Of compiled plans: nothing before there are some."""
        return max((plan.workspace_bytes for plan in self._plans if plan.built), default=0)

    def get_estimated_max_workspace_size(self):
        """Of the candidates; a lower bound, as upstream's."""
        if not self._specs:
            raise RuntimeError("Failed to get estimated max workspace size: no plan specs")
        return WORKSPACE_BYTES // 2

    def get_plan_name(self, handle=None):
        return self._plan_name(None, handle)

    def get_plan_name_at_index(self, plan_index, handle=None):
        return self._plan_name(plan_index, handle)

    def _plan_name(self, place, handle):
        """Without the handle, and of an engine without a name, its number."""
        engine = self._plan_at(place, "plan name").engine
        return (handle is not None and engine.name) or engine.hexadecimal

    def _add(self, step, rows):
        """Candidates for the tuner, as pairs of engine id and settings."""
        problem = self._before("operations", step) or _forced(step)
        if problem:
            return problem
        engines, added = {engine.id: engine for engine in self._accepting()}, []
        for engine_id, settings in rows:
            if engine_id not in engines:
                return bad(*DECLINES)
            engine = engines[engine_id]
            unknown = knobs.unknown(engine, settings)
            if unknown is not None:
                return bad("INVALID_VALUE", f"{step}: the engine has no knob {unknown}")
            problem = knobs.settings_problem(engine, settings)
            if problem:
                return problem
            added.append(Plan(engine, dict(settings)))
        if not added:
            return bad(*NO_ENGINES)
        self._specs += added
        return good()

    def add_engine(self, engine_id, knob_settings):
        settings = {each._knob_id: each._value for each in knob_settings}
        return self._add("add_engine", [(engine_id, settings)])

    def add_engines(self, engine_ids):
        return self._add("add_engines", [(engine_id, {}) for engine_id in engine_ids])

    def add_engine_configs(self, configs):
        return self._add("add_engine_configs", [(each._engine_id, {}) for each in configs])

    def add_engine_variants(self, variants):
        rows = [(each._engine_id, each._knob_settings) for each in variants]
        return self._add("add_engine_variants", rows)

    def add_engine_sweep(self, specs):
        rows = []
        for spec in specs:
            names = [axis._knob_id for axis in spec._axes]
            product = itertools.product(*(axis._values for axis in spec._axes))
            fixed = spec._fixed_settings
            rows += [(spec._engine_id, fixed | dict(zip(names, v, strict=True))) for v in product]
        return self._add("add_engine_sweep", rows)

    def add_all_engines(self, modes):
        engines = [] if self._before("operations", "") else self._accepting()
        return self._add("add_all_engines", [(engine.id, {}) for engine in engines])

    def autotune(self, handle, variant_pack, workspace, workspace_size, config, storage_config):
        if self._before("operations", "autotune"):
            raise RuntimeError("Autotune failed: build_operation_graph comes first")
        plans = self._specs or [plan for plan in self._plans if plan.built]
        if workspace_size is None and self._specs:
            raise RuntimeError("Autotune failed: plan specs need workspace_size")
        for name in ("warmup_iterations", "timed_iterations", "max_iterations", "window_size"):
            if getattr(config, name) < (name != "warmup_iterations"):
                raise RuntimeError(f"Autotune failed: {name} is too small")
        problem = self._wrong_pack(variant_pack, workspace, None)
        if problem:
            raise RuntimeError(f"Autotune failed: {problem._err_msg}")
        room = workspace_size is None or workspace_size >= WORKSPACE_BYTES
        found, timed = tuning.results(plans, config, room)
        place = -1 if os.environ.get("HIPDNN_DOUBLE_AUTOTUNE") == "liar" else 0
        self._plans, self._active = [timed[place]], 0
        timed[place].built = True
        timed[place].settings[BENCHMARKING] = 1
        self._searched = True
        tuning.store(config, found, storage_config)
        return [] if os.environ.get("HIPDNN_DOUBLE_AUTOTUNE") == "silent" else found

    def autotune_exhaustive_sweep(self, *words):
        return self.autotune(*words), namespace["AutotuneCacheWriteOutcome"]["WRITTEN"]

    def execute_timed_ext(self, handle, variant_pack, workspace):
        """Behind a gate of its own, where the device has one."""
        device.synchronize()
        error = self._execute(handle, variant_pack, workspace, None)
        if error.is_bad():
            return error, tuning.timing(None, "INVALID")
        before = device.clock_ms
        device.synchronize()
        if self._waits(None) and device.can_stall():
            return error, tuning.timing(None, "INVALID", timed_out=True)
        return error, tuning.timing(device.clock_ms - before)

    def _waits(self, place):
        engine = self._plans[self._active if place is None else place].engine
        return any(node.type in engine.waits for node in self._graph.nodes)

    def execute(self, handle, variant_pack, workspace):
        return self._execute(handle, variant_pack, workspace, None)

    def execute_plan_at_index(self, handle, variant_pack, workspace, plan_index):
        return self._execute(handle, variant_pack, workspace, plan_index)

    def _execute(self, handle, variant_pack, workspace, place):
        _, problem = self._open(handle)
        try:
            plan = self._plan_at(place, "execution plan")
        except RuntimeError as error:
            return problem or bad("INVALID_VALUE", str(error))
        problem = problem or self._wrong_pack(variant_pack, workspace, plan) or _forced("execute")
        if problem:
            return problem
        failure = plan.engine.do("execute")
        if failure is not None:
            return bad(*failure)
        pack = _addresses(variant_pack)
        device.enqueue(lambda: self._run(plan, pack))
        if self._waits(place):
            device.synchronize()
        return good()

    def _wrong_pack(self, variant_pack, workspace, plan):
        pack = _addresses(variant_pack)
        wanted = {t.uid: t for t in self._graph.tensors if not t.virtual and t.value is None}
        missing = sorted(set(wanted) - set(pack))
        if missing:
            words = f"missing required non-virtual tensor UIDs: {missing}"
            return bad("INVALID_VARIANT_PACK", words)
        for uid, tensor in wanted.items():
            size = tensor.span * storage_type(tensor).itemsize
            memory, begin = device.memory_at(pack[uid])
            there = size == 0 or (memory is not None and begin + size <= len(memory.data))
            if not tensor.runtime_scalar and not there:
                return bad("INVALID_VARIANT_PACK", f"uid {uid}: no buffer of {size} bytes there")
        if plan is not None and plan.workspace_bytes == 0:
            return None
        scratch = device.buffers.get(0 if workspace is None else device._get_data_ptr(workspace))
        if scratch is None or len(scratch.data) < WORKSPACE_BYTES:
            return bad("INVALID_VARIANT_PACK", "the workspace is too small")
        return None

    def _run(self, plan, pack):
        engine, graph = plan.engine, self._graph
        key = tuple(
            (pack[t.uid], device.memory_at(pack[t.uid])[0].writes)
            for t in graph.inputs
            if not t.runtime_scalar and t.span
        )
        if key not in self._storages:
            self._storages = {
                key: _results(graph, _inputs(graph, pack), engine.plugin.get("wrong", False))
            }
        for uid, data in self._storages[key].items():
            if data:
                memory, begin = device.memory_at(pack[uid])
                if memory.data[begin : begin + len(data)] != data:
                    memory.data[begin : begin + len(data)] = data
                    memory.writes += 1
        searches = plan.settings.get(BENCHMARKING) == 1 or tuning.is_forced()
        if searches and not self._searched:
            self._searched = True
            tuning.search(engine, graph)
        tuned = searches or tuning.is_tuned(engine, graph)
        device.advance(tuning.milliseconds(engine, tuned))


def _addresses(pack):
    """Numbers by uid. Before *dlpack* both are numbers, which the signature says."""
    return {
        key.get_uid() if isinstance(key, namespace["Tensor"]) else int(key): device._get_data_ptr(v)
        for key, v in pack.items()
    }


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
            memory, begin = device.memory_at(pack[tensor.uid])
            raw = memory.data[begin : begin + tensor.span * kind.itemsize] if tensor.span else b""
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
