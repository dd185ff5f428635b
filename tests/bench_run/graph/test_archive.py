"""Archives: read in memory, member by member, and never trusted."""

import io
import stat
import tarfile
import zipfile

import pytest

from bench_run.errors import GraphError
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.sources.load import load
from tests.bench_run.graph.builders import conv_bias_relu

GOOD = write_graph(conv_bias_relu())
TARS = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz"}


def tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = content if isinstance(content, bytes) else b""
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return str(path)


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return str(path)


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def refusal(path):
    with pytest.raises(GraphError) as caught:
        load([path])
    message = str(caught.value)
    assert message.startswith(path)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("suffix", TARS)
def test_graphs_of_every_kind_of_tar_are_read(tmp_path, suffix):
    path = tar(tmp_path / f"g{suffix}", {"b.json": GOOD, "./sub/a.json": GOOD}, TARS[suffix])
    report = load([path])
    assert [loaded.path for loaded in report.graphs] == [f"{path}!b.json", f"{path}!sub/a.json"]
    assert report.graphs[0].graph == conv_bias_relu()


def test_graphs_of_a_zip_are_read(tmp_path):
    path = zipped(tmp_path / "g.zip", {"b.json": GOOD, "sub/": "", "readme.txt": "x"})
    assert [loaded.path for loaded in load([path]).graphs] == [f"{path}!b.json"]


def test_golden_data_are_unpacked_to_a_folder_of_their_own(tmp_path):
    members = {
        "d/a.json": GOOD,
        "d/a.golden/x.safetensors": b"12",
        "e/b.tensor1.bin": b"345",
        "e/b.json": GOOD,
        "e/c.json": GOOD,
    }
    report = load([tar(tmp_path / "g.tgz", members)])
    ours, theirs, none = (loaded.golden for loaded in report.graphs)
    assert (ours / "x.safetensors").read_bytes() == b"12"
    assert (theirs / "b.tensor1.bin").read_bytes() == b"345"
    assert none is None
    assert tmp_path not in ours.parents


def test_nothing_is_unpacked_where_there_are_no_golden_data(tmp_path):
    assert load([tar(tmp_path / "g.tgz", {"a.json": GOOD})]).sources == ()


def test_a_broken_graph_in_an_archive_costs_only_itself(tmp_path):
    path = tar(tmp_path / "g.tgz", {"a.json": GOOD, "b.json": b"{"})
    report = load([path])
    assert (len(report.graphs), report.failures[0].path) == (1, f"{path}!b.json")


@pytest.mark.parametrize(
    "name", ["../up.json", "/root.json", "a/../../b.json", "..\\up.json", "C:/x.json", "a\nb.json"]
)
def test_names_that_lead_outside_are_refused(tmp_path, name):
    for path in (tar(tmp_path / "g.tgz", {name: GOOD}), zipped(tmp_path / "g.zip", {name: GOOD})):
        assert "points outside the archive" in refusal(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(tmp_path, kind):
    members = {"a.json": GOOD, "b.json": special("b.json", kind, "/etc/passwd")}
    assert "is a link or device" in refusal(tar(tmp_path / "g.tgz", members))


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("b.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert "is a link or device" in refusal(zipped(tmp_path / "g.zip", {info: "/etc/passwd"}))


@pytest.mark.parametrize("suffix", [*TARS, ".zip"])
def test_what_is_no_archive_is_refused(tmp_path, suffix):
    path = tmp_path / f"g{suffix}"
    path.write_bytes(b"this is no archive at all")
    assert "cannot be read as an archive" in refusal(str(path))


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_an_archive_that_is_cut_short_is_refused(tmp_path, suffix):
    path = tmp_path / f"g{suffix}"
    members = {f"{i}.json": GOOD + bytes(range(256)) for i in range(20)}
    zipped(path, members) if suffix == ".zip" else tar(path, members, TARS[suffix])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "cannot be read as an archive" in refusal(str(path))


def test_an_archive_without_graphs_is_refused(tmp_path):
    assert "contains no graph" in refusal(tar(tmp_path / "g.tgz", {"readme.txt": b"x"}))


def test_sweeps_in_an_archive_are_told_apart(tmp_path):
    path = tar(tmp_path / "g.tgz", {"a.json": GOOD, "s/graph.template.json": b"{}"})
    assert load([path]).notes == (f"{path}!s/graph.template.json is a sweep template, left out",)


def test_an_archive_in_a_folder_is_pointed_out(tmp_path):
    tar(tmp_path / "g.tgz", {"a.json": GOOD})
    (tmp_path / "a.json").write_bytes(GOOD)
    assert load([str(tmp_path)]).notes == (
        f"{tmp_path}/g.tgz is an archive: give its name to read it, left out",
    )


def test_another_archive_is_refused_with_those_that_are_read(tmp_path):
    path = tar(tmp_path / "g.tar.bz2", {"a.json": GOOD}, "w:bz2")
    assert "archives are read as .tar .tar.gz .tgz .zip: pack it so" in refusal(path)


@pytest.mark.filterwarnings("error")
def test_what_is_unpacked_in_vain_is_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for members in ({"a.json": GOOD}, {"a.tensor1.bin": b"1", "../b.json": GOOD}):
        path = tar(tmp_path / "g.tgz", members)
        if "../b.json" in members:
            refusal(path)
        else:
            load([path])
        assert [] == list(tmp_path.glob("bench-run-*"))
