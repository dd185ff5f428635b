"""The command lines of the documents that this project implements, as they are written there."""

from __future__ import annotations

import pytest

from bench_run.commands.run import USAGE
from bench_run.errors import UsageError
from bench_run.options import read_options


def options(*words: str):
    from docopt import docopt

    return read_options(docopt(USAGE, list(words), default_help=False))


@pytest.mark.parametrize(
    ("words", "engine", "a", "b"),
    [
        ("--engine-id 12", ("hipdnn:12",), None, None),
        ("--engine-id -7", ("hipdnn:-7",), None, None),
        ("--engine-id eng1 -e cudnn", ("cudnn:eng1",), None, None),
        ("--engine-id 2 -e hipdnn+x@/p", ("hipdnn:2+x@/p",), None, None),
        ("--AId 1 --BId 2", (), "hipdnn:1", "hipdnn:2"),
        ("--APath /a --AId 1 --BPath /b --BId 2", (), "hipdnn:1@/a", "hipdnn:2@/b"),
        ("--AId 1 --BPath /b --BId 1", (), "hipdnn:1", "hipdnn:1@/b"),
        ("--AId eng1 --BId eng2 -e cudnn", (), "cudnn:eng1", "cudnn:eng2"),
    ],
)
def test_the_flags_of_dnn_benchmarking_say_what_engine_a_and_b_say(words, engine, a, b):
    found = options("g.json", *words.split())
    assert (found.engine, found.a, found.b) == (engine, a, b)


@pytest.mark.parametrize("words", ["g.json", "-g g.json", "--graph g.json", "--graph=g.json"])
def test_a_graph_is_an_argument_or_a_flag(words):
    assert options(*words.split()).graphs == ("g.json",)


def test_the_short_flags_set_iterations_and_warm_up():
    found = options("-g", "a.json", "-w", "3", "-i", "40", "b.json")
    assert (found.graphs, found.warmup, found.iterations) == (("a.json", "b.json"), 3, 40)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--AId 1", "--AId goes with --BId ID: A/B mode needs --AId and --BId"),
        ("--BId 1", "--BId goes with --AId ID: A/B mode needs --AId and --BId"),
        ("--APath /a --BId 1", "--APath goes with --AId ID: A/B mode needs --AId and --BId"),
        ("--AId 1 --BId 2 --a numpy", "--AId and --a: give one or the other"),
        ("--AId 1 --BId 2 --engine-id 3", "--engine-id and --AId: give one or the other"),
        ("--AId= --BId 2", "--AId: expected an engine's number or name, got ''"),
        ("--engine-id a+b", "--engine-id: expected an engine's number or name, got 'a+b'"),
        (
            "--engine-id 1 -e torch:cpu",
            "--engine-id 1: --engine torch:cpu has an id already; give one",
        ),
        ("--AId 1 --BId 2 -e 3", "--AId 1: --engine 3 has an id already; give one"),
        ("--AId 1 --BId 2 -e numpy -e torch", "--AId goes with one --engine, got 2: numpy torch"),
        ("-w -1", "--warmup: expected at least 0, got -1"),
        ("-i many", "--iters: expected a whole number, got 'many'"),
    ],
)
def test_flags_that_do_not_make_sense_say_which_and_why(words, sentence):
    with pytest.raises(UsageError) as caught:
        options("g.json", *words.split())
    assert str(caught.value) == sentence


def test_a_file_of_settings_may_use_these_flags_too(tmp_path):
    file = tmp_path / "bench.toml"
    file.write_text('graph = ["a.json"]\nengine_id = 3\n')
    found = options("--config", str(file))
    assert (found.graphs, found.engine) == (("a.json",), ("hipdnn:3",))
