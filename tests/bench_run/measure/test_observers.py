"""``--observer FILE.py``: own numbers, from the rounds to the comparison and its page."""

from __future__ import annotations

import json

import pytest

OBSERVER = """
HIGHER = {"hit_ratio"}


class Observer:
    def before_round(self, plan):
        self.blocks = 0

    def after_sample_block(self, plan):
        self.blocks += 1

    def results(self):
        return {"hit_ratio": SHARE, "seen_blocks": self.blocks}
"""
QUICK = ("--engine", "numpy", "--rounds", "3", "--iters", "9")
TWO = ("--op", "relu: dims=4x8", "--op", "exp: dims=4x8")


def write(folder, share, name="mine.py"):
    (folder / name).write_text(OBSERVER.replace("SHARE", str(share)))
    return name


@pytest.fixture
def observed(bench_run_command, tmp_path):
    """Two documents whose observer counted 0.5 and 0.25."""
    for name, share in (("a.json", 0.5), ("b.json", 0.25)):
        write(tmp_path, share)
        done = bench_run_command(*TWO, *QUICK, "--observer", "mine.py", "-o", name)
        assert 0 == done.returncode, done.stderr
    return tmp_path


def test_numbers_stand_in_each_round_of_the_document(observed):
    document = json.loads((observed / "a.json").read_bytes())
    for case in document["cases"]:
        for one in case["rounds"]:
            assert one["extra"] == {
                "hit_ratio": {"value": 0.5, "better": "higher"},
                "seen_blocks": {"value": 1.0, "better": "lower"},
            }


def test_numbers_stand_in_tables(bench_run_command, tmp_path):
    write(tmp_path, 0.5)
    for words in (TWO, TWO[:2]):
        done = bench_run_command(*words, *QUICK, "--observer", "mine.py")
        assert "hit_ratio" in done.stdout
        assert "0.5" in done.stdout


def test_a_table_with_numbers_fits_into_80_columns(bench_run_command, tmp_path):
    write(tmp_path, 0.5)
    done = bench_run_command(*TWO, *QUICK, "--observer", "mine.py")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_many_and_large_numbers_fit_as_well(bench_run_command, tmp_path):
    body = "return {f'number_{i}': 1e308 for i in range(30)}"
    (tmp_path / "mine.py").write_text(f"class Observer:\n    def results(self):\n        {body}\n")
    done = bench_run_command(*TWO, *QUICK, "--observer", "mine.py")
    assert "number_29 1e+308" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_an_observer_may_have_its_methods_from_another_class(bench_run_command, tmp_path):
    text = "class Base:\n    def results(self):\n        return {'a': 7}\n"
    (tmp_path / "mine.py").write_text(f"{text}class Observer(Base):\n    pass\n")
    assert "7" in bench_run_command(*TWO[:2], *QUICK, "--observer", "mine.py").stdout.split()


def test_a_comparison_says_what_became_worse_and_its_page_has_it(shell, observed):
    words = ("--metric", "extra:hit_ratio", "--fail-on", "extra:hit_ratio", "--html", "d.html")
    done = shell(["bench-compare", "a.json", "b.json", *words], observed)
    assert 2 == done.returncode, done.stdout
    assert "hit_ratio, geometric mean of 2 cases: 2× less" in done.stdout
    assert "hit_ratio" in (observed / "d.html").read_text()


def test_all_metrics_hold_own_ones(shell, observed):
    found = shell(
        ["bench-compare", "a.json", "b.json", "--json", "-", "--fail-on", "none"], observed
    )
    case = json.loads(found.stdout)["cases"][0]
    assert {"extra:hit_ratio", "extra:seen_blocks"} <= case["metrics"].keys()
    assert "worse" == case["metrics"]["extra:hit_ratio"]["verdict"]


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("1 / 0", "mine.py: results: division by zero"),
        ("return {'a b': 1.0}", "mine.py: results: expected numbers by name"),
        ("return {'a': float('nan')}", "mine.py: results: expected numbers by name"),
        ("return {'a': 'text'}", "mine.py: results: expected numbers by name"),
        ("return None", "mine.py: results: 'NoneType' object is not iterable"),
        ("raise SystemExit(3)", "mine.py: results: 3"),
    ],
)
def test_an_observer_that_fails_costs_its_numbers_and_is_said(
    bench_run_command, tmp_path, body, note
):
    text = f"class Observer:\n    def results(self):\n        {body}\n"
    (tmp_path / "mine.py").write_text(text)
    done = bench_run_command(*TWO[:2], *QUICK, "--observer", "mine.py", "-v")
    assert 0 == done.returncode
    assert f"--observer {note}" in done.stdout
    assert f"--observer {note}" in done.stderr.splitlines()[-1]


def test_a_number_of_numpy_is_a_number(bench_run_command, tmp_path):
    numbers = "dict(a=np.float32(0.5), b=np.int64(3))"
    text = (
        f"import numpy as np\nclass Observer:\n    def results(self):\n        return {numbers}\n"
    )
    (tmp_path / "mine.py").write_text(text)
    done = bench_run_command(*TWO[:2], *QUICK, "--observer", "mine.py")
    assert ["0.5", "3"] == [
        line.split()[-1] for line in done.stdout.splitlines() if line.startswith(("a:", "b:"))
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "--observer mine.py: No such file or directory"),
        ("x = 1", "--observer mine.py: it has no class Observer with a method results()"),
        ("class Observer: pass", "it has no class Observer with a method results()"),
        ("class Observer(:", "--observer mine.py: "),
    ],
)
def test_a_file_that_is_no_observer_is_refused_before_anything_runs(
    bench_run_command, tmp_path, text, words
):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    done = bench_run_command(*TWO[:2], *QUICK, "--observer", "mine.py")
    assert 1 == done.returncode
    assert words in done.stderr
    assert 1 == len(done.stderr.splitlines())
