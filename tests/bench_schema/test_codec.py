"""Text and files to documents and back, and what happens with those that cannot be read."""

import gzip
import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import orjson
import pytest
from bench_schema import codec, files, packing
from bench_schema.document import spell, unspell
from bench_schema.errors import (
    DocumentError,
    FutureVersionError,
    NotJsonError,
    SchemaError,
    UnreadableError,
    UnwritableError,
)
from bench_schema.packing import zstd_module
from hypothesis import given
from hypothesis import strategies as st

ROUND = ("cases", 0, "rounds", 0)
SERIES = (*ROUND, "series")


def with_samples(document, samples, name="device_ns"):
    """The document with one series of its first round replaced."""
    case = document.cases[0]
    first = replace(case.rounds[0], series={name: samples})
    return replace(document, cases=(replace(case, rounds=(first, *case.rounds[1:])),))


def samples_of(document, name="device_ns"):
    return document.cases[0].rounds[0].series[name]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.json.zst", "no-ending"])
def test_what_is_saved_is_read_back(stored, tmp_path, name):
    files.save(tmp_path / name, stored)
    assert codec.encode(stored) == codec.encode(files.read(tmp_path / name))


@pytest.mark.parametrize(("ending", "magic"), [("gz", b"\x1f\x8b"), ("zst", b"\x28\xb5\x2f\xfd")])
def test_the_ending_chooses_the_packing(stored, tmp_path, ending, magic):
    path = tmp_path / f"a.json.{ending}"
    files.save(path, stored)
    assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_packing_is_told_by_content_not_by_name(stored, tmp_path, ending):
    files.save(tmp_path / f"a.{ending}", stored)
    path = (tmp_path / f"a.{ending}").rename(tmp_path / "b.json")
    assert files.read(path).run == stored.run


@pytest.mark.parametrize("ending", ["json", "gz", "zst"])
@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_cut_off_file_is_one_sentence(stored, tmp_path, ending, share):
    path = tmp_path / f"a.{ending}"
    files.save(path, stored)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UnreadableError, match="the file is cut off") as caught:
        files.read(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_damage_inside_of_a_packed_file_is_an_error(stored, tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    files.save(path, stored)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(DocumentError, match=r"a\.(gz|zst)"):
        files.read(path)


UNREADABLE = {
    "empty": (b"", UnreadableError, "the file is empty"),
    "only space": (b" \n", UnreadableError, "the file is empty"),
    "not JSON": (b'{"a": nonsense}', NotJsonError, r"not JSON: .* \(line 1, column 7\)"),
    "NaN": (b'{"schema_version": NaN}', NotJsonError, "not JSON"),
    "binary": (bytes(range(128, 200)), NotJsonError, "not JSON"),
    "a list": (b"[1, 2]", SchemaError, "JSON, but not a benchmark result: no field 'schema_v"),
    "other JSON": (b'{"nodes": []}', SchemaError, "JSON, but not a benchmark result"),
    "version as text": (b'{"schema_version": "1"}', SchemaError, "expected an integer from 1"),
    "version true": (b'{"schema_version": true}', SchemaError, "found True"),
    "version 0": (b'{"schema_version": 0}', SchemaError, "found 0"),
    "future": (
        b'{"schema_version": 4}',
        FutureVersionError,
        "follows version 4 .* up to 3: update",
    ),
    "nothing else": (b'{"schema_version": 1}', SchemaError, 'lacks "run", "machine", "engines"'),
}


@pytest.mark.parametrize(("data", "kind", "sentence"), UNREADABLE.values(), ids=UNREADABLE)
def test_every_unreadable_text_has_its_sentence(tmp_path, data, kind, sentence):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(kind, match=sentence) as caught:
        files.read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UnreadableError, match=r"gone\.json: cannot be read: No such file"):
        files.read(tmp_path / "gone.json")


def test_what_an_unfinished_run_left_is_named(tmp_path):
    (tmp_path / "run.json.journal").write_text("")
    with pytest.raises(UnreadableError, match=r"No such .*; an unfinished run left .*\.journal$"):
        files.read(tmp_path / "run.json")


def test_a_folder_is_no_document(tmp_path):
    with pytest.raises(UnreadableError, match="cannot be read: Is a directory"):
        files.read(tmp_path)


WRONG = {
    "wrong kind": ((*ROUND, "pid"), "12", 'expected integer, found "12"'),
    "too small": ((*ROUND, "pid"), -1, "expected at least 0, found -1"),
    "true is no number": ((*SERIES, "e2e_ns", 3), True, "expected integer, found true"),
    "null is no sample": ((*SERIES, "e2e_ns", 3), None, "expected integer, found null"),
    "half a nanosecond": ((*SERIES, "e2e_ns", 3), 1.5, "expected integer, found 1.5"),
    "negative time": ((*SERIES, "e2e_ns", 3), -1, "expected at least 0, found -1"),
    "not exact": ((*SERIES, "device_ns", 3), 2**53, "expected at most 9007199254740991, found"),
    "beyond 64 bits": ((*SERIES, "device_ns", 3), 2**70, "expected at most 9007199254740991"),
    "status": (("cases", 0, "outcome", "status"), "ok", 'one of "completed", "unsupported"'),
    "instant": (("run", "started"), "yesterday", 'expected text like .* found "yesterday"'),
    "no key": (("engines", 0, "key"), "", "expected text that is not empty"),
}


@pytest.mark.parametrize(("path", "value", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named_with_what_was_expected(broken, path, value, sentence):
    with pytest.raises(SchemaError, match=sentence) as caught:
        files.read(broken(path, value))
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    assert f"broken.json: {text[1:]}: " in str(caught.value)


def test_an_unknown_series_is_refused(broken):
    with pytest.raises(SchemaError, match=r'series: unknown field "gpu_ns"; known are device_ns'):
        files.read(broken((*SERIES, "gpu_ns"), [1]))


def test_an_unknown_field_is_refused_with_its_place(broken):
    with pytest.raises(SchemaError, match=r'cases\[0\]\.work: unknown field "flop"; known are fl'):
        files.read(broken(("cases", 0, "work", "flop"), 1))


INCONSISTENT = {
    "engine unknown": (
        ("cases", 2, "engine"),
        "torch",
        r"cases\[2\]\.engine: no engine 'torch' in",
    ),
    "case twice": (("cases", 3, "id"), "sdpa@cudnn", r"cases\[3\]\.id: 'sdpa@cudnn' is \[2\] alr"),
    "engine twice": (
        ("engines", 2, "key"),
        "cudnn",
        r"engines\[2\]\.key: 'cudnn' is \[0\] already",
    ),
}


@pytest.mark.parametrize(("path", "value", "sentence"), INCONSISTENT.values(), ids=INCONSISTENT)
def test_names_that_do_not_fit_together_are_refused(broken, path, value, sentence):
    with pytest.raises(SchemaError, match=sentence):
        files.read(broken(path, value))


SECOND = ("cases", 0, "rounds", 1)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ((*SECOND, "index"), 0, r"cases\[0\] \(.*\)\.rounds\[1\]\.index: 0 is that of rounds\[0\]"),
        (
            (*SECOND, "index"),
            1 << 40,
            r"rounds\[1\]\.index: 1099511627776 is not a number of a round",
        ),
        (
            (*SECOND, "cut"),
            {"device_ns": 10**6},
            r"cut\.device_ns: 1000000 samples are cut off, and",
        ),
    ],
)
def test_rounds_that_cannot_be_are_refused_with_field_and_case(broken, path, value, sentence):
    with pytest.raises(SchemaError, match=sentence):
        files.read(broken(path, value))


@pytest.mark.parametrize("digits", ["1e400", "1" + "0" * 400])
def test_a_number_that_no_computer_holds_is_refused_with_its_field(broken, digits):
    path = broken((*SERIES, "device_ns"), [123454321])
    path.write_text(path.read_text().replace("123454321", digits))
    with pytest.raises(SchemaError, match=r"cases\[\d\].*device_ns\[0\]: the number is too large"):
        files.read(path)


@pytest.mark.parametrize("digits", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 25])
@pytest.mark.parametrize(
    "path",
    [
        ("run", "settings", "iterations"),
        ("run", "settings", "seed"),
        ("machine", "memory_bytes"),
        ("cases", 0, "rounds", 0, "pid"),
        ("cases", 0, "validation", "iterations_checked"),
        ("cases", 0, "memory", "peak_bytes"),
    ],
)
def test_an_integer_beyond_64_bits_is_refused_with_its_field(broken, path, digits):
    document = broken(path, 123454321)
    document.write_text(document.read_text().replace("123454321", digits))
    with pytest.raises(SchemaError, match=rf"{path[-1]}: "):
        files.read(document)


def test_a_number_that_is_none_is_refused_with_its_field(broken):
    path = broken((*SERIES, "device_ns"), [123454321])
    path.write_text(path.read_text().replace("123454321", "NaN"))
    with pytest.raises(NotJsonError, match=r"not JSON: NaN at cases.*device_ns\[0\]"):
        files.read(path)


@pytest.mark.parametrize("packed", ["gzip", "zstd", "zstd of many frames"])
def test_what_unpacks_to_more_than_memory_is_one_sentence(tmp_path, packed, monkeypatch):
    monkeypatch.setattr(packing, "LIMIT_BYTES", 1 << 24)
    zeros = bytes(1 << 25)
    data = gzip.compress(zeros) if packed == "gzip" else zstd_module().compress(zeros)
    if packed == "zstd of many frames":
        data = zstd_module().compress(bytes(1 << 20)) * 40
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(UnreadableError, match="unpacks to more than 16 MiB"):
        files.read(tmp_path / "x.json")


def test_whole_numbers_may_be_written_with_a_point(broken):
    document = files.read(broken((*SERIES, "device_ns"), [1.0, 2e3, -5]))
    assert samples_of(document).tolist() == [1, 2000, -5]


@given(st.lists(st.integers(-(2**53) + 1, 2**53 - 1), max_size=60))
def test_samples_survive_to_the_last_bit(stored, samples):
    document = with_samples(stored, np.array(samples, dtype=np.int64))
    assert samples == samples_of(codec.decode(codec.encode(document), "x")).tolist()


@pytest.mark.long
@given(st.lists(st.integers(-(2**70), 2**70) | st.sampled_from([2**63 - 1, -(2**63), 2**64])))
def test_samples_beyond_the_limit_are_refused_never_wrapped(stored, samples):
    text = codec.encode(with_samples(stored, np.array([777], dtype=np.int64)))
    text = text.replace(b'"device_ns":[777]', b'"device_ns":%s' % json.dumps(samples).encode())
    if all(abs(sample) < 2**53 for sample in samples):
        assert samples == samples_of(codec.decode(text, "x")).tolist()
    else:
        with pytest.raises(SchemaError, match="device_ns"):
            codec.decode(text, "x")


def test_arrays_of_any_layout_and_integer_type_are_written(stored):
    every_other = np.arange(20, dtype=np.int32)[::2]
    document = codec.decode(codec.encode(with_samples(stored, every_other)), "x")
    assert list(range(0, 20, 2)) == samples_of(document).tolist()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_a_number_that_json_cannot_hold_is_refused_with_its_path(stored, value):
    case = stored.cases[0]
    summary = replace(case.summary["device_ns"], std=value)
    case = replace(case, summary={**case.summary, "device_ns": summary})
    with pytest.raises(UnwritableError, match=r"^cases\[0\]\.summary\.device_ns\.std: JSON has no"):
        codec.encode(replace(stored, cases=(case,)))


def test_float_samples_are_refused(stored):
    with pytest.raises(UnwritableError, match=r"series\.device_ns: JSON has no place for samples"):
        codec.encode(with_samples(stored, np.array([1.5])))


def test_integers_beyond_64_bits_are_refused(stored):
    case = replace(stored.cases[0], work=replace(stored.cases[0].work, flops=2**70))
    with pytest.raises(UnwritableError, match="cannot be written as JSON: Integer exceeds 64-bit"):
        codec.encode(replace(stored, cases=(case,)))


def test_large_finite_numbers_are_not_mistaken_for_infinite_ones(stored):
    settings = replace(stored.run.settings, rtol=1.7e308, atol=1.7e308)
    document = replace(stored, run=replace(stored.run, settings=settings))
    assert codec.decode(codec.encode(document), "x").run.settings == settings


@given(st.floats())
def test_every_float_has_a_spelling_that_json_holds(value):
    spelled = orjson.loads(orjson.dumps(spell(value)))
    assert unspell(spelled) == pytest.approx(value, rel=0, nan_ok=True)


def test_saving_replaces_the_old_file_in_one_step(stored, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    before = path.stat().st_ino
    files.save(path, stored)
    assert path.stat().st_ino != before
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_save_leaves_the_old_file_and_no_other(stored, tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.json"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnwritableError, match=r"a\.json: cannot be written: No space left"):
        files.save(path, stored)
    assert (os.listdir(tmp_path), path.read_text()) == (["a.json"], "old")


def test_saving_into_a_folder_that_is_not_there_is_an_error(stored, tmp_path):
    with pytest.raises(UnwritableError, match="cannot be written: No such file or directory"):
        files.save(tmp_path / "gone" / "a.json", stored)


def test_a_link_is_followed_not_replaced(stored, tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    files.save(tmp_path / "link.json", stored)
    assert (tmp_path / "link.json").is_symlink()
    assert files.read(tmp_path / "real.json").run == stored.run


def test_a_device_is_written_to_not_replaced(stored):
    files.save("/dev/null", stored)
    assert not os.path.isfile("/dev/null")


def test_a_gzip_file_of_several_members_is_read(stored, tmp_path):
    data = codec.encode(stored)
    (tmp_path / "a.gz").write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]))
    assert files.read(tmp_path / "a.gz").run == stored.run


@pytest.mark.long
def test_two_threads_may_read_their_first_case_at_the_same_time(stored_path):
    """msgspec alone ends the process here, one time in two."""
    program = (
        "import json, sys; from threading import Barrier, Thread\n"
        "from bench_schema.journal import read_value\n"
        "text = json.dumps(json.load(open(sys.argv[1]))['cases'][0]).encode()\n"
        "ready = Barrier(8)\n"
        "def read(): ready.wait(); read_value('case', text, 'here')\n"
        "threads = [Thread(target=read) for _ in range(8)]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]\n"
    )
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", program, str(stored_path)], check=False)
        assert done.returncode == 0
