"""What happens beside the timed loops on a GPU: records, counters, traces, ceilings, telemetry."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from bench_schema.document import Device, Telemetry

from bench_run.errors import UsageError
from bench_run.machine.telemetry import disturbances
from bench_run.measure.budget import SamplingBudget
from bench_run.measure.ceilings import Ceilings, add_ceilings, read_ceilings, store_ceilings
from bench_run.measure.kernel_pass import UNGATED, count_launches, record_kernels
from bench_run.measure.loop import Measured
from bench_run.profilers import ncu
from bench_run.profilers.trace import join_parts
from bench_run.streams import cupti
from bench_run.streams.base import TOO_MANY, StreamAbilities
from bench_run.streams.cupti import KernelRecord, demangle

DEVICE = Device(0, "GPU", "GPU-1", "580.1", "sm_90", 1, 1, 1980.0, 3201.0, 700.0)
MEASURED = Measured({"e2e_ns": []}, {"device_ns": [900, 901], "e2e_ns": [1, 2]}, "iterations")
CSV = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","conv","gpu__time_duration.sum","ns","44,512"
"0","7","conv","dram__bytes_read.sum","byte","14,100,000"
"1","7","relu","gpu__time_duration.sum","ns","1,024"
"2","7","conv","gpu__time_duration.sum","ns","44,000"
"""


def records(*names):
    return [KernelRecord(name, 10 * i, 10 * i + 4) for i, name in enumerate(names)]


def test_records_divide_into_iterations_of_the_same_sequence():
    groups = cupti.iterations(records("fill", "conv", "fill", "conv"), 2)
    assert [["fill", "conv"]] * 2 == [[r.name for r in group] for group in groups]


@pytest.mark.parametrize("names", [("a", "b", "a"), ("a", "b", "b", "a"), ()])
def test_records_that_do_not_divide_so_are_none(names):
    assert cupti.iterations(records(*names), 2) is None


def test_a_span_holds_the_gaps_and_a_sum_does_not():
    group = records("fill", "conv")
    assert (14, 8) == (cupti.span_ns(group), cupti.sum_ns(group))


def test_a_kernel_is_counted_for_one_iteration():
    groups = [records("fill", "conv", "conv")] * 2
    assert {"fill": (1, 4), "conv": (2, 4)} == cupti.by_name(groups)


def test_without_a_timer_that_records_the_series_stay_as_they_are():
    stream = SimpleNamespace(abilities=StreamAbilities())
    found = record_kernels(None, stream, SamplingBudget(0, 2), MEASURED)
    assert (MEASURED, (), ()) == (found.measured, found.kernels, found.notes)


def test_why_a_plan_runs_without_a_gate_is_said():
    abilities = StreamAbilities(no_gate_because=lambda: "the gate does not close")
    stream = SimpleNamespace(abilities=abilities)
    found = record_kernels(None, stream, SamplingBudget(0, 2), MEASURED)
    assert (f"the gate does not close: {UNGATED}",) == found.notes


def test_counters_are_read_by_kernel_with_their_launches():
    conv, relu = ncu.parse(CSV)
    assert ("conv", 2, 44512.0) == (conv.name, conv.count, conv.median_ns)
    assert {"dram__bytes_read.sum": 14100000.0} == conv.counters
    assert "relu" == relu.name


def test_an_unknown_set_of_counters_names_the_known_ones():
    with pytest.raises(UsageError, match="basic"):
        ncu.check_set("all")


def test_without_the_tool_there_is_one_line(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "not on the PATH" in ncu.why_not()


def test_parts_of_a_trace_become_processes_that_begin_at_zero(tmp_path):
    for index, start in enumerate((5000.0, 90.0)):
        event = {"name": "run", "ph": "X", "pid": 0, "tid": 0, "ts": start, "dur": 1.0}
        part = {"case_id": f"case {index}", "events": [event]}
        (tmp_path / f"{index}.json").write_text(json.dumps(part))
    events = join_parts(str(tmp_path))["traceEvents"]
    runs = [(e["pid"], e["ts"]) for e in events if e["ph"] == "X"]
    named = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert [(0, 0.0), (100, 0.0)] == runs
    assert ["case 0", "case 1"] == named


def test_ceilings_are_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = []

    def ask(key):
        asked.append(key)
        return Ceilings(4000.0, {"half": 800.0})

    found = [add_ceilings((DEVICE,), {"cudnn": "GPU-1"}, "fp32", ask)[0] for _ in range(2)]
    assert ["cudnn"] == asked
    assert [4000.0, 4000.0] == [device.ceiling_gbps for device in found]


def test_damaged_ceilings_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store_ceilings(DEVICE, "fp32", Ceilings(1.0, {}))
    next(tmp_path.rglob("*.json")).write_text('{"gbps": []}')
    assert read_ceilings(DEVICE, "fp32") is None


@pytest.mark.parametrize(
    ("before", "after", "throttle", "count"),
    [
        (1980.0, 1979.0, (), 0),
        (1980.0, 1500.0, (), 1),
        (1980.0, 1500.0, ("power cap",), 2),
        (1980.0, 1980.0, ("power cap",), 0),
        (None, None, ("power cap",), 1),
    ],
)
def test_a_clock_that_moved_is_said_and_stale_words_of_nvml_are_not(before, after, throttle, count):
    found = disturbances(
        Telemetry(probed_clock_mhz=before), Telemetry(probed_clock_mhz=after, throttle=throttle)
    )
    assert count == len(found)


def test_a_plain_name_needs_no_demangling():
    assert "relu_kernel" == demangle("relu_kernel")


class Queue:
    """A stream with a gate behind which nine hundred launches fit."""

    no_gate_because, timer = TOO_MANY, "auto"

    @property
    def abilities(self):
        return StreamAbilities(
            kernel_timer=self.timer,
            expect=self.expect,
            no_gate_because=lambda: self.no_gate_because,
        )

    def expect(self, launches):
        self.no_gate_because = None if launches <= 900 else TOO_MANY

    def synchronize(self):
        """Nothing is under way."""


@pytest.mark.parametrize(("launched", "why"), [(312, None), (1100, TOO_MANY), (0, TOO_MANY)])
def test_launches_that_may_be_too_many_are_counted(monkeypatch, launched, why):
    class Recorder:
        def __enter__(self):
            self.records = []
            return self

        def __exit__(self, *_):
            self.records += records(*["kernel"] * launched)

    monkeypatch.setattr(cupti, "Recorder", Recorder)
    stream = Queue()
    count_launches(SimpleNamespace(run=lambda: None), stream)
    assert why == stream.no_gate_because


@pytest.mark.parametrize(("why", "timer"), [(TOO_MANY, "events"), ("it waits", "auto")])
def test_launches_are_not_counted_where_that_was_not_asked_for(monkeypatch, why, timer):
    monkeypatch.setattr(cupti, "Recorder", None)
    stream = Queue()
    stream.no_gate_because, stream.timer = why, timer
    count_launches(SimpleNamespace(run=None), stream)
    assert why == stream.no_gate_because
