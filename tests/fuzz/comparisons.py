"""Changed result documents, compared through the command with the document they came from."""

from __future__ import annotations

import contextlib
import io
import json
import re

from bench_compare.cli import main
from tests.fuzz import mutators

HUGE = ("1" + "0" * 400, "9" * 25, "-" + "9" * 19, "1e400", "NaN", "Infinity", "-0", "1.5e3")
"""Numbers that no field takes, or that some readers do not read."""
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
MEMBER = re.compile(r'"\w+": (\d+|"\w*"|null|true|false)')
PAGE_EVERY = 20


def text_of(random, value, others=()):
    """A changed document; every second one with a number that no field takes, or a key that is
    there twice."""
    values = [json.loads(other) for other in others]
    text = json.dumps(mutators.json_value(random, json.loads(value), values))
    change = random.randrange(4)
    if change == 0:
        return _replaced(random, text, NUMBER, lambda found: random.choice(HUGE))
    if change == 1:
        return _replaced(random, text, MEMBER, lambda found: f"{found}, {found}")
    return text


def _replaced(random, text, pattern, change):
    places = list(pattern.finditer(text))
    if not places:
        return text
    chosen = random.choice(places)
    return text[: chosen.start()] + change(chosen.group()) + text[chosen.end() :]


def _of_another_run(original):
    """A run on both sides would be refused."""
    tree = json.loads(original)
    tree["run"]["id"] = "original"
    return json.dumps(tree)


def attempt(text, folder, original):
    """Every report of the changed document (text, or bytes of a file that may be packed) against
    the original; a refusal is one line."""
    content = text if isinstance(text, bytes) else text.encode()
    (folder / "changed.json").write_bytes(content)
    (folder / "original.json").write_text(_of_another_run(original))
    formats = ["csv", "json", "junit", "markdown"]
    if len(text) % PAGE_EVERY == 0:
        formats.append("html")
    words = [word for name in formats for word in (f"--{name}", str(folder / name))]
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        paths = [str(folder / f"{name}.json") for name in ("original", "changed")]
        code = main([*paths, "--group-by", "file", "--plotlyjs", "cdn", *words])
    complaints = errors.getvalue().splitlines()
    assert code in (0, 1, 2)
    assert all(line.startswith("bench-compare: ") for line in complaints), complaints
    assert code != 1 or complaints, "no answer, and no word why"
    assert code == 1 or out.getvalue(), "an answer, and nothing shown"
