"""Whatever the environment and the files are, both commands end with an exit code of theirs and say
in one line what is wrong: no traceback, no wait for ever."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from itertools import product

import pytest
from bench_schema.packing import read_regular

SAMPLING = ("--rounds", "1", "--iters", "2", "--warmup", "0", "--quiet")
NOT_UTF8 = os.fsdecode(b"caf\xe9")
MEMORY_BYTES = 3 << 30
"""So much that what reads an endless file would end here and not take the machine's."""


def limit(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


def close(*numbers):
    def closed():
        for number in numbers:
            os.close(number)

    return closed


def leave_folder():
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")


ENVIRONMENTS = {
    "plain": ({}, None),
    "HOME empty": ({"HOME": ""}, None),
    "HOME unset": ({"HOME": None, "XDG_CACHE_HOME": None}, None),
    "cache is a file": ({"XDG_CACHE_HOME": "small_add.json"}, None),
    "no scratch folder": ({"TMPDIR": "/nonexistent"}, None),
    "locale C": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, None),
    "ascii": ({"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}, None),
    "no columns": ({"TERM": "dumb", "COLUMNS": "0"}, None),
    "a column": ({"COLUMNS": "1", "TZ": ":::/dev/zero"}, None),
    "8 descriptors": ({}, limit(resource.RLIMIT_NOFILE, 8)),
    "16 descriptors": ({}, limit(resource.RLIMIT_NOFILE, 16)),
    "no byte in a file": ({}, limit(resource.RLIMIT_FSIZE, 0)),
    "2 kB in a file": ({}, limit(resource.RLIMIT_FSIZE, 2000)),
    "no stdin": ({}, close(0)),
    "no stdout": ({}, close(1)),
    "no stderr": ({}, close(2)),
    "no streams": ({}, close(0, 1, 2)),
    "folder gone": ({}, leave_folder),
}
RUN = ("bench_run", "small_add.json", "--engine", "numpy", *SAMPLING)
COMMANDS = {
    "run": RUN,
    "run to a file": (*RUN, "-o", "out.json"),
    "run to a file that is not UTF-8": (*RUN, "-o", f"{NOT_UTF8}.json", "--csv", f"{NOT_UTF8}.csv"),
    "label": (*RUN, "-o", "out.json", "--label", NOT_UTF8, "--tag", f"{NOT_UTF8}={NOT_UTF8}"),
    "graph": ("bench_run", f"{NOT_UTF8}.json", *RUN[2:], "-o", "out.json"),
    "golden": (*RUN, "--write-golden", NOT_UTF8),
    "engines": ("bench_run", "engines"),
    "doctor": ("bench_run", "doctor"),
    "describe": ("bench_run", "describe", "small_add.json"),
    "help": ("bench_run", "--help"),
    "compare": ("bench_compare", "none.json", f"{NOT_UTF8}.json"),
    "history": ("bench_compare", "history", "."),
    "help of compare": ("bench_compare", "--help"),
}
READERS = {
    "graph": ("bench_run", "{}", "--engine", "numpy"),
    "--init": (*RUN, "--init", "file:{}"),
    "--config": ("bench_run", "small_add.json", "--config", "{}"),
    "--golden": (*RUN, "--golden", "{}"),
    "--rerun-from": (*RUN, "--rerun-from", "{}"),
    "--miopen-driver": ("bench_run", "--miopen-driver", "{}", *RUN[2:]),
    "merge": ("bench_run", "merge", "{}", "{}", "-o", "out.json"),
    "document": ("bench_compare", "{}", "small_add.json"),
    "--policy": ("bench_compare", "a.json", "b.json", "--policy", "{}"),
    "--events": ("bench_compare", "history", ".", "--events", "{}"),
}
ENDLESS = ("/dev/zero", "pipe")


@pytest.fixture
def ends_well(tmp_path, small_graph):
    """Runs a command in the test's folder: its exit code and what it said."""
    (tmp_path / f"{NOT_UTF8}.json").write_bytes(small_graph.read_bytes())
    os.mkfifo(tmp_path / "pipe")

    def run(words, variables=(), before=None):
        environment = {**os.environ, **dict(variables)}
        paths = [*sys.path, environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))

        def prepare():
            limit(resource.RLIMIT_AS, MEMORY_BYTES)()
            if before is not None:
                before()

        done = subprocess.run(
            [sys.executable, "-m", *map(os.fsencode, words)],
            cwd=tmp_path,
            env={name: value for name, value in environment.items() if value is not None},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=100,
            preexec_fn=prepare,
        )
        assert b"Traceback" not in done.stderr + done.stdout, done.stderr.decode("utf-8", "replace")
        assert done.returncode in (0, 1, 2)
        return done

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("place", "command"), [*product(ENVIRONMENTS, COMMANDS)])
def test_no_environment_ends_a_command_in_a_traceback(ends_well, place, command):
    variables, before = ENVIRONMENTS[place]
    assert ends_well(COMMANDS[command], variables, before).returncode in (0, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "path"), [*product(READERS, ENDLESS)])
def test_what_has_no_end_or_no_beginning_is_no_input(ends_well, reader, path):
    done = ends_well([word.format(path) for word in READERS[reader]])
    assert (1, 1) == (done.returncode, done.stderr.count(b"\n"))


@pytest.mark.long
@pytest.mark.parametrize("command", ["label", "graph"])
def test_names_that_are_not_utf8_are_spelled(ends_well, tmp_path, command):
    done = ends_well(COMMANDS[command])
    assert (0, b"") == (done.returncode, done.stderr)
    assert rb"caf\\udce9" in (tmp_path / "out.json").read_bytes()


@pytest.mark.long
def test_too_few_descriptors_are_one_line(ends_well):
    done = ends_well(COMMANDS["run"], {}, limit(resource.RLIMIT_NOFILE, 8))
    expected = b"bench-run: Too many open files: raise the limit of open files (ulimit -n)\n"
    assert (1, expected) == (done.returncode, done.stderr)


@pytest.mark.parametrize("path", ENDLESS)
def test_devices_and_pipes_by_name_are_not_read(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(path)


def test_a_pipe_that_is_open_is_read():
    reading, writing = os.pipe()
    os.write(writing, b"text")
    os.close(writing)
    assert b"text" == read_regular(f"/dev/fd/{reading}")
    os.close(reading)
