"""What somebody types by mistake, and the one line that answers it: `tests/data/mistakes.txt`.

After a wanted change: BENCH_UPDATE_MISTAKES=1 pytest tests/test_mistakes.py, and read what changed.
"""

from __future__ import annotations

import json
import os
import shlex
from importlib import import_module

import pytest

import bench_run
from tests.conftest import ROOT
from tests.support import graph_json

TABLE = ROOT / "tests" / "data" / "mistakes.txt"
TYPED = [
    (typed.removeprefix("$ "), answer)
    for typed, answer in (
        block.split("\n", 1) for block in TABLE.read_text(encoding="utf-8").strip().split("\n\n")
    )
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with a graph, two result documents, and files that are something else."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "g.json").write_text(json.dumps(graph_json()))
    (folder / "nothing").mkdir()
    (folder / "collection").mkdir()
    (folder / "collection" / "net.toml").write_text('[[graph]]\nfile = "../g.json"\n')
    for name in ("a", "b"):
        bench_run.run(
            [str(folder / "g.json")],
            engine=["numpy"],
            rounds=1,
            iterations=2,
            warmup=0,
            output=str(folder / f"{name}.json"),
        )
    (folder / "copy.json").write_bytes((folder / "a.json").read_bytes())
    (folder / "net.onnx").write_bytes(b"\x08\x08onnx\xff\xfe\x00")
    (folder / "model.pt").write_bytes(b"PK\x03\x04")
    (folder / "blob.bin").write_bytes(bytes(range(256)))
    (folder / "script.py").write_text("print(1)\n")
    (folder / "empty.json").write_text("")
    (folder / "list.json").write_text("[1, 2]")
    (folder / "broken.json").write_text('{"nodes": [')
    (folder / "bad.toml").write_text("itres = 3\n")
    (folder / "net.toml").write_text('[[graph]]\nfile = "g.json"\n')
    return folder


def files(desk):
    """All but the index that `history` keeps in a folder it is asked about."""
    return sorted(path.name for path in desk.rglob("*") if path.name != "history.sqlite")


def answered(tool, words):
    try:
        return import_module(f"{tool}.cli").main(words)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(("typed", "answer"), TYPED, ids=[typed for typed, _ in TYPED])
def test_a_mistake_is_one_line_that_says_what_is_wrong(desk, monkeypatch, capfd, typed, answer):
    monkeypatch.chdir(desk)
    command, *words = shlex.split(typed)
    before = files(desk)
    code = answered(command.replace("-", "_"), words)
    said = capfd.readouterr()
    lines = [line for line in said.err.splitlines() if line.startswith(f"{command}: ")]
    if os.environ.get("BENCH_UPDATE_MISTAKES"):
        update(typed, lines[-1] if lines else f"?? {code} {said.err[-300:]} {said.out[-300:]}")
    assert (1, [answer]) == (code, lines)
    assert before == files(desk)


def update(typed, answer):
    blocks = dict(TYPED) | {typed: answer}
    TYPED[:] = blocks.items()
    text = "\n\n".join(f"$ {typed}\n{answer}" for typed, answer in TYPED)
    TABLE.write_text(f"{text}\n", encoding="utf-8")


def test_the_table_has_at_least_150_lines():
    assert len(TYPED) >= 150
