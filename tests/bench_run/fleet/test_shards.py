"""A run in shards leaves the document of one run, whatever happens to a shard."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from bench_schema import files
from bench_schema.journal import journal_path

import bench_run
from bench_run.errors import BenchRunError, EngineUnavailableError, IncompleteRunError, UsageError
from bench_run.fleet import shards
from bench_run.fleet.cluster import check_reachable, run_on_cluster
from bench_run.fleet.shards import LocalPlace, left_by, local_places, parts_path, run_shards
from bench_run.options import Options, checked
from tests.support import graph_json

ROOT = Path(__file__).resolve().parents[3]
ROUNDS, GRAPHS = 2, 4
GIVEN = {"engine": ("numpy",), "rounds": ROUNDS, "iterations": 4, "warmup": 1}
TWO = [LocalPlace("one", {}, ("B",)), LocalPlace("other", {}, ("A",))]
"""The processors of this host, as two devices of it."""


def write_graphs(folder, count):
    folder.mkdir()
    for index in range(count):
        text = json.dumps(graph_json(f"add_{index}", (4, 8 + index)))
        (folder / f"add_{index}.json").write_text(text)
    return folder


@pytest.fixture
def graphs(tmp_path):
    return write_graphs(tmp_path / "graphs", GRAPHS)


@pytest.fixture
def options(graphs, tmp_path):
    output = str(tmp_path / "all.json")
    return checked(Options(graphs=(str(graphs),), output=output, quiet=True, **GIVEN))


def measured(document):
    return {
        case.id: (case.graph, case.outcome, [each.index for each in case.rounds], case.engine)
        for case in document.cases
    }


def processes(document):
    return [each.pid for case in document.cases for each in case.rounds]


@pytest.mark.long
def test_two_devices_leave_the_document_of_one_run(options, graphs):
    document = run_shards(options, (), TWO)
    assert measured(bench_run.run([str(graphs)], **GIVEN)) == measured(document)
    assert measured(document) == measured(files.read(options.output))
    assert document.run.complete
    assert document.run.settings.device_parallelism == "measure"
    assert not parts_path(options.output).exists()


@pytest.mark.long
def test_each_round_names_the_devices_that_measured_at_the_same_time(options):
    document = run_shards(replace(options, output=None), (), TWO)
    named = {each.surroundings.companions for case in document.cases for each in case.rounds}
    assert named == {("A",), ("B",)}


@pytest.mark.long
def test_an_unfinished_run_of_one_device_is_not_continued_in_shards(options):
    journal_path(options.output).write_text("begun")
    with pytest.raises(UsageError, match="has one device"):
        run_shards(replace(options, resume=True), (), TWO)
    run_shards(replace(options, force=True), (), TWO)
    assert not journal_path(options.output).exists()


def test_with_one_gpu_it_is_an_ordinary_run(options, monkeypatch):
    monkeypatch.setattr(shards, "local_places", lambda _: TWO[:1])
    document = shards.run_on_all_devices(replace(options, device=None))
    assert (GRAPHS, (), True) == (len(document.cases), document.parts, document.run.complete)


class DyingPlace:
    """Kills its first shard once some rounds are in its journal."""

    companions = ()

    def __init__(self, after, times=1):
        self.name, self._after, self._left, self.starts = "dying", after, times, 0

    def is_usable(self):
        return True

    def start(self, job, part, hear):
        self.starts += 1
        shard = LocalPlace("", {}).start(job, part, hear)
        if self._left:
            self._left -= 1
            journal = journal_path(part)
            until = time.monotonic() + 60
            while time.monotonic() < until:
                if journal.exists() and journal.read_bytes().count(b"\n") >= self._after:
                    break
                time.sleep(0.01)
            shard._process.kill()
        return shard


@pytest.mark.long
def test_a_shard_that_is_killed_goes_on_where_it_was(options):
    dying = DyingPlace(after=3)
    document = run_shards(options, (), [TWO[0], dying])
    assert dying.starts == 2
    rounds = [row[2] for row in measured(document).values()]
    assert rounds == [list(range(ROUNDS))] * GRAPHS


@pytest.mark.long
def test_a_shard_that_always_dies_leaves_what_was_measured_and_is_continued(options, monkeypatch):
    monkeypatch.setattr(shards, "RESTARTS", 1)
    with pytest.raises(IncompleteRunError, match=r"was lost 2 times.*--resume") as error:
        run_shards(options, ("x",), [TWO[0], DyingPlace(after=2, times=9)])
    assert not error.value.document.run.complete
    before = processes(error.value.document)
    assert before
    with pytest.raises(UsageError, match="has 2 shards, this one 1"):
        run_shards(replace(options, resume=True), ("x", "--resume"), TWO[:1])
    with pytest.raises(BenchRunError, match="--resume"):
        run_shards(options, ("x",), TWO)
    document = run_shards(replace(options, resume=True), ("x", "--resume"), TWO)
    assert document.run.complete
    assert len(processes(document)) == ROUNDS * GRAPHS
    assert set(before) <= set(processes(document))


@pytest.mark.long
def test_a_finished_run_is_not_measured_again(options):
    first = run_shards(options, ("x",), TWO)
    again = run_shards(replace(options, resume=True), ("x", "--resume"), TWO)
    assert processes(first) == processes(again)
    for changes in ({"iterations": 6}, {"op": ("relu: n=1 c=1 h=2 w=2",)}, {"engine": ("torch",)}):
        with pytest.raises(UsageError, match="holds another run"):
            run_shards(replace(options, resume=True, **changes), (), TWO)


@pytest.mark.long
def test_what_is_wrong_for_every_shard_is_one_error(options):
    with pytest.raises(BenchRunError, match="hipdnn"):
        run_shards(replace(options, engine=("hipdnn@no-such-plugin",)), (), TWO)


def interrupted_run(graphs, output, number, iterations):
    """A run of two shards that gets a signal once both have a journal."""
    script = (
        "from tests.bench_run.fleet.test_shards import *;"
        f"o = Options(graphs=({str(graphs)!r},), output={str(output)!r}, engine=('numpy',),"
        f" rounds=2, iterations={iterations}, max_time_s=60.0, min_time_s=60.0);"
        "d = run_shards(o, (), TWO); print(d.run.complete)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "schema")])},
        stdout=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while len(list(Path(f"{output}.parts").glob("*.journal"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    return process


@pytest.mark.long
def test_an_interrupted_run_keeps_its_rounds(graphs, tmp_path):
    output = tmp_path / "all.json"
    process = interrupted_run(graphs, output, signal.SIGINT, "100000")
    assert process.communicate(timeout=60)[0].strip() == "False"
    assert not files.read(output).run.complete
    assert parts_path(str(output)).exists()


def test_a_mistake_is_one_line_and_starts_no_process(options):
    dying = DyingPlace(after=0)
    with pytest.raises(BenchRunError, match=r"^no.json: no such file"):
        run_shards(replace(options, graphs=("no.json",)), (), [dying, dying])
    assert dying.starts == 0


@pytest.mark.long
def test_no_shard_outlives_a_run_that_is_killed(graphs, tmp_path):
    output = tmp_path / "all.json"
    process = interrupted_run(graphs, output, signal.SIGKILL, "100000")
    process.wait(60)
    until = time.monotonic() + 30
    while shards_of(output) and time.monotonic() < until:
        time.sleep(0.1)
    assert not shards_of(output)
    assert list(parts_path(str(output)).glob("*.journal"))
    assert not output.exists()


def shards_of(output):
    """Processes that have a file of the parts open."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(f"{output}.parts" in file.path for file in process.open_files()):
                found.append(process.pid)
    return found


def test_a_journal_and_a_document_of_one_shard_are_not_merged_twice(tmp_path):
    part = tmp_path / "1-of-2.json"
    assert left_by(part) is None
    part.write_text("{}")
    journal_path(part).write_text("half a line")
    assert left_by(part) == part
    journal_path(part).write_text("a line\n")
    assert left_by(part) == journal_path(part)


def test_a_processor_engine_is_refused_since_the_gpus_share_it(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(UsageError, match="numpy runs on the processor"):
        local_places(Options(engine=("numpy",)))


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(shards, "devices", lambda: ())
    with pytest.raises(EngineUnavailableError, match="no GPU is visible"):
        local_places(Options(engine=("torch:cuda",)))


def test_each_gpu_is_a_place_with_its_share_of_the_processors(monkeypatch):
    from bench_schema.document import Device

    found = tuple(Device(index=n, name="GPU", uuid=f"GPU-{n}") for n in range(4))
    monkeypatch.setattr(shards, "devices", lambda: found)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    places = local_places(Options(engine=("torch:cuda",)))
    assert [place.environment["CUDA_VISIBLE_DEVICES"] for place in places] == ["1", "3"]
    assert [place.companions for place in places] == [("GPU-3",), ("GPU-1",)]


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"trace": "t.json"}, "--trace"),
        ({"counters": "x"}, "--counters"),
        ({"write_golden": "d"}, "--write-golden"),
        ({"save_outputs": "d"}, "--save-outputs"),
        ({"device": None}, "--device"),
        ({"device": (0, 1)}, "--device"),
        ({"watch": True}, "--watch"),
        ({"shard": "1/2"}, "--shard"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_by_name(changes, flag):
    with pytest.raises(UsageError, match=flag):
        run_on_cluster(Options(ray="local", **changes))


@pytest.mark.parametrize("given", [{"ray": "local"}, {"device": None}])
def test_from_python_shards_are_refused(given):
    with pytest.raises(UsageError, match="only the command line"):
        bench_run.run(["g.json"], **given)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere", "host:port"])
def test_an_address_without_a_cluster_is_refused_at_once(address):
    with pytest.raises(UsageError, match=f"--ray {address}"):
        check_reachable(address)
