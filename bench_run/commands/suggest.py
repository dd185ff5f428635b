"""What a command line that makes no sense probably meant."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def known_flags(usage: str) -> set[str]:
    """Every flag that the help text names."""
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", usage))


def unknown_flag(argv: Sequence[str], usage: str, valued: Collection[str]) -> str | None:
    """A sentence about the first flag that is unknown or lacks its value; None if there is none."""
    known = known_flags(usage)
    for position, word in enumerate(argv):
        name, equals, _ = word.partition("=")
        if not name.startswith("-") or name in ("-", "--"):
            continue
        matches = [name] if name in known else [f for f in known if f.startswith(name)]
        if name.startswith("--") and not matches:
            close = difflib.get_close_matches(name, sorted(known), 1)
            hint = f"; did you mean {close[0]}?" if close else "; see --help"
            return f"no flag {name}{hint}"
        is_last = position == len(argv) - 1
        if name in valued and is_last and not equals and _takes_value(name, usage):
            return f"{name} needs a value; see --help"
    return None


def _takes_value(name: str, usage: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)} [A-Z]", usage) is not None
