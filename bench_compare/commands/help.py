"""`bench-compare help`: the first page, the topics of flags, the usage of each command."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench_schema.usage import guide, has_colors, laid_out, nearest

from bench_compare.commands.compare import USAGE as COMPARE
from bench_compare.commands.outcome import CommandResult
from bench_compare.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE = """bench-compare help: a topic, or a command.

Usage:
  bench-compare help [WORD]

WORD is a guide (comparing, ci, noise, history, composition, document, tools),
a topic of options (documents, verdicts, show, output, answers), a command (history,
compose, export, pages), or all.
"""
GUIDES = ("comparing", "ci", "noise", "history", "composition", "document", "tools")
"""Pages of ``bench_compare/docs``."""
TOPICS = {
    "documents": "Which documents are compared:",
    "verdicts": "What counts:",
    "show": "What to show:",
    "output": "Where to write",
    "answers": "The last line says",
}
"""Topic to how its part of the usage of a comparison begins."""
COMMANDS = {
    "history": "bench_compare.commands.history",
    "compose": "bench_compare.commands.compose",
    "export": "bench_compare.commands.export",
    "pages": "bench_compare.commands.pages",
}


def answer(arguments: Mapping[str, Any], width: int, terminal: bool) -> CommandResult:
    """Run the command. Raises `UsageError` for a word that is neither a topic nor a command."""
    word = arguments["WORD"]
    parts = COMPARE.split("\n\n")
    if word is None:
        first = next(n for n, part in enumerate(parts) if part.startswith(TOPICS["documents"]))
        topics = "Guides and all other options: bench-compare help WORD\n  " + "  ".join(
            (*GUIDES, *TOPICS)
        )
        return CommandResult("\n\n".join([*parts[:first], topics]))
    if word in ("all", "compare"):
        return CommandResult(COMPARE)
    texts = []
    if word in GUIDES:
        text = guide("bench_compare", word)
        texts.append(laid_out(text, width, colored=has_colors()) if terminal else text)
    texts += [import_module(COMMANDS[word]).USAGE] if word in COMMANDS else []
    texts += [part for part in parts if word in TOPICS and part.startswith(TOPICS[word])]
    if not texts:
        known = dict.fromkeys((*GUIDES, *TOPICS, *COMMANDS, "all"))
        raise UsageError(f"no help on {word!r}{nearest(word, known)}")
    return CommandResult("\n".join(texts))
