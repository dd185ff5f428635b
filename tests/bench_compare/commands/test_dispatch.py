"""The first word of the command line names a command; documents of that name need a path."""

from __future__ import annotations

import numpy as np
import pytest
from bench_schema import files

from bench_compare.cli import COMMANDS, main
from tests.bench_compare.build import case, document, on_device, steady


def write(path, seed):
    random = np.random.default_rng(seed)
    files.save(path, document([case("g", on_device(steady(random, 1e6)))], run_id=path.name))


@pytest.mark.parametrize("word", COMMANDS)
def test_a_commands_word_may_be_spelled_out(word, capsys):
    assert main([word, "--help"]) == 0
    assert "Usage:" in capsys.readouterr().out


def test_comparing_is_what_happens_without_a_word(tmp_path, capsys):
    for seed, name in enumerate(("a.json", "b.json")):
        write(tmp_path / name, seed)
    words = [str(tmp_path / name) for name in ("a.json", "b.json")]
    codes = main(words), main(["compare", *words])
    assert (0, 0) == codes


def test_a_folder_named_like_a_command_is_given_with_its_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "compare").mkdir()
    write(tmp_path / "compare" / "a.json", 0)
    write(tmp_path / "b.json", 1)
    assert main(["./compare", "b.json"]) == 0
