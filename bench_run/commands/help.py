"""`bench-run help`: the first page, the topics of flags, the usage of each command."""

from __future__ import annotations

import sys
from functools import partial

from bench_schema.usage import (
    EXIT_CODES,
    bad_flag,
    columns,
    guide,
    has_colors,
    laid_out,
    nearest,
    unknown_flag,
)

from bench_run.commands import ALIASES, COMMANDS, DEFAULT, CommandOutput
from bench_run.commands.usage import FLAGS, all_topics, entries, topic
from bench_run.settings import TOPICS

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any


USAGE = """Show help for a topic or a command.

Usage:
  bench-run help [WORD]

WORD is a guide (running, operators, engines, kernels, validation, machines,
networks, tuning, config, judge, dnn-benchmarking), a topic of options (input,
engines, measure, validate, output), a command, or all.
"""

GUIDES = (
    *("running", "operators", "engines", "kernels", "validation", "machines", "networks"),
    *("tuning", "config", "judge", "dnn-benchmarking"),
)
"""Pages of ``bench_run/docs``."""
MORE = "Settings that are rarely needed: bench-run help config"

PAGE = f"""bench-run: run hipDNN operation graphs, validate outputs, time every iteration.

Usage:
  bench-run [options] GRAPH...      run graphs
  bench-run [options] --op SPEC     run graphs made from operation names
  bench-run COMMAND [options]       answer a question without measuring

GRAPH is a graph file, a folder, a glob, an archive (.tar .tar.gz
.tgz .zip), a suite file (.toml), or suite:NAME for graphs that come with this
tool: suite:smoke takes a few seconds, suite:graphs (the folder graphs/)
a minute or two, suite:resnet50 some minutes.

Examples:
  bench-run suite:smoke                          a table on the terminal
  bench-run graphs/ -o before.json               and the result document
  bench-run g.json --engine numpy --engine torch two engines, in turn
  bench-run g.json --a hipdnn:1@/old --b hipdnn:1@/new
                                                 two builds of a plugin
  bench-run --op 'conv_fwd: n=32 c=128 h=28 w=28 k=256 r=3 s=3 pad=1 dtype=half'
  bench-run init kernel triton                   a kernel to start from
  bench-run --op relu --a torch --b kernel@my.py a function of yours
  bench-run judge my.py --op 'relu: dims=64x64'  is it right, and faster?
  bench-run tune g.json --engine cudnn --space plan=all -o tuned.json
                                                 the fastest plan
  bench-run import model.onnx -o net             a model as graphs
  bench-compare before.json after.json           compare two runs

The options used most:
{entries(row for row in FLAGS.values() if row.common)}
Commands (a file or folder with such a name is given as ./engines):
  doctor                what this machine has, and how to get what is missing
  engines               engines that can run here; with GRAPH their plans, knobs
  coverage              operations that each engine supports, found by running
  describe              operations, shapes and work of graphs; --diagram FILE
  merge                 one document of the shards of a run (--shard I/N)
  tune                  the best variant of every graph, kept in a record
  import                a model (ONNX, PyTorch) as graphs and a pipeline
  init                  a kernel and an operator of your own to start from, or
                        workflows that measure your repository
  judge                 is a kernel correct, honest and faster? one line
  help WORD             guides: running, operators, engines, kernels, machines,
                        validation, networks, tuning, config, judge,
                        dnn-benchmarking; more options: input, measure,
                        validate, output, all; or a command

{EXIT_CODES}

Completions for bash, zsh and fish are installed below the prefix, in share/.
"""


def page(command: str) -> str:
    """Return the `--help` page of a command."""
    from importlib import import_module

    if command == DEFAULT:
        return PAGE
    text: str = import_module(COMMANDS[command]).USAGE
    return text


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `UsageError` for a word that is neither a topic nor a command."""

    word = arguments["WORD"]
    if word is None:
        return CommandOutput(PAGE)
    if word == "all":
        return CommandOutput(f"{all_topics(rare=False)}\n{MORE}")
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    texts = []
    if word in GUIDES:
        text = guide("bench_run", word)
        texts.append(laid_out(text, columns(), colored=has_colors()) if is_terminal else text)
    texts += [f"{topic(word, rare=False)}\n{MORE}"] if word in TOPICS else []
    texts += [page(word)] if word in COMMANDS else []
    if not texts:
        from bench_run.errors import UsageError

        known = dict.fromkeys((*GUIDES, *TOPICS, *COMMANDS, "all"))
        raise UsageError(f"no help on {word!r}{nearest(word, known)}")
    return CommandOutput("\n".join(texts), is_styled=is_terminal)


def bad_words(command: str, words: Sequence[str], usage: str) -> str:
    """Return a sentence about words that do not fit this usage, on a flag if one is wrong."""
    general = f"invalid arguments: {' '.join(words) or '(none)'}; see bench-run {command} --help"
    unknown = partial(_unknown, command)
    if command == "import" and not any(word.startswith(("-o", "--out")) for word in words):
        general = "import: name the folder to write: -o DIR"
    if command == "init" and words[:1] not in (["kernel"], ["ci"]):
        from bench_run.commands.init import FRAMEWORKS

        general = (
            "init: name what to write: bench-run init kernel, or bench-run init ci --engine SPEC"
        )
        if words[:1] and words[0] in FRAMEWORKS:
            general = f"init: a kernel to start from is bench-run init kernel {words[0]}"
    return bad_flag(words, usage, _help(command), unknown) or general


def _unknown(command: str, name: str, known: Collection[str]) -> str:
    from bench_run.commands.mistakes import FLAGS as OF_OTHERS

    if name in FLAGS:
        return f"bench-run {command} has no flag {name}; see bench-run {command} --help"
    return unknown_flag(name, {*known, *ALIASES}, _help("all"), OF_OTHERS)


def _help(command: str) -> str:
    return "bench-run help all" if command in ("run", "all") else f"bench-run {command} --help"
