"""The command as people use it: archives of files, exit codes, the index, the events file."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import xml.etree.ElementTree as ET

import jsonschema
import numpy as np
import pytest
from bench_schema import files

from bench_compare.cli import main
from bench_compare.report import json_text
from tests.bench_compare.history import make

STEP = ((1, 14, 1.08), (2, 14, 1.05))
WHY = (14, {"environment": {"MIOPEN_FIND": "1"}, "plan": {"engine id": "57"}})


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive") / "a"
    return make.archive(folder, steps=STEP, change=WHY)


@pytest.fixture
def archive(original, tmp_path):
    return shutil.copytree(original, tmp_path / "archive")


def told(capsys, *words):
    """Exit code, stdout and stderr of the command."""
    code = main(["history", *map(str, words)])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def record(capsys, *words):
    code, out, _ = told(capsys, *words, "--json", "-")
    return code, json.loads(out)


def events(capsys, *words):
    return [(e["build"], e["direction"]) for e in record(capsys, *words)[1]["events"]]


def accept(tmp_path, text):
    path = tmp_path / "events.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_new_regression_fails_the_command(archive, capsys):
    code, out, _ = told(capsys, archive)
    assert code == 2
    assert "graph_001, graph_002 slower with 2026-01-15" in out


def test_an_archive_of_one_build_again_and_again_passes(tmp_path, capsys):
    code, out, _ = told(capsys, make.archive(tmp_path / "same"))
    assert (0, "no new regression") == (code, out.splitlines()[0])


def test_what_differs_is_said(archive, capsys):
    causes = record(capsys, archive)[1]["events"][0]["causes"]
    assert [
        "plan: engine id None → 57 in 2 of 2 cases",
        "environment MIOPEN_FIND: none → 1",
    ] == causes


def test_every_line_fits_the_terminal_but_command_lines(archive, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = told(capsys, archive)[1]
    *lines, answer = out.splitlines()
    assert answer.startswith("FAIL: ")  # one line, for programs
    assert [] == [line for line in lines if len(line) > 80 and "bench-" not in line]


@pytest.mark.parametrize("flag", ["--fail-on=none", "--since=2026-01-20"])
def test_what_is_not_asked_for_does_not_gate(archive, flag, capsys):
    assert 0 == told(capsys, archive, flag)[0]


def test_an_accepted_step_does_not_gate(archive, tmp_path, capsys):
    path = accept(tmp_path, '[[event]]\ndate = 2026-01-15\nkind = "expected"\nnote = "tiles"\n')
    code, found = record(capsys, archive, "--events", path)
    assert (0, "tiles") == (code, found["events"][0]["acknowledged"]["note"])


def test_a_case_that_was_not_accepted_still_gates(archive, tmp_path, capsys):
    path = accept(tmp_path, '[[event]]\ndate = 2026-01-15\ncases = ["graph_001"]\n')
    assert 2 == told(capsys, archive, "--events", path)[0]


def test_an_accepted_step_that_is_not_there_is_said(archive, tmp_path, capsys):
    path = accept(tmp_path, "[[event]]\ndate = 2026-01-03\n")
    assert "no event of the archive is there" in told(capsys, archive, "--events", path)[2]


def test_appended_documents_do_not_move_an_accepted_step(tmp_path, capsys):
    """The step of +5 % comes between the 12th and the 13th, at a noise of 2 %."""
    folder = make.archive(tmp_path / "a", builds=19, steps=((1, 12, 1.05),), noise=0.02)
    (event,) = record(capsys, folder)[1]["events"]
    path = accept(tmp_path, f"[[event]]\ndate = {make.started(event['build'])[:10]}\n")
    random = np.random.default_rng(9)
    for number in range(19, 29):
        levels = 1e6 * np.exp(random.normal(0, 0.02, 6)) * [1, 1.05, 1, 1, 1, 1]
        files.save(folder / f"d{number:03d}.json", make.one(number, list(levels), random=random))
        code, found = record(capsys, folder, "--events", path)
        assert (0, event["build"]) == (code, found["events"][-1]["build"])


RANGES = [
    ("2026-01-10", "2026-12-31", 0),  # beyond the newest build
    ("2025-01-10", "2026-01-15", 0),
    ("2026-01-16", "2026-12-31", 2),
    ("2025-01-01", "2026-01-14", 2),
]


@pytest.mark.parametrize(("first", "last", "code"), RANGES)
def test_a_range_of_days_holds_the_builds_within_it(archive, tmp_path, first, last, code, capsys):
    path = accept(tmp_path, f"[[event]]\nfrom = {first}\nto = {last}\n")
    assert code == told(capsys, archive, "--events", path)[0]


def test_a_range_ends_with_its_last_day_not_with_the_next_build(tmp_path, capsys):
    folder = make.archive(tmp_path / "a", steps=((1, 14, 1.08),))
    (folder / "d012.json").unlink()
    (folder / "d013.json").unlink()  # no build on the 13th and 14th; the step is on the 15th
    for last, code in (("2026-01-14", 2), ("2026-01-15", 0)):
        path = accept(tmp_path, f"[[event]]\nfrom = 2026-01-05\nto = {last}\n")
        assert code == told(capsys, folder, "--events", path)[0]


def test_a_range_without_a_build_is_said(tmp_path, capsys):
    folder = make.archive(tmp_path / "a", builds=8)
    (folder / "d004.json").unlink()
    (folder / "d005.json").unlink()
    path = accept(tmp_path, "[[event]]\nfrom = 2026-01-05\nto = 2026-01-06\n")
    code, _, err = told(capsys, folder, "--events", path)
    assert (0, True) == (code, "no build from 2026-01-05 to 2026-01-06" in err)


def test_an_instant_is_of_its_day_in_utc(tmp_path, capsys):
    folder = make.archive(tmp_path / "a", builds=24, steps=[(0, 14, 1.08)])
    path = accept(tmp_path, "[[event]]\ndate = 2026-01-14T22:00:00-05:00\n")
    assert told(capsys, folder, "--events", path)[0] == 0


EVENTS = [
    ("nonsense", "not TOML"),
    (f"a = {'[' * 5000}{']' * 5000}", "not TOML: "),
    ("[[events]]\n", "no key 'events'"),
    ("[[event]]\n", "either build, or date, or from and to"),
    ('[[event]]\ndate = 2026-01-15\nkind = "odd"\n', "choose from expected"),
    ("[[event]]\ndate = 2026-01-15\nsize = 3\n", "no key 'size'"),
    ("[[event]]\ndate = 2026-01-15\ncases = 3\n", "a list of texts"),
    ("[[event]]\ndate = 5\n", "a build's name or a date is expected"),
    ("[[event]]\nfrom = 2026-01-15\nto = 2026-01-03\n", "comes before"),
    ("event = 3\n", "events are tables"),
]


@pytest.mark.parametrize(("text", "message"), EVENTS)
def test_a_bad_events_file_is_one_line(archive, tmp_path, text, message, capsys):
    code, _, err = told(capsys, archive, "--events", accept(tmp_path, text))
    assert (1, 1) == (code, len(err.splitlines()))
    assert message in err


def test_a_build_that_nobody_knows_is_said(archive, tmp_path, capsys):
    path = accept(tmp_path, '[[event]]\nbuild = "v9"\n')
    code, _, err = told(capsys, archive, "--events", path)
    assert code == 2
    assert "no build or day 'v9' in the archive" in err


USAGE = [
    (("--by", "moon"), "--by: no order 'moon'"),
    (("--by", "tag:branch"), "no document has one"),
    (("--metric", "speed"), "--metric: no metric 'speed'"),
    (("--fail-on", "all"), "choose from new-regression"),
    (("--threshold", "much"), "--threshold"),
    (("--next", "-1"), "--next"),
    (("--since", "v9"), "--since: no build or day 'v9'"),
    (("--filter", "nothing like it"), "no case fits"),
    (("--repo", "."), "--repo comes with --by commit"),
    (("--events", "nowhere.toml"), "No such file"),
    (("--json", "-", "--junit", "-"), "only one format"),
    (("--json", "no/such/folder/x.json"), "cannot be written"),
]


@pytest.mark.parametrize(("words", "message"), USAGE)
def test_bad_words_are_one_line(archive, words, message, capsys):
    code, _, err = told(capsys, archive, *words)
    assert (1, 1) == (code, len(err.splitlines()))
    assert message in err


def test_a_folder_without_documents_is_one_line(tmp_path, capsys):
    code, out, err = told(capsys, tmp_path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"{tmp_path}: no results in this folder" in err


@pytest.mark.parametrize("pattern", ["nowhere", "*.nothing"])
def test_a_place_without_documents_is_named(pattern, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _, err = told(capsys, pattern)
    assert code == 1
    assert f"{pattern}: no " in err


def test_a_journal_next_to_its_document_is_left_out(tmp_path, capsys):
    folder = make.archive(tmp_path / "a", builds=6, cases=2)
    plain = told(capsys, folder)
    some = sorted(folder.glob("*.json"))[0]
    (folder / f"{some.name}.journal").write_text("{}")
    assert told(capsys, folder) == plain


@pytest.mark.parametrize("builds", [1, 3])
def test_too_few_documents_are_no_answer(tmp_path, builds, capsys):
    code, out, err = told(capsys, make.archive(tmp_path / "a", builds=builds))
    assert (code, err) == (1, "")
    assert "a history needs 4" in out


def test_the_order_of_files_and_copies_change_nothing(archive, tmp_path, capsys):
    plain = record(capsys, archive)[1]["events"]
    paths = sorted(archive.glob("*.json"))
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for number, path in enumerate(reversed(paths)):
        shutil.copy(path, mixed / f"x{number:03d}.json")
        if number % 3 == 0:
            shutil.copy(path, mixed / f"y{number:03d}.json")
    again = record(capsys, mixed)[1]["events"]
    for event in (*plain, *again):
        event.pop("suggestions")
    assert plain == again


def test_copies_of_a_run_are_named(archive, capsys):
    shutil.copy(archive / "d003.json", archive / "again.json")
    assert "the same run as" in told(capsys, archive)[2]


def test_damaged_documents_are_named_and_skipped(archive, capsys):
    (archive / "cut.json").write_text((archive / "d003.json").read_text()[:900])
    (archive / "other.json").write_text("[1, 2]")
    code, _out, err = told(capsys, archive)
    assert (2, 2) == (code, err.count("passed over"))
    assert "cut.json" in err


def test_the_index_comes_back_when_it_is_deleted(archive, capsys):
    first = told(capsys, archive)[1]
    (archive / "history.sqlite").unlink()
    assert first == told(capsys, archive)[1]
    assert (archive / "history.sqlite").exists()


def test_a_damaged_index_is_made_anew(archive, capsys):
    first = told(capsys, archive)[1]
    index = archive / "history.sqlite"
    data = bytearray(index.read_bytes())
    data[4096:40960] = os.urandom(36864)
    index.write_bytes(bytes(data))
    _, out, err = told(capsys, archive)
    assert first == out
    assert "made anew" in err


def test_a_file_that_is_no_index_is_left_alone(archive, capsys):
    index = archive / "history.sqlite"
    index.write_text("my notes")
    code, _, err = told(capsys, archive)
    assert (2, "my notes") == (code, index.read_text())
    assert "left alone" in err


def test_somebody_elses_database_is_left_alone(archive, capsys):
    with sqlite3.connect(archive / "history.sqlite") as other:
        other.execute("PRAGMA application_id = 7")
        other.execute("CREATE TABLE mine (x)")
    assert "left alone" in told(capsys, archive)[2]


def test_documents_that_changed_or_went_are_read_again_or_forgotten(archive, capsys):
    told(capsys, archive)
    for path in sorted(archive.glob("*.json"))[:14]:
        path.unlink()
    assert [] == events(capsys, archive)


def test_a_step_is_told_by_its_tables(archive, capsys):
    told(capsys, archive)
    with sqlite3.connect(archive / "history.sqlite") as index:
        count = index.execute(
            "SELECT count(*) FROM level JOIN document USING (path) "
            "WHERE metric = 'e2e_ns' AND engine = 'numpy' AND log_mean > 13"
        ).fetchone()
    assert (24 * 6,) == count


@pytest.mark.long
def test_the_record_satisfies_its_schema(archive, capsys):
    found = record(capsys, archive)[1]
    jsonschema.Draft202012Validator.check_schema(json_text.schema("history"))
    jsonschema.validate(found, json_text.schema("history"))


def test_a_rerun_finds_what_it_needs(archive, capsys):
    found = record(capsys, archive)[1]["rerun"]
    assert [("graphs/graph_001.json", "numpy"), ("graphs/graph_002.json", "numpy")] == [
        (one["path"], one["engine"]) for one in found
    ]


def test_junit_fails_the_series_that_are_slower(archive, capsys):
    root = ET.fromstring(told(capsys, archive, "--junit", "-")[1])
    failed = [test.get("name").split()[0] for test in root.iter("testcase") if len(test) > 1]
    assert ["graph_001", "graph_002"] == failed


def test_documents_of_one_label_are_one_build(tmp_path, capsys):
    random = np.random.default_rng(3)
    made = [
        make.one(n, [1e6 * (1.2 if n >= 10 else 1)], random=random, label=f"v{n // 2}")
        for n in range(12)
    ]
    found = record(capsys, make.write(tmp_path / "a", made), "--by", "label")[1]
    assert (6, [5]) == (len(found["builds"]), [event["build"] for event in found["events"]])


def test_builds_measured_again_later_join_their_build(tmp_path, capsys):
    random = np.random.default_rng(3)
    made = [make.one(n, [1e6], random=random, tags={"commit": f"c{n % 8}"}) for n in range(12)]
    found = record(capsys, make.write(tmp_path / "a", made), "--by", "commit")[1]
    assert [2, 2, 2, 2, 1, 1, 1, 1] == [len(build["documents"]) for build in found["builds"]]


@pytest.mark.parametrize(("factor", "codes"), [(1.1, (0, 1)), (1.22, (1, 1))])
def test_a_newest_document_that_stands_alone_is_unclear(tmp_path, factor, codes, capsys):
    """From ×1.2 on there is no answer without a repeat; documents differ by 2 %."""
    folder = make.archive(tmp_path / "a", steps=((3, 23, factor),), noise=0.02)
    code, found = record(capsys, folder)
    assert (codes[0], ["s0004"]) == (code, [one["series"] for one in found["unclear"]])
    assert "--rerun-from" in found["suggestions"][0]["command"]
    assert codes[1] == told(capsys, folder, "--fail-on", "unclear")[0]


STATES = [("failed", "broken"), ("unsupported", "unsupported"), (None, "removed")]


@pytest.mark.parametrize(("level", "kind"), STATES)
def test_a_case_that_went_is_a_regression(tmp_path, level, kind, capsys):
    random = np.random.default_rng(3)
    made = [make.one(n, [1e6, 1e6, level if n >= 9 else 1e6], random=random) for n in range(12)]
    code, found = record(capsys, make.write(tmp_path / "a", made))
    assert (2, [(kind, 9)]) == (code, [(e["kind"], e["build"]) for e in found["events"]])


def test_another_timer_is_another_series(tmp_path, capsys):
    random = np.random.default_rng(3)
    made = [
        make.one(
            n,
            [1e6 * (2 if n >= 6 else 1)] * 2,
            random=random,
            settings={"cache": "cold" if n >= 6 else "hot"},
        )
        for n in range(12)
    ]
    code, found = record(capsys, make.write(tmp_path / "a", made))
    assert (0, {"benchmark changed"}) == (code, {event["kind"] for event in found["events"]})


def test_another_host_is_no_step(tmp_path, capsys):
    random = np.random.default_rng(3)
    made = [
        make.one(
            n, [1e6 * (1.3 if n >= 6 else 1)] * 3, random=random, host="new" if n >= 6 else "old"
        )
        for n in range(14)
    ]
    assert [] == events(capsys, make.write(tmp_path / "a", made))
