"""A flag of a comparison that nothing reads is told in one line."""

from __future__ import annotations

import numpy as np
import pytest
from bench_schema.files import save

from bench_compare.cli import main
from bench_compare.effect import READERS
from tests.bench_compare.build import case, document, steady

AA = "--aa takes all documents for one build and says its rate of false alarms, nothing else"
SIDES = "--a and --b say what the sides are"
SILENT = {
    "--aa a.json --html p.html": ("--html", AA),
    "--aa a.json --csv t.csv": ("--csv", AA),
    "--aa a.json --json t.json": ("--json", AA),
    "--aa a.json --junit t.xml": ("--junit", AA),
    "--aa a.json --markdown t.md": ("--markdown", AA),
    "--aa a.json --sort name": ("--sort", AA),
    "--aa a.json --filter g": ("--filter", AA),
    "--aa a.json --all": ("--all", AA),
    "--aa a.json --color never": ("--color", AA),
    "--aa a.json --fail-on none": ("--fail-on", AA),
    "--aa a.json --strict": ("--strict", AA),
    "--aa a.json --plotlyjs cdn": ("--plotlyjs", AA),
    "--a a.json --b b.json --group-by engine": ("--group-by", SIDES),
    "--a a.json --b b.json --base b": ("--base", SIDES),
    "a.json b.json --plotlyjs cdn": ("--plotlyjs", "it works with --html"),
    "a.json b.json --csv - --color always": (
        "--color",
        "a report goes to stdout, in place of the table",
    ),
    "a.json b.json -q --sort name": (
        "--sort",
        "--quiet shows no cases, and no report is written",
    ),
}
READ = (
    "a.json b.json --html p.html --plotlyjs cdn --sort name",
    "a.json b.json --color never --all --filter g0",
    "a.json b.json -q --csv t.csv --sort name",
    "--a a.json --b b.json --label x --label y",
    "--aa a.json --threshold 2%",
    "--aa a.json --group-by engine",
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("ab"):
        random = np.random.default_rng(seed)
        cases = [case(f"g{n}", steady(random, 1e6, rounds=4)) for n in range(2)]
        save(tmp_path / f"{name}.json", document(cases, run_id=name))


@pytest.mark.parametrize(("words", "expected"), SILENT.items(), ids=SILENT)
def test_a_flag_without_effect_is_told(files, words, expected, capsys):
    main(words.split())
    flag, why = expected
    lines = [line for line in capsys.readouterr().err.splitlines() if "no effect" in line]
    assert [f"bench-compare: {flag} has no effect: {why}"] == lines


@pytest.mark.parametrize("words", READ)
def test_a_flag_that_is_read_is_no_matter(files, words, capsys):
    main(words.split())
    assert "no effect" not in capsys.readouterr().err


def answer(words, files, capsys):
    """All that a command says and writes, but for what is told of flags."""
    code = main(words)
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if "no effect" not in line]
    return code, out, lines, sorted(path.name for path in files.iterdir())


@pytest.mark.parametrize("words", SILENT)
def test_what_is_said_is_true(files, tmp_path, words, capsys):
    """Without the flag all is the same."""
    flag = SILENT[words][0]
    full = words.split()
    at = full.index(flag)
    takes = flag not in ("--all", "--strict")
    without = full[:at] + full[at + 1 + takes :]
    assert answer(without, tmp_path, capsys) == answer(full, tmp_path, capsys)


def test_every_reader_is_missed_by_a_row_here():
    reasons = {why for _, why in SILENT.values()}
    assert {reader.why_not for reader in READERS} == reasons
