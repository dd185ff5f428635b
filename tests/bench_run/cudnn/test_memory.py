"""Which device memory cuDNN's plans work on, alone and in chains: never what was given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench_run.engines.arrange import arrange
from bench_run.engines.chain import ChainPlan
from bench_run.engines.cudnn.engine import math_of
from bench_run.engines.cudnn.lowering import host_scalars
from bench_run.engines.cudnn.plans import Built, Chosen
from bench_run.engines.cudnn.rewrite import rewrite
from bench_run.engines.cudnn.views import views
from bench_run.engines.device_engine import refuse_frozen
from bench_run.engines.device_plan import DevicePlan, Workspace
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.tensors.seeded.inputs import make_chain_inputs
from tests.bench_run.graph.chain.pipelines import ALL
from tests.bench_run.graph.chain.pipelines import chain as chain_of

L2_BYTES = 4096
WORKSPACE_BYTES = 512


class Device:
    """A stream whose memory is a table of what is allocated; copies and fills look it up."""

    def __init__(self, limit=None):
        self.live, self.next, self.limit = {}, 1 << 20, limit

    def allocate(self, size):
        if self.limit is not None and len(self.live) == self.limit:
            raise EngineError("out of memory on the device")
        self.next += 4096 * (1 + size // 4096)
        self.live[self.next] = max(1, size)
        return self.next

    def free(self, address):
        del self.live[address]

    def expect_live(self, address, size=1):
        inside = (a <= address and address + size <= a + n for a, n in self.live.items())
        assert any(inside), f"{address:#x} was given back"

    def copy_in(self, address, _host, size):
        self.expect_live(address, size)

    def copy_out(self, _host, address, size):
        self.expect_live(address, size)

    def fill(self, address, _byte, size):
        self.expect_live(address, size)

    def synchronize(self):
        pass


class Graphs:
    """Stands for a built graph of the frontend: keeps what it is asked to run on."""

    def __init__(self, device, host):
        self.device, self.host, self.log = device, host, []

    def _execute_plan_at_index(self, pack, workspace, _index, _handle):
        addresses = [a for number, a in pack.items() if number not in self.host]
        self.log.append((*addresses, workspace))
        for address in self.log[-1]:
            self.device.expect_live(address)


def part(graph, device, workspace):
    canonical = rewrite(graph)
    numbers = {tensor.uid: i for i, tensor in enumerate(canonical.tensors, start=1)}
    host = host_scalars(canonical)
    built = Built(
        graph=graph,
        scalars=tuple(t for t in canonical.tensors if t.uid in host),
        views=views(canonical),
        numbers=numbers,
        pygraph=Graphs(device, {numbers[uid] for uid in host}),
        listed=["eng0"],
        places=[0],
        chosen=Chosen(0, "eng0", WORKSPACE_BYTES, ()),
        math="fp32",
        backend="9.19.0",
        handle=0,
    )
    workspace.grow(WORKSPACE_BYTES)
    return DevicePlan(built, device, workspace)


class Captured:
    """What a run was on, to be looked up again in each launch."""

    def __init__(self, plan, device):
        plan.run()
        self.device = device
        self.addresses = [a for p in plan.parts for a in p._built.pygraph.log[-1]]

    def launch(self):
        for address in self.addresses:
            self.device.expect_live(address)

    def close(self):
        self.addresses = []


def captured_chain(text, cache, device):
    made = chain_of(text)
    workspace = Workspace(device)

    def make():
        return ChainPlan(made, [part(place.graph, device, workspace) for place in made.places])

    def finish(plan):
        plan.replay(Captured(plan, device))

    return made, arrange(make, made, cache, L2_BYTES, finish)


@pytest.mark.parametrize("cache", ["hot", "rotate", "weights-cold"])
@pytest.mark.parametrize("name", ALL)
def test_a_captured_chain_runs_on_memory_that_is_still_its_own(name, cache):
    device = Device()
    made, plan = captured_chain(ALL[name], cache, device)
    plan.upload(make_chain_inputs(made, 0, ()))
    plan.poison()
    for _ in range(4):
        plan.run()
    plan.close()
    assert {} == device.live


def test_a_captured_chain_stays_right_while_another_is_made_and_closed():
    device = Device()
    _, first = captured_chain(ALL["residual"], "hot", device)
    _, second = captured_chain(ALL["views"], "hot", device)
    first.run()
    second.close()
    first.run()
    first.close()
    assert {} == device.live


def test_a_workspace_goes_with_the_last_of_its_plans():
    device = Device()
    workspace = Workspace(device)
    graph = make_graphs("relu: dims=4x5")[0]
    plans = [part(graph, device, workspace) for _ in range(2)]
    plans[0].close()
    plans[0].close()
    plans[1].run()
    plans[1].close()
    assert {} == device.live


def test_a_plan_that_finds_no_memory_leaves_none_behind():
    device = Device(limit=2)
    with pytest.raises(EngineError, match="out of memory"):
        part(make_graphs("relu: dims=4x5")[0], device, Workspace(device))
    assert {} == device.live


def test_an_input_that_is_read_on_the_host_is_not_captured():
    device = Device()
    graph = make_graphs("add: dims=4x5")[0]
    scalar = replace(graph.inputs[-1], dims=(1, 1), strides=(1, 1), runtime_scalar=True)
    by_value = tuple(scalar if t.uid == scalar.uid else t for t in graph.tensors)
    plan = part(replace(graph, tensors=by_value), device, Workspace(device))
    with pytest.raises(UnsupportedGraphError, match=f"--replay: input {scalar.name} is read"):
        refuse_frozen("cudnn", plan)


@pytest.mark.parametrize(
    ("spec", "asked", "override", "math"),
    [
        ("matmul: m=4 n=4 k=4 dtype=float", "fp32", "0", "fp32"),
        ("matmul: m=4 n=4 k=4 dtype=float", "fp32", None, "tf32"),
        ("matmul: m=4 n=4 k=4 dtype=half", "fp32", None, "fp32"),
        ("matmul: m=4 n=4 k=4 dtype=float", "fast", None, "fast"),
        ("conv_fwd: n=1 c=4 h=4 w=4 k=4 r=1 s=1 dtype=float", "fp32", None, "fp32"),
    ],
)
def test_the_arithmetic_that_is_told_is_what_the_process_allows(
    monkeypatch, spec, asked, override, math
):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    if override is not None:
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", override)
    assert math == math_of(make_graphs(spec)[0], asked)
