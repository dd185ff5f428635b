"""A site of an archive: it holds what is linked, and a second call writes what is new."""

from __future__ import annotations

import html
import re
import shutil

import pytest
from bench_schema import files

from bench_compare.cli import main
from tests.bench_compare.build import document
from tests.bench_compare.history.make import archive

LINK = re.compile(r'(?:href|src)="([^"#]+)"')


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    archive(folder, builds=12, cases=4, steps=[(2, 8, 1.2)])
    site = folder.parent / "site"
    assert main(["pages", str(folder), "-o", str(site)]) == 0
    return folder, site


@pytest.fixture
def copied(made, tmp_path):
    folder, site = (shutil.copytree(one, tmp_path / one.name) for one in made)
    return folder, site


@pytest.mark.long
def test_every_link_leads_to_a_page(made):
    _, site = made
    pages = [path for path in site.rglob("*.html") if path.parent.name in ("site", "builds")]
    assert len(pages) == 12 + 3
    for page in pages:
        if page.name in ("history.html", "newest.html"):
            continue
        for link in LINK.findall(page.read_text()):
            if not link.startswith("data:"):
                assert (page.parent / link).exists(), (page, link)


@pytest.mark.long
def test_the_index_says_the_newest_state_and_each_step(made):
    _, site = made
    text = html.unescape((site / "index.html").read_text())
    assert "FAIL:</span> 1 new regression, not accepted: graph_002 slower with 2026-01-09" in text
    (row,) = [row for row in text.split("<tr>") if "builds/2026-01-09" in row]
    assert "graph_002 slower" in row
    assert "FAIL: 1 of 4 slower" in row
    assert "1 slower, 3 " in row


def test_a_light_page_has_no_script(made):
    _, site = made
    for page in (site / "builds").iterdir():
        assert "<script" not in page.read_text()
        assert page.stat().st_size < 20_000


@pytest.mark.long
def test_a_second_call_writes_what_is_new(copied, capsys):
    folder, site = copied
    kept = site / "builds/2026-01-05.html"
    before = kept.stat().st_mtime_ns
    index = (site / "index.html").read_text()
    assert main(["pages", str(folder), "-o", str(site)]) == 0
    assert "12 builds, 4 pages written" in capsys.readouterr().out
    assert kept.stat().st_mtime_ns == before
    assert (site / "index.html").read_text() == index
    assert main(["pages", str(folder), "-o", str(site), "--force"]) == 0
    assert "12 builds, 15 pages written" in capsys.readouterr().out


def test_builds_are_commits_where_each_document_has_the_tag(tmp_path):
    folder = tmp_path / "archive"
    archive(folder, builds=3, cases=2)
    for number, path in enumerate(sorted(folder.glob("*.json"))):
        found = files.read(path)
        commit = f"{number}" * 40
        tagged = document(
            found.cases,
            run_id=found.run.id,
            started=found.run.started,
            engines=found.engines,
            machine=found.machine,
            tags={"commit": commit},
        )
        files.save(path, tagged)
    assert main(["pages", str(folder), "-o", str(tmp_path / "site")]) == 0
    names = sorted(path.name for path in (tmp_path / "site/builds").iterdir())
    assert names == [f"{str(n) * 10}.html" for n in range(3)]


def test_one_document_has_a_site_too(tmp_path):
    folder = tmp_path / "archive"
    archive(folder, builds=1, cases=2)
    assert main(["pages", str(folder), "-o", str(tmp_path / "site")]) == 0
    (page,) = (tmp_path / "site/builds").iterdir()
    assert "PASS: 2 cases" in page.read_text()


def test_a_page_is_written_anew_when_the_build_before_it_changes(copied, capsys):
    folder, site = copied
    (folder / "d003.json").unlink()
    assert main(["pages", str(folder), "-o", str(site)]) == 0
    assert "11 builds, 5 pages written" in capsys.readouterr().out
    assert "2026-01-03" in (site / "builds/2026-01-05.html").read_text()


def test_without_a_folder_it_says_what_to_type(capsys):
    assert main(["pages", "."]) == 1
    assert "-o site/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("site", "said"), [(".", "is the archive"), ("d000.json", "is a file, and a folder is needed")]
)
def test_a_site_is_a_folder_of_its_own(site, said, tmp_path, monkeypatch, capsys):
    archive(tmp_path, builds=2, cases=1)
    monkeypatch.chdir(tmp_path)
    assert main(["pages", ".", "-o", site]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_365_documents_take_less_than_20_mb(tmp_path):
    folder = tmp_path / "archive"
    archive(folder, builds=365, cases=20)
    site = tmp_path / "site"
    assert main(["pages", str(folder), "-o", str(site)]) == 0
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 20e6
