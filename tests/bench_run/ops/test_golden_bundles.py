"""Golden bundles through the command: written, read back, refused where they do not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import bench_run
from tests.bench_run.graph.test_sweep import case, put
from tests.bench_run.ops.conftest import FUSED

KINDS = ("", "hipdnn:")


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_written_from_a_bundle_is_the_same_byte_for_byte(
    run_quickly, fused, tmp_path, kind
):
    run_quickly(fused, "--engine", "numpy", "--write-golden", f"{kind}{tmp_path / 'one'}")
    again = ("--write-golden", f"{kind}{tmp_path / 'two'}")
    run_quickly(tmp_path / "one", "--engine", "numpy", *again)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != {}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Folders with a bundle of each kind, to be copied before they are damaged."""
    folders = {}
    once = {"rounds": 1, "iterations": 1, "warmup": 0, "engine": ["numpy"]}
    for kind in KINDS:
        folders[kind] = tmp_path_factory.mktemp("good")
        bench_run.run([], op=[FUSED], write_golden=f"{kind}{folders[kind]}", **once)
    return folders


@pytest.mark.long
def test_golden_outputs_are_what_a_bundle_is_held_against(run_quickly, good):
    done, document = run_quickly(*good.values(), "--engine", "numpy")
    checked = [case.validation for case in document.cases]
    assert 0 == done.returncode
    assert [("golden", "passed")] * 2 == [(v.reference, v.status) for v in checked]


@pytest.mark.long
def test_golden_tensors_may_lie_elsewhere(run_quickly, fused, good):
    _, document = run_quickly(fused, "--engine", "numpy", "--golden", good[""])
    assert "golden" == document.cases[0].validation.reference


@pytest.mark.long
def test_a_changed_golden_output_is_a_wrong_result(run_quickly, good, tmp_path):
    gold = tmp_path / "gold"
    shutil.copytree(good["hipdnn:"], gold)
    path = sorted(gold.glob("*.bin"))[-1]
    path.write_bytes(bytes([path.read_bytes()[0], 0x44]) + path.read_bytes()[2:])  # about 4.0
    done, document = run_quickly(gold, "--engine", "numpy")
    assert (2, 1) == (done.returncode, document.cases[0].validation.outputs[0].mismatched)


def cut(gold):
    path = next(gold.glob("*.golden")) / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    return "y (uid 6)"


def flip(gold):
    path = next(gold.glob("*.golden")) / "tensors.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return "y (uid 6): the sha256"


def other_type(gold):
    path = next(gold.glob("*.golden")) / "manifest.json"
    path.write_text(path.read_text().replace('"half"', '"bfloat16"', 1))
    return "a (uid 1) has data_type half"


def other_shape(gold):
    path = next(gold.glob("*.golden")) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["tensors"]["2"]["dims"] = [32, 9]
    path.write_text(json.dumps(manifest))
    return "b (uid 2) has dims"


def missing(gold):
    path = next(gold.glob("*.golden")) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["tensors"]["4"]
    path.write_text(json.dumps(manifest))
    return "no golden data for bias (uid 4)"


@pytest.mark.long
def test_a_bundle_that_does_not_fit_is_an_error_that_names_the_tensor(run_quickly, good, tmp_path):
    said = {}
    for damage in (cut, flip, other_type, other_shape, missing):
        gold = tmp_path / "gold" / damage.__name__
        shutil.copytree(good[""], gold)
        said[damage.__name__] = damage(gold)
    done, document = run_quickly(tmp_path / "gold", "--engine", "numpy")
    reasons = {Path(case.graph.path).parent.name: case.outcome.reason for case in document.cases}
    assert [] == [name for name in said if said[name] not in reasons[name]], reasons
    assert {1, "failed"} == {done.returncode, *(case.outcome.status for case in document.cases)}


@pytest.mark.parametrize(
    ("create", "said"), [(False, "is not a directory"), (True, "there are no golden tensors")]
)
def test_a_golden_folder_without_data_is_refused(run_quickly, fused, tmp_path, create, said):
    if create:
        (tmp_path / "empty").mkdir()
    done, document = run_quickly(fused, "--engine", "numpy", "--golden", tmp_path / "empty")
    assert (1, None, 1) == (done.returncode, document, len(done.stderr.splitlines()))
    assert said in done.stderr


def test_the_cases_of_a_sweep_find_their_golden_tensors(run_quickly, tmp_path):
    folder = tmp_path / "sweep"
    put(folder, [case("small"), case("large", 9)])
    for name, length in (("small", 3), ("large", 9)):
        gold = folder / "golden" / name
        gold.mkdir(parents=True)
        for uid in (1, 2):
            (gold / f"tensor{uid}.bin").write_bytes(b"\x00\x3c" * length)  # ones in half
    done, document = run_quickly(folder, "--engine", "numpy")
    assert 0 == done.returncode
    checked = [c.validation for c in document.cases]
    assert [("golden", "passed")] * 2 == [(v.reference, v.status) for v in checked]


@pytest.mark.long
def test_a_sidecar_sets_the_tolerance_of_its_graph(run_quickly, fused):
    sidecar = fused.with_suffix(".tolerance.json")
    sidecar.write_text(json.dumps({"reason": "a test", "tensors": {"y": {"rtol": 0.5}}}))
    done, document = run_quickly(fused.parent, "--engine", "numpy")
    (output,) = document.cases[0].validation.outputs
    assert (0.5, "sidecar") == (output.rtol, output.tolerance_source)
    assert "tolerance.json" not in done.stderr


@pytest.mark.long
def test_a_sidecar_with_an_unknown_output_is_an_error_that_names_it(run_quickly, fused):
    fused.with_suffix(".tolerance.json").write_text('{"tensors": {"z": {"rtol": 0.5}}}')
    done, document = run_quickly(fused, "--engine", "numpy")
    assert 1 == done.returncode
    assert "no output 'z'; choose from y" in document.cases[0].outcome.reason
