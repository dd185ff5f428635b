"""Shards on a cluster in Ray's own simulation: three nodes on this machine."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

import bench_run
from bench_run.errors import UsageError
from bench_run.fleet.cluster import run_on_cluster
from bench_run.fleet.shards import parts_path
from bench_run.options import Options, checked
from tests.bench_run.fleet.test_shards import measured, write_graphs

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dnn-bench[ray]'")

from ray.cluster_utils import Cluster  # noqa: E402  there only with Ray

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
def nodes():
    """A cluster of a head without processors and three nodes with one each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "schema"), *sys.path]))
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
    return write_graphs(tmp_path / "graphs", GRAPHS)


@pytest.fixture
def options(nodes, graphs, tmp_path):
    output = str(tmp_path / "fleet.json")
    return checked(
        Options(graphs=(str(graphs),), ray=nodes[0].address, output=output, quiet=True, **GIVEN)
    )


def test_three_nodes_leave_the_document_of_one_run(options, graphs):
    document = run_on_cluster(options)
    assert document.run.complete
    assert measured(bench_run.run([str(graphs)], **GIVEN)) == measured(document)


def test_an_address_without_a_cluster_is_one_line():
    with pytest.raises(UsageError, match=r"--ray .*: no cluster there"):
        run_on_cluster(Options(op=("relu: n=1 c=1 h=1 w=1",), engine=("numpy",), ray="127.0.0.1:1"))


def kill_when_begun(cluster, node, output):
    """Ends a node, all its processes at once, after the shards have begun."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if parts_path(output).exists() and not ray.available_resources().get("CPU"):
            break
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)


def test_at_last_a_node_that_is_killed_costs_nothing_but_time(nodes, options, graphs):
    cluster, members = nodes
    killer = threading.Thread(target=kill_when_begun, args=(cluster, members[1], options.output))
    killer.start()
    document = run_on_cluster(options)
    killer.join()
    assert document.run.complete
    assert measured(bench_run.run([str(graphs)], **GIVEN)) == measured(document)
