"""Nothing that was saved is lost: torn, resumed, sealed and killed journals."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from bench_schema import codec, files, journal
from bench_schema.errors import (
    DocumentError,
    SchemaError,
    UnreadableError,
    UnwritableError,
)
from bench_schema.journal import Journal, line, read_journal, seal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NOW = "2026-03-01T10:00:00+01:00"


@pytest.fixture(scope="session")
def header(stored):
    run = replace(stored.run, finished=None, complete=False)
    return replace(stored, run=run, cases=())


def visits(case):
    """The parts of a case as a run saves them: one round each."""
    if len(case.rounds) < 2:
        return [case]
    return [
        replace(
            case,
            rounds=(round_,),
            init={name: values[index : index + 1] for name, values in case.init.items()},
            summary={},
            achieved=None,
        )
        for index, round_ in enumerate(case.rounds)
    ]


def write(path, header, cases):
    """Interleave the visits as a run does: first rounds of all cases, then second ones."""
    parts = [visits(case) for case in cases]
    with Journal.create(path, header) as out:
        for number in range(max(map(len, parts))):
            for part in parts:
                if number < len(part):
                    out.append_case(part[number])


@pytest.fixture
def path(tmp_path, header, stored):
    path = journal.journal_path(tmp_path / "run.json")
    write(path, header, stored.cases)
    return path


def without_validation(document):
    """The parts repeat the validation of the whole case, so its counts differ."""
    cases = tuple(replace(case, validation=None) for case in document.cases)
    return codec.encode(replace(document, cases=cases))


def plain(document):
    return json.loads(codec.encode(document))


def test_the_journal_lies_beside_its_output(tmp_path):
    assert journal.journal_path("a/run.json.zst").as_posix() == "a/run.json.zst.journal"


def test_a_journal_gives_the_document_that_was_measured(path, stored):
    found = read_journal(path)
    sealed = replace(found, run=stored.run)
    assert without_validation(sealed) == without_validation(stored)


def test_an_unfinished_journal_is_read_like_a_document(path, stored):
    found = files.read(path)
    assert not found.run.complete
    assert [case.id for case in found.cases] == [case.id for case in stored.cases]


def test_a_journal_is_told_by_content_also_when_packed(path, tmp_path):
    import gzip

    (tmp_path / "x").write_bytes(gzip.compress(path.read_bytes()))
    assert codec.encode(files.read(tmp_path / "x")) == codec.encode(files.read(path))


@pytest.mark.slow
def test_torn_at_any_byte_a_journal_loses_the_torn_line_only(tmp_path, header, stored):
    write(tmp_path / "j", header, stored.cases[1:])
    data = (tmp_path / "j").read_bytes()
    for size in range(data.index(b"\n") + 1, len(data) + 1):
        found = journal.document_of(data[:size], "x")
        whole = data[: data.rfind(b"\n", 0, size) + 1]
        assert len(found.cases) == (b"\n" + whole).count(b'\n{"case"')


def test_torn_within_its_first_line_a_journal_holds_nothing(path):
    data = path.read_bytes()
    for size in range(data.index(b"\n") + 1):
        with pytest.raises(UnreadableError, match="cut off within its first line"):
            journal.document_of(data[:size], "x")


@pytest.mark.parametrize("lost", [1, 2, 100, 700])
def test_a_torn_journal_is_reopened_and_goes_on(path, stored, lost):
    data = path.read_bytes()
    path.write_bytes(data[:-lost])
    with Journal.reopen(path) as out:
        out.append_case(visits(stored.cases[0])[-1])
    assert path.read_bytes() == data


def test_a_journal_torn_in_its_first_line_cannot_be_reopened(path):
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UnreadableError, match=r"run\.json\.journal: not a journal, or cut off"):
        Journal.reopen(path)


def test_a_journal_begins_with_all_cases_that_are_known_or_not_at_all(tmp_path, header, stored):
    with pytest.raises(SchemaError, match="new case"):
        Journal.create(tmp_path / "j", header, [*stored.cases, replace(stored.cases[0], id="")])
    assert os.listdir(tmp_path) == []
    Journal.create(tmp_path / "j", header, stored.cases).close()
    assert [case.id for case in read_journal(tmp_path / "j").cases] == [c.id for c in stored.cases]


def test_an_existing_journal_is_not_overwritten(path, header):
    before = path.read_bytes()
    with pytest.raises(UnwritableError, match="an unfinished run is there already"):
        Journal.create(path, header)
    assert path.read_bytes() == before


def test_a_header_has_no_cases(tmp_path, stored):
    with pytest.raises(ValueError, match="the header of a journal has no cases"):
        Journal.create(tmp_path / "j", stored)
    assert os.listdir(tmp_path) == []


def test_a_journal_is_unfinished_whatever_its_header_says(tmp_path, stored):
    Journal.create(tmp_path / "j", replace(stored, cases=())).close()
    run = read_journal(tmp_path / "j").run
    assert (run.complete, run.finished) == (False, None)


def test_a_case_that_could_not_be_read_back_is_not_saved(path, stored):
    wrong = replace(stored.cases[0].outcome, status="fine")
    before = path.read_bytes()
    with (
        Journal.reopen(path) as out,
        pytest.raises(SchemaError, match=r"new case: outcome\.status: expected one of"),
    ):
        out.append_case(replace(stored.cases[0], outcome=wrong))
    assert path.read_bytes() == before


def test_a_disk_that_takes_half_of_a_line_leaves_the_journal_whole(path, stored):
    resource = pytest.importorskip("resource", reason="sizes of files are limited on Unix only")
    before = path.read_bytes()
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal.reopen(path) as out:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 500, hard))  # half of a line
        try:
            with pytest.raises(UnwritableError, match="cannot be written: File too large"):
                out.append_case(stored.cases[0])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        assert path.read_bytes() == before
        out.append_case(stored.cases[0])
    assert path.read_bytes().count(b"\n{") == before.count(b"\n{") + 1


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_damaged_line_keeps_all_others_and_is_named(path, number):
    lines = lines_of(path)
    whole = [*lines[:number], *lines[number + 1 :]]
    lines[number] = lines[number].replace(b"e", b"f", 1)
    kept = journal.document_of(b"".join(whole), "x")
    found = journal.document_of(b"".join(lines), "x")
    assert found.run.notes[len(kept.run.notes) :] == (
        f"line {number + 1} of the journal ({len(lines[number]) - 1} bytes) is damaged and was "
        "left out",
    )
    assert codec.encode(replace(found, run=kept.run)) == codec.encode(kept)


@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_byte_anywhere_costs_one_record_at_most(small_journal, data):
    place = data.draw(st.integers(small_journal.index(b"\n") + 1, len(small_journal) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != small_journal[place]))
    before = journal.document_of(small_journal, "x")
    changed = small_journal[:place] + bytes([byte]) + small_journal[place + 1 :]
    after = journal.document_of(changed, "x")
    lost = {case.id for case in before.cases} - {case.id for case in after.cases}
    assert len(lost) <= 1
    assert len(after.run.notes) > len(before.run.notes)


@pytest.fixture(scope="session")
def small_journal(tmp_path_factory, header, stored):
    path = tmp_path_factory.mktemp("journal") / "j"
    write(path, header, stored.cases[1:])
    return path.read_bytes()


WRONG_LINES = {
    "unknown field": (line("graph", b"{}"), "line 9: expected an object with one field of journal"),
    "wrong case": (line("case", b'{"id":"x"}'), "line 9: the document: lacks"),
    "second header": (line("journal", b"{}"), "a second header"),
}


@pytest.mark.parametrize(("text", "sentence"), WRONG_LINES.values(), ids=WRONG_LINES)
def test_a_line_that_is_whole_but_wrong_is_named_by_number(path, text, sentence):
    lines = lines_of(path)[:8]
    path.write_bytes(b"".join(lines) + text)
    with pytest.raises(SchemaError, match=sentence):
        read_journal(path)


def test_sealing_writes_the_document_and_removes_the_journal(path, tmp_path):
    expected = read_journal(path)
    sealed = seal(path, tmp_path / "run.json", finished=NOW)
    assert os.listdir(tmp_path) == ["run.json"]
    assert (sealed.run.finished, sealed.run.complete) == (NOW, True)
    found = files.read(tmp_path / "run.json")
    assert codec.encode(found) == codec.encode(sealed)
    assert codec.encode(replace(found, run=expected.run)) == codec.encode(expected)


def test_a_seal_that_fails_keeps_the_journal(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(UnwritableError, match="cannot be written"):
        seal(path, tmp_path / "gone" / "run.json", finished=NOW)
    assert path.read_bytes() == before


def test_an_interrupted_run_is_sealed_as_incomplete(path, tmp_path):
    assert not seal(path, tmp_path / "run.json", finished=NOW, complete=False).run.complete


def test_a_damaged_header_is_said(path):
    path.write_bytes(path.read_bytes().replace(b'"host":', b'"gost":', 1))
    with pytest.raises(UnreadableError, match="line 1: the header is damaged"):
        read_journal(path)


def test_a_journal_of_an_older_version_is_refused_with_what_to_do(path):
    header = lines_of(path)[0].replace(b'"schema_version":3', b'"schema_version":2')
    path.write_bytes(line("journal", header[len(b'{"journal":') : header.rindex(b',"crc32"')]))
    with pytest.raises(UnreadableError, match="finish it with the bench-run that began it"):
        read_journal(path)


def test_a_journal_of_the_future_is_refused(path):
    header = lines_of(path)[0].replace(b'"schema_version":3', b'"schema_version":7')
    text = header[len(b'{"journal":') : header.rindex(b',"crc32"')]
    path.write_bytes(line("journal", text))
    with pytest.raises(DocumentError, match=r"line 1: follows version 7 of the schema"):
        read_journal(path)


WRITER = """
import sys
from dataclasses import replace
from bench_schema import codec, files
from bench_schema.journal import Journal
stored = files.read(sys.argv[1])
header = replace(stored, cases=(), run=replace(stored.run, complete=False, finished=None))
with Journal.create(sys.argv[2], header) as out:
    for number in range(100_000):
        out.append_case(replace(stored.cases[1], id=f"case {number}"))
        print(number, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05])
def test_a_killed_writer_loses_nothing_that_it_had_saved(stored_path, tmp_path, delay):
    command = [sys.executable, "-c", WRITER, str(stored_path), str(tmp_path / "j")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        writer.stdout.readline()
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        announced = [0, *(int(line) for line in writer.stdout.read().splitlines() if line)]
    ids = [case.id for case in read_journal(tmp_path / "j").cases]
    assert ids[: len(announced)] == [f"case {number}" for number in range(len(announced))]
    assert len(ids) - len(announced) in (0, 1)


def test_the_cost_of_saving_does_not_grow_with_what_was_saved(tmp_path, header, stored):
    with Journal.create(tmp_path / "j", header) as out:
        sizes = []
        for number in range(50):
            before = os.path.getsize(tmp_path / "j")
            out.append_case(replace(stored.cases[0], id=f"{number:02d}"))
            sizes.append(os.path.getsize(tmp_path / "j") - before)
    assert len(set(sizes[1:])) == 1
