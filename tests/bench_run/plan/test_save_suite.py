"""Logged graphs become a suite: equal ones once, with how often they occur."""

from __future__ import annotations

import json
import re

import pytest

from bench_run.cli import main
from bench_run.graph.sources.suites import read_suite
from tests.support import graph_json

CONV = "MIOpenDriver conv -n 1 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1"
LOG = f"""MIOpen(HIP): Info [SetStream] stream: 0, device_id: 0
MIOpen(HIP): Command [LogCmdConvolution] ./bin/{CONV}
MIOpen(HIP): Command [LogCmdConvolution] ./bin/{CONV.replace("-F 1", "-F 4")}
MIOpen(HIP): Command [LogCmdConvolution] ./bin/{CONV}
MIOpen(HIP): Command [LogCmdConvolution] ./bin/{CONV}
"""


def renumbered(name):
    """The small graph with other names and uids: the same meaning."""
    data = graph_json(name=name)
    for tensor in data["tensors"]:
        tensor["uid"] += 100
        tensor["name"] += "_again"
    text = re.sub(
        r'_tensor_uid": (\d+)',
        lambda m: f'_tensor_uid": {int(m[1]) + 100}',
        json.dumps(data["nodes"]),
    )
    return {**data, "nodes": json.loads(text)}


@pytest.fixture
def captured(tmp_path):
    """A folder as HIPDNN_LOG_GRAPH_DIR leaves it."""
    folder = tmp_path / "captured"
    folder.mkdir()
    graphs = [graph_json(), renumbered("b"), graph_json(operation="mul"), renumbered("d")]
    for index, graph in enumerate(graphs):
        (folder / f"graph_{index}.json").write_text(json.dumps(graph))
    return folder


def repeats(path):
    return [entry.repeat for entry in read_suite(path).layers]


def test_captured_graphs_of_one_meaning_are_one_entry_with_their_count(captured, tmp_path, capsys):
    suite = tmp_path / "net.toml"
    assert 0 == main([str(captured), "--save-suite", str(suite), "--dry-run"])
    assert [3, 1] == repeats(suite)
    assert "2 graphs for 4 occurrences" in capsys.readouterr().out


def test_a_miopen_log_as_it_is_becomes_a_suite_with_its_repeats(tmp_path, capsys):
    log, suite = tmp_path / "miopen.log", tmp_path / "net.toml"
    log.write_text(LOG)
    assert 0 == main(["--miopen-driver", str(log), "--save-suite", str(suite), "--dry-run"])
    assert [3, 1] == repeats(suite)


def test_the_suite_runs_and_keeps_its_counts_when_it_is_saved_again(captured, tmp_path, capsys):
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    main([str(captured), "--save-suite", str(first), "--dry-run"])
    assert 0 == main(
        [
            str(first),
            "--save-suite",
            str(second),
            "--engine",
            "numpy",
            "--rounds",
            "1",
            "--iters",
            "1",
        ]
    )
    assert repeats(first) == repeats(second)


def test_a_suite_is_a_toml_file(captured, tmp_path, capsys):
    assert 1 == main([str(captured), "--save-suite", str(tmp_path / "x.json"), "--dry-run"])
    assert "should end in .toml" in capsys.readouterr().err
