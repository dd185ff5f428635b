"""A fleet in Ray's own simulation: three nodes on this machine, each with a unit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from bench_schema import files

import bench_run
from bench_run.errors import UsageError
from bench_run.options import Options, checked
from tests.support import graph_json

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dnn-bench[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402  there only with Ray

from bench_run.fleet import ray_run  # noqa: E402
from bench_run.fleet.ray_run import run_fleet  # noqa: E402
from tests.bench_run.fleet.misbehaving import FOLDER, RepeatingUnit, SilentUnit  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[3]
ROUNDS, GRAPHS = 3, 6
GIVEN = {"engine": ("numpy",), "rounds": ROUNDS, "iterations": 6, "warmup": 1, "fresh": "exec"}
SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
"""How Ray sees that a node is gone."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory, _hostile_folder):
    """A cluster of a head without processors and three nodes with one each."""
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([str(_hostile_folder), str(ROOT), str(ROOT / "schema"), *sys.path])
        patch.setenv("PYTHONPATH", path)
        patch.setenv(FOLDER, str(tmp_path_factory.mktemp("signs")))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        small = {"object_store_memory": 80 << 20}
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": SOON, **small}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        members = [cluster.add_node(num_cpus=1, **small) for _ in range(3)]
        cluster.wait_for_nodes()
        yield cluster, members
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def graphs(tmp_path):
    folder = tmp_path / "graphs"
    folder.mkdir()
    for index in range(GRAPHS):
        text = json.dumps(graph_json(f"add_{index}", (4, 8 + index)))
        (folder / f"add_{index}.json").write_text(text)
    return folder


@pytest.fixture
def options(nodes, graphs, tmp_path):
    return checked(
        Options(
            graphs=(str(graphs),),
            ray=nodes[0].address,
            output=str(tmp_path / "fleet.json"),
            quiet=True,
            **GIVEN,
        )
    )


def facts(document):
    """A document but for provenance: what was measured and found, not when and where."""

    def validation(case):
        found = case.validation
        return found.status, found.reference, found.outputs, found.deterministic

    return {
        case.id: (
            case.graph,
            case.engine,
            case.variant,
            case.outcome,
            case.work,
            sorted(each.index for each in case.rounds),
            [{n: len(s) for n, s in each.series.items()} for each in case.rounds],
            sorted(case.init),
            validation(case),
            case.stopped_by,
        )
        for case in document.cases
    }


def alone(graphs):
    return bench_run.run([str(graphs)], **GIVEN)


def settings(document):
    from dataclasses import asdict

    known = asdict(document.run.settings)
    del known["device_parallelism"]
    return known


def test_three_nodes_give_the_document_of_one_machine(options, graphs):
    document, one = run_fleet(options), alone(graphs)
    assert (facts(one), settings(one)) == (facts(document), settings(document))
    assert facts(document) == facts(files.read(options.output))


def test_the_journal_took_each_round_once_though_all_came_often(options, graphs):
    document = run_fleet(options, unit=RepeatingUnit)
    assert facts(alone(graphs)) == facts(document)


def test_a_late_result_of_a_unit_given_up_is_not_counted_twice(options, graphs, monkeypatch):
    monkeypatch.setattr(ray_run, "SILENT_S", 4.0)
    document = run_fleet(options, unit=SilentUnit)
    assert facts(alone(graphs)) == facts(document)
    assert {each.attempt for case in document.cases for each in case.rounds} == {0, 1}


def test_a_fleet_goes_on_with_what_an_unfinished_one_measured(options, graphs):
    from bench_schema.journal import Journal, journal_path

    whole = run_fleet(options)
    first, rest = whole.cases[:2], whole.cases[2:]
    half = tuple(replace(c, rounds=c.rounds[:1], init={}, summary={}) for c in rest[:2])
    other = tuple(replace(e, device_index=7) for e in whole.engines)  # another unit stood first
    header = replace(whole, cases=(), engines=other)
    Journal.create(journal_path(options.output), header, [*first, *half]).close()
    Path(options.output).unlink()
    again = run_fleet(replace(options, resume=True))
    kept = {c.id: [r.started for r in c.rounds] for c in first}
    assert kept == {c.id: [r.started for r in c.rounds] for c in again.cases if c.id in kept}
    assert [ROUNDS] * GRAPHS == [len(case.rounds) for case in again.cases]


def test_a_template_that_is_killed_on_a_unit_costs_no_case(hostile, options):
    given = replace(options, engine=("hostile:kill-template+fork",), fresh="fork")
    document = run_fleet(replace(given, reference="none"))
    assert [("completed", ROUNDS)] * GRAPHS == [
        (case.outcome.status, len(case.rounds)) for case in document.cases
    ]


def test_an_address_without_a_cluster_is_one_line():
    with pytest.raises(UsageError, match=r"--ray .*: no cluster there"):
        run_fleet(Options(op=("relu: n=1 c=1 h=1 w=1",), engine=("numpy",), ray="127.0.0.1:1"))


@pytest.fixture
def scratch():
    """For temporary files; names of Ray's sockets have to be short."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="ray"))
    yield folder
    shutil.rmtree(folder)


def wait_until(condition, limit_s):
    until = time.monotonic() + limit_s
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)
    return condition()


def agents():
    return {p.pid for p in psutil.process_iter(["name"]) if "Agent" in p.info["name"]}


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGKILL])
def test_a_local_cluster_ends_with_the_run_and_leaves_nothing(graphs, scratch, number):
    """Of a run that is killed what its unit kept is left, for the next run to remove."""
    before = agents()
    effort = ("--iters", "6") if number is None else ("--iters", "1000000", "--max-time", "300")
    words = (str(graphs), "--engine", "numpy", "--rounds", "1", *effort, "--quiet")
    process = subprocess.Popen(
        [sys.executable, "-m", "bench_run", *words, "--ray", "local"],
        env={**os.environ, "TMPDIR": str(scratch)},
        cwd=ROOT,
    )
    if number is not None:
        assert wait_until(lambda: list(scratch.glob("*/outputs/*/*")), 120)
        process.send_signal(number)
    code = process.wait(timeout=120)
    if number is signal.SIGKILL:
        assert wait_until(lambda: agents() <= before, 20)
        assert wait_until(lambda: not list(scratch.glob("*/session_*")), 20)
    else:
        left = sorted(map(str, scratch.rglob("*")))
        assert (0 if number is None else 1, []) == (code, left)
        assert agents() <= before


def kill_when_begun(cluster, node, output):
    """Ends a node, all its processes at once, after the first results."""
    journal = Path(f"{output}.journal")
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if journal.exists() and journal.read_bytes().count(b"\n") > 3:
            break
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)


def test_at_last_a_node_that_is_killed_costs_nothing_but_time(nodes, options, graphs):
    cluster, members = nodes
    killer = threading.Thread(target=kill_when_begun, args=(cluster, members[1], options.output))
    killer.start()
    document = run_fleet(options)
    killer.join()
    assert facts(alone(graphs)) == facts(document)
    attempts = Counter(each.attempt for case in document.cases for each in case.rounds)
    assert set(attempts) == {0, 1}
