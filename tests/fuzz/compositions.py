"""Changed result documents and pipelines, composed through the command."""

from __future__ import annotations

import contextlib
import io
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from bench_schema import codec

from bench_compare.cli import main
from tests.bench_compare.compose import worlds
from tests.fuzz import comparisons, mutators

WORLD = worlds.World(
    {
        "a": {"e": 1000, "f": 900, "e layout=nhwc": 700},
        "b": {"e": 500, "e plan=x": 400, "f": 450},
        "c": {"e": 100, "f": 100},
    },
    writers={"c": ("b", "a")},
    seams={("a", "b", "e"): 20, ("b", "c", "e"): -30},
    convert={"e": (50, 60)},
    joules={(layer, "e"): 1e-3 for layer in "abc"},
    states=(1.0, 1.1, 0.9),
)
WORDS = (
    ("--choose", "time"),
    ("--choose", "energy"),
    (),
    ("--choose", "time", "--limit", "error=1e-6"),
    ("--fix", "a=f", "--baseline", "f"),
)
FORMATS = ("json", "markdown", "html")


@cache
def texts():
    """(pipeline, document of the layers, document of the chain, words)."""
    with TemporaryDirectory() as name:
        pipeline = worlds.write_pipeline(WORLD, Path(name)).read_text()
    parts, chain = (
        codec.encode(one).decode() for one in (worlds.parts(WORLD), worlds.chain(WORLD, "e"))
    )
    return ((pipeline, parts, chain, ()),)


def mutate(random, value, others=()):
    """One of the three is changed; which words go with it is part of the input."""
    changed = list(value[:3])
    place = random.randrange(3)
    if place == 0:
        changed[0] = mutators.text(random, changed[0])
    else:
        changed[place] = comparisons.text_of(random, changed[place])
    return (*changed, random.choice(WORDS))


def attempt(value, folder):
    """Every report; a refusal is one line, and exit code 1."""
    pipeline, parts, chain, words = value
    worlds.write_pipeline(WORLD, folder)
    (folder / "net.toml").write_text(pipeline, encoding="utf-8", errors="surrogateescape")
    (folder / "parts.json").write_text(parts)
    (folder / "chain.json").write_text(chain)
    formats = [word for name in FORMATS for word in (f"--{name}", str(folder / name))]
    out, errors = io.StringIO(), io.StringIO()
    paths = [str(folder / name) for name in ("net.toml", "parts.json")]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(["compose", *paths, "--against", str(folder / "chain.json"), *words, *formats])
    complaints = errors.getvalue().splitlines()
    assert code in (0, 1, 2)
    assert code != 1 or complaints or "UNDECIDED" in out.getvalue()
    assert all(line.startswith("bench-compare: ") for line in complaints), complaints
