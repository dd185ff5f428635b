"""Archives: read in memory, member by member, and never trusted."""

import io
import stat
import tarfile
import zipfile

import pytest

from bench_run.errors import GraphError
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.sources.files import ArchiveLimits, read_archive
from bench_run.graph.sources.load import load
from tests.bench_run.graph.builders import conv_bias_relu

GOOD = write_graph(conv_bias_relu())
TARS = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}


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


def test_unpacked_data_go_when_the_report_goes(tmp_path):
    report = load([tar(tmp_path / "g.tgz", {"a.json": GOOD, "a.tensor1.bin": b"1"})])
    folder = report.graphs[0].golden
    assert folder.is_dir()
    report.sources[0].keeper.cleanup()
    assert not folder.exists()


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


def test_a_file_without_a_name_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", {"g.json": GOOD, "x": GOOD})
    data = (tmp_path / "a.zip").read_bytes().replace(b"\1\0\0\0x", b"\0\0\1\0x")
    directory = data.rindex(b"PK\1\2")
    data = data[: directory + 28] + b"\0\0\1\0" + data[directory + 32 :]
    (tmp_path / "a.zip").write_bytes(data)
    assert "contains a file without a name" in refusal(path)


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    path = tar(tmp_path / "g.tgz", {"a.json": GOOD, "./a.json": GOOD})
    assert "a.json: is in the archive twice" in refusal(path)


@pytest.mark.long
def test_contents_out_of_proportion_are_refused(tmp_path):
    path = tar(tmp_path / "g.tgz", {"a.tensor1.bin": bytes(80 << 20)})
    assert "unpacks to more than 200 times its size" in refusal(path)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (ArchiveLimits(members=1), "has more than 1 members"),
        (ArchiveLimits(graph_bytes=100), "is larger than 0 MiB"),
        (ArchiveLimits(total_bytes=100), "unpacks to more than 0 MiB"),
    ],
)
def test_limits_hold(tmp_path, limits, message):
    path = tmp_path / "g.tgz"
    tar(path, {"a.json": GOOD, "b.json": GOOD})
    with pytest.raises(GraphError, match=message):
        read_archive(path, "g.tgz", limits)


@pytest.mark.parametrize("suffix", [*TARS, ".zip"])
def test_what_is_no_archive_is_refused(tmp_path, suffix):
    path = tmp_path / f"g{suffix}"
    path.write_bytes(b"this is no archive at all")
    assert "cannot be read as an archive" in refusal(str(path))


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.bz2", ".tar.xz", ".zip"])
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
