"""What is kept across runs is believed only where it is whole, and its room is bounded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import bench_run
from bench_run.errors import UsageError
from bench_run.graph.make import make_graphs
from bench_run.runner.references import Kept, kept_references
from bench_run.tensors.data import Data
from bench_run.worker import reference_cache
from bench_run.worker.evaluate import evaluate
from bench_run.worker.messages import Evaluate
from bench_run.worker.reference_cache import ReferenceCache

KEYS = [f"{number:064x}" for number in range(10)]
NAMES = ["3.npy", "7.npy"]


@pytest.fixture
def computed(tmp_path):
    """Outputs as a run leaves them, with what it remembers beside them."""
    folder = tmp_path / "computed"
    folder.mkdir()
    np.save(folder / "3.npy", np.arange(100.0))
    np.save(folder / "7.npy", np.arange(50, dtype=np.float32))
    (folder / "remembered-fp32").write_text("of this run")
    return folder


@pytest.fixture
def cache(tmp_path, computed):
    found = ReferenceCache(tmp_path / "cache")
    found.store(KEYS[0], computed)
    return found


def test_what_was_kept_is_had_bit_for_bit(cache, computed, tmp_path):
    assert "read" == cache.fetch(KEYS[0], NAMES, tmp_path / "had")
    assert NAMES == sorted(path.name for path in (tmp_path / "had").iterdir())
    for name in NAMES:
        assert (computed / name).read_bytes() == (tmp_path / "had" / name).read_bytes()


def damaged(raw):
    """An entry with one bit changed, and one with eight bytes lost, at each of many
    places."""
    for place in (*range(100), *range(raw.index(b"PK\1\2"), len(raw))):
        yield raw[:place] + bytes([raw[place] ^ 1 << place % 8]) + raw[place + 1 :]
        yield raw[:place] + bytes(8) + raw[place + 8 :]


def test_a_bit_that_changed_and_bytes_that_were_lost_change_no_output(cache, computed, tmp_path):
    (path,) = entries(cache.folder)
    for number, raw in enumerate(damaged(path.read_bytes())):
        path.write_bytes(raw)
        had = tmp_path / str(number)
        if "read" == cache.fetch(KEYS[0], NAMES, had):  # what says nothing, as a time
            for name in NAMES:
                assert (computed / name).read_bytes() == (had / name).read_bytes()
        else:
            assert [] == entries(cache.folder)


def test_a_full_disk_costs_the_entry_nothing(cache, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reference_cache.zipfile.ZipFile, "extractall", full)
    assert "missing" == cache.fetch(KEYS[0], NAMES, tmp_path / "had")
    assert not (tmp_path / "had").exists()
    monkeypatch.undo()
    assert "read" == cache.fetch(KEYS[0], NAMES, tmp_path / "had")


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_what_was_used_longest_ago_makes_room(tmp_path, computed):
    room = 5 * size_of(computed) + 2000
    cache = ReferenceCache(tmp_path / "cache", room)
    for key in KEYS[:4]:
        cache.store(key, computed)
    assert "read" == cache.fetch(KEYS[0], NAMES, tmp_path / "had")
    for key in KEYS[4:6]:
        cache.store(key, computed)
    names = {path.stem for path in entries(cache.folder)}
    assert KEYS[0] in names
    assert KEYS[1] not in names
    assert size_of(cache.folder) <= room


@pytest.mark.long
def test_processes_that_store_read_and_evict_at_the_same_time_see_whole_entries_only(tmp_path):
    program = """
import sys
from pathlib import Path
import numpy as np
from bench_run.worker.reference_cache import ReferenceCache
me, base = int(sys.argv[1]), Path(sys.argv[2])
cache = ReferenceCache(base / "cache", 60_000)
random = np.random.default_rng(me)
had = 0
for turn in range(150):
    number = int(random.integers(8))
    key, target = f"{number:064x}", base / f"{me}-{turn}"
    if "read" == cache.fetch(key, ["1.npy"], target):
        assert (np.load(target / "1.npy") == number).all()
        had += 1
    else:
        target.mkdir()
        np.save(target / "1.npy", np.full(1000, float(number)))
        cache.store(key, target)
print(had)
"""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(me), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(3)
    ]
    for process in running:
        out, error = process.communicate(timeout=120)
        assert "" == error
        assert int(out) > 20
    assert size_of(tmp_path / "cache") <= 4 * 60_000 // 3


OP = ("matmul: m=8 n=8 k=8",)


def sources(cache, **options):
    chosen = {
        "op": OP,
        "engine": ("numpy",),
        "rounds": 1,
        "iterations": 3,
        "warmup": 0,
        "quiet": True,
    }
    document = bench_run.run((), **{**chosen, "reference_cache": cache, **options})
    assert "passed" == document.cases[0].validation.status
    return document.cases[0].validation.reference_source


def entries(folder):
    return sorted(folder.glob("*.zip"))


@pytest.mark.slow
def test_a_second_run_reads_what_the_first_computed_unless_it_is_damaged(tmp_path):
    cache = str(tmp_path / "kept")
    assert ["computed", "read"] == [sources(cache) for _ in range(2)]
    kept = entries(tmp_path / "kept")
    for entry in kept:
        raw = entry.read_bytes()
        entry.write_bytes(raw[:200] + b"damaged!" + raw[208:])
    assert ["computed", "computed", "read"] == [sources(each) for each in (cache, "off", cache)]
    assert kept == entries(tmp_path / "kept")


def exit_code(work, *, root=False):
    """The exit code of a process that does this work, by default without the rights of root."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            if os.geteuid() == 0 and not root:
                os.setuid(65534)
            code = int(work())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_folder_that_may_only_be_read_is_read(cache):
    own = Path(tempfile.mkdtemp())  # pytest's folders are closed to others
    own.chmod(0o777)
    shutil.copytree(cache.folder, own / "cache")
    for path in [own / "cache", *(own / "cache").iterdir()]:
        path.chmod(0o555)
    shared = ReferenceCache(own / "cache")

    def store():
        with pytest.raises(PermissionError):
            shared.store(KEYS[1], own / "had")
        return 7

    assert 1 == exit_code(lambda: "read" == shared.fetch(KEYS[0], NAMES, own / "had"))
    assert 7 == exit_code(store)
    shutil.rmtree(own)


def test_a_run_that_cannot_keep_references_says_so_once(tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "computed" == sources(None, quiet=False, op=(*OP, "add: dims=4x8"))
    told = [line for line in capfd.readouterr().err.splitlines() if "not kept" in line]
    assert 1 == len(told)
    assert "Not a directory" in told[0]


def test_the_first_run_says_where_they_are_kept_and_how_much(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = []
    for _ in range(2):
        sources(None, quiet=False)
        lines = capfd.readouterr().err.splitlines()
        told.append([line for line in lines if "are kept in" in line])
    folder = tmp_path / "bench-run" / "references"
    how = "another size or folder, or none: --reference-cache SIZE, DIR, off"
    assert [[f"note: references are kept in {folder}, at most 2 GiB; {how}"], []] == told


def test_a_limit_of_the_usual_folder_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for number in range(8):
        sources("60KiB", op=(f"relu: dims=8x{100 + number}",))
    assert 0 < size_of(tmp_path) <= 60 << 10


@pytest.mark.parametrize("given", ["2", "0.5"])
def test_a_number_is_asked_for_its_unit(given):
    with pytest.raises(UsageError, match=rf"{given} of what\? Write {given}GiB, or \./{given}"):
        sources(given)


@pytest.mark.parametrize("moment", ["fetch", "store"])
def test_a_cache_that_fails_costs_the_cache_only(tmp_path, monkeypatch, moment):
    def fail(*_):
        raise TypeError("connect() takes at most 1 positional arguments")

    monkeypatch.setattr(ReferenceCache, moment, fail)
    (graph,) = make_graphs(*OP)
    request = Evaluate(graph, Data(seed=1), str(tmp_path / "had"), kept=str(tmp_path), kept_bytes=1)
    answer = evaluate(None, request)
    assert "computed" == answer.source
    assert (tmp_path / "had" / f"{graph.outputs[0].uid}.npy").exists()
    assert "TypeError: connect() takes" in answer.not_kept


def test_a_folder_that_cannot_be_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--reference-cache .*file/x: Not a directory"):
        sources(str(tmp_path / "file" / "x"))


@pytest.mark.parametrize(
    ("asked", "base", "expected"),
    [
        (None, "/c", Kept("/c/bench-run/references", 2 << 30)),
        (None, "c", Kept("/h/.cache/bench-run/references")),
        (None, "", Kept("/h/.cache/bench-run/references")),
        ("off", "/c", None),
        ("d", "/c", Kept("d")),
        ("./2G", "/c", Kept("./2G")),
        ("500MiB", "/c", Kept("/c/bench-run/references", 500 << 20)),
        ("4g", "/c", Kept("/c/bench-run/references", 4 << 30)),
        ("0.5 GB", "/c", Kept("/c/bench-run/references", 1 << 29)),
    ],
)
def test_the_folder_is_that_of_the_flag_else_the_users(monkeypatch, asked, base, expected):
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", "/h")
    assert expected == kept_references(asked)
