"""Which plan is chosen, and how cuDNN's words become ours."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench_run.engines import cudnn
from bench_run.engines.base import EngineOptions, EngineSpec
from bench_run.engines.cudnn.library import (
    backend_text,
    check_version,
    executor,
    reason,
    refusals,
)
from bench_run.engines.cudnn.plans import (
    Choice,
    build,
    candidates,
    choices,
    described_by,
    engine_of,
    knobs_of,
    read_choice,
)
from bench_run.errors import (
    EngineError,
    EngineUnavailableError,
    UnsupportedGraphError,
    UsageError,
)

LISTED = ["eng62_k2=0_k13=1", "eng6", "eng45_k2=0", "eng62_k2=1", "eng6"]


class Plans:
    """A list of plans of which some do not build."""

    def __init__(self, broken):
        self.broken, self.tried = broken, []

    def build_plan_at_index(self, place):
        self.tried.append(place)
        if place in self.broken:
            raise RuntimeError(self.broken[place])

    def get_workspace_size_plan_at_index(self, place):
        return 100 + place

    def get_behavior_notes_for_plan_at_index(self, place):
        return ["behavior_note.RUNTIME_COMPILATION"]


@pytest.mark.parametrize(
    ("identifier", "choice"),
    [
        (None, Choice()),
        ("62", Choice(engine=62)),
        ("eng62", Choice(engine=62)),
        ("index=3", Choice(index=3)),
        ("plan=eng62_k2=0_k13=1", Choice(name="eng62_k2=0_k13=1")),
        ("all", Choice(every=True)),
    ],
)
def test_an_id_is_a_choice(identifier, choice):
    assert choice == read_choice(identifier, {})


def test_a_plans_name_says_its_engine_and_knobs():
    assert Choice(engine=62, knobs={"TILE_SIZE": 5, "TILEK": 1}) == described_by("eng62_k2=5_k13=1")


def test_a_name_with_a_knob_that_cannot_be_set_does_not_say_enough():
    assert described_by("eng45_k2=5_k5=4") is None


@pytest.mark.parametrize("identifier", ["best", "index=x", "index=-1", "plan=", "engine=4"])
def test_an_id_that_means_nothing_is_refused(identifier):
    with pytest.raises(UsageError, match="cudnn:"):
        read_choice(identifier, {})


def test_knobs_go_by_number_or_name():
    assert {"TILE_SIZE": 3, "STAGES": 2} == read_choice("62", {"k2": "3", "stages": "2"}).knobs


def test_knobs_without_an_engine_are_refused():
    with pytest.raises(UsageError, match="engine's id"):
        read_choice(None, {"k2": "3"})


@pytest.mark.parametrize(
    ("choice", "places"),
    [
        (Choice(), [0, 1, 2, 3, 4]),
        (Choice(engine=62), [0, 3]),
        (Choice(engine=6), [1, 4]),
        (Choice(name="eng45_k2=0"), [2]),
        (Choice(index=1), [1]),
        (Choice(engine=62, knobs={"TILEK": 1, "TILE_SIZE": 0}), [0]),
        (Choice(engine=62, knobs={"TILE_SIZE": 1}), [3]),
    ],
)
def test_a_choice_finds_its_plans_in_the_list(choice, places):
    assert places == candidates(LISTED, choice)


def test_a_plan_that_is_not_listed_is_unsupported_and_the_list_is_told():
    with pytest.raises(UnsupportedGraphError, match="eng62_k2=0_k13=1"):
        candidates(LISTED, Choice(engine=99))


def test_the_first_plan_that_builds_is_taken():
    plans = Plans({0: "CUDNN_STATUS_NOT_SUPPORTED"})
    chosen = build(plans, [0, 1, 2], LISTED, "conv")
    assert (1, "eng6", 101) == (chosen.index, chosen.name, chosen.workspace_bytes)
    assert ("RUNTIME_COMPILATION",) == chosen.notes


def test_where_none_builds_the_first_real_reason_is_told():
    plans = Plans({0: "Deselecting execution plan", 1: "Reason: the layout", 2: "other"})
    with pytest.raises(UnsupportedGraphError, match="conv: no plan builds: the layout"):
        build(plans, [0, 1, 2], LISTED, "conv")


def test_a_plan_with_more_knobs_than_were_given_is_another():
    with pytest.raises(UnsupportedGraphError, match="no such plan"):
        candidates(LISTED, Choice(engine=62, knobs={"TILEK": 1}))


def test_plans_that_round_too_much_name_the_setting_that_left_them_out():
    plans = Plans(dict.fromkeys(range(5), "Deselecting execution plan eng62"))
    with pytest.raises(UnsupportedGraphError, match="round more than --math allows"):
        build(plans, [0, 3], LISTED, "conv")


def test_an_engines_own_plans_are_tried_wherever_they_stand_in_the_list():
    found = ["eng1"] * 40 + ["eng62_k2=0", "eng62_k2=1"]
    plans = Plans({40: "CUDNN_STATUS_NOT_SUPPORTED"})
    assert 41 == build(plans, [40, 41], found, "conv").index


def test_an_engines_number_is_read_from_a_plans_name():
    assert [62, 6, None] == [engine_of(name) for name in ("eng62_k2=0", "eng6", "custom")]


def test_what_can_be_chosen_is_one_row_a_plan_with_its_workspace():
    rows = list(choices(Plans({1: "Reason: the layout"}), LISTED, [0, 1]))
    assert ["100 bytes", "does not build (the layout)"] == [row["workspace"] for row in rows]
    assert [("0", "62"), ("1", "6")] == [(row["index"], row["engine"]) for row in rows]


@pytest.mark.parametrize("version", ["1.23.0", "1.26.0", "1.27.0", "1.32.0", "2.0"])
def test_versions_with_the_known_interface_are_taken(version):
    assert check_version(version) is None


def test_an_older_version_is_refused_with_what_to_install():
    with pytest.raises(EngineUnavailableError, match=r"pip install 'nvidia-cudnn-frontend>=1.23'"):
        check_version("1.22.1")


class Handle:
    backend_handle = 7


class Below:
    """The library's own graph."""

    def __init__(self):
        self.executed = []

    def _execute_plan_at_index(self, pack, workspace, place, handle):
        self.executed.append((pack, workspace, place, handle))


class Above:
    """A graph of the frontend's Python, with an engine in Python before one of the library."""

    def __init__(self):
        self._lowered_graph, self.executed = Below(), []
        self.plans = [SimpleNamespace(cpp_index=None), SimpleNamespace(cpp_index=0)]

    def execute_plan_at_index(self, pack, workspace, *, index, handle):
        self.executed.append((pack, workspace, index, handle))


def test_a_plan_of_the_library_runs_without_the_frontends_python():
    graph, handle = Above(), Handle()
    executor(graph, 1, handle)({1: 2}, 3)
    assert [({1: 2}, 3, 0, 7)] == graph._lowered_graph.executed
    assert [] == graph.executed


def test_a_plan_in_python_runs_through_the_frontend():
    graph, handle = Above(), Handle()
    executor(graph, 0, handle)({1: 2}, 3)
    assert [({1: 2}, 3, 0, handle)] == graph.executed


def test_a_plan_of_an_old_frontend_runs_as_it_is():
    graph = Below()
    executor(graph, 4, 9)({1: 2}, 3)
    assert [({1: 2}, 3, 4, 9)] == graph.executed


def test_knobs_of_an_engine_in_python_are_read_from_its_plans_name():
    assert {"TILE_M": 128, "TILE_N": 64} == knobs_of("sdpa_fwd_prefill_sm90[TILE_M=128, TILE_N=64]")
    assert {} == knobs_of("sdpa_fwd_prefill_sm90")


def test_a_plan_in_python_has_the_engines_name_in_the_list_of_choices():
    name = "sdpa_fwd_prefill_sm90[TILE_M=128]"
    (row,) = choices(Plans({}), [name], [0])
    assert ("sdpa_fwd_prefill_sm90", "TILE_M=128") == (row["engine"], row["knobs"])


def test_a_version_number_is_written_with_points():
    assert "9.19.0" == backend_text(91900)


def test_the_reason_is_the_first_that_is_not_about_another_chip():
    text = "Failed\nReason: ARCH_MISMATCH sm_100\nReason: !is_NHWC\nReason: later"
    assert "!is_NHWC" == reason(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("No valid engine configs for Matmul", UnsupportedGraphError),
        ("CUDNN_STATUS_NOT_SUPPORTED", UnsupportedGraphError),
        ("CUDNN_STATUS_ALLOC_FAILED", EngineError),
        ("CUDNN_STATUS_INTERNAL_ERROR", EngineError),
    ],
)
def test_a_refusal_is_told_from_a_failure(text, kind):
    with pytest.raises(kind, match="conv"), refusals("conv"):
        raise RuntimeError(text)


@pytest.mark.parametrize(("math", "expected"), [("fp32", "0"), ("tf32", None)])
def test_strict_products_need_a_variable_from_the_start(math, expected):
    found = cudnn.environment(EngineSpec("cudnn", "cudnn"), EngineOptions(math=math))
    assert expected == found.get("NVIDIA_TF32_OVERRIDE")
