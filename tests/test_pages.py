"""The pages for contributors: what they name exists, and no room is left out."""

from __future__ import annotations

import re

import pytest

from bench_run.commands.usage import FLAGS
from tests.conftest import ROOT

MAPS = ("bench_run", "bench_compare")
PAGES = (
    "README.md",
    ".github/CONTRIBUTING.md",
    "graphs/README.md",
    "schema/README.md",
    *(f"{name}/README.md" for name in MAPS),
)


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_somewhere(name):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page(name))
    assert [] == [target for target in targets if not ((ROOT / name).parent / target).exists()]


@pytest.mark.parametrize("name", MAPS)
def test_a_map_names_every_room_of_its_package(name):
    text = page(f"{name}/README.md")
    rooms = [p.name for p in (ROOT / name).iterdir() if p.is_dir() and (p / "__init__.py").exists()]
    assert [] == [room for room in rooms if f"`{room}/" not in text]


def test_every_file_that_the_guide_names_exists():
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*)`", page(".github/CONTRIBUTING.md"))
    known = {
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if ".venv" not in path.parts
    }
    missing = [
        name
        for name in named
        if not re.search(r"NAME|vN", name)
        and not any(
            path == name.rstrip("/") or path.endswith(f"/{name.rstrip('/')}") for path in known
        )
    ]
    assert [] == missing


def test_every_table_that_the_guide_names_exists():
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "bench_run").rglob("*.py"))
    tables = set(re.findall(r"`(_?[A-Z][A-Z_]+)`", page(".github/CONTRIBUTING.md")))
    elsewhere = {"ROWS", "OUTPUTS", "SELECTIVE", "SCHEMA_VERSION"}
    assert set() == {t for t in tables - elsewhere if not re.search(rf"^{t}\b", code, re.MULTILINE)}


@pytest.mark.parametrize("workflow", ["tests.yml", "performance.yml"])
def test_a_workflow_uses_only_flags_that_exist(workflow):
    text = page(f".github/workflows/{workflow}")
    compare = set(re.findall(r"--[\w-]+", page("bench_compare/commands/compare.py")))
    used = set(re.findall(r"bench-(?:run|compare) [^|>]*?(?=\n\n|\n      -|\Z)", text))
    flags = {flag for command in used for flag in re.findall(r" (--[\w-]+)", command)}
    assert set() == flags - set(FLAGS) - compare
