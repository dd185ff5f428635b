"""Completion scripts of both commands for bash, zsh and fish, made from the texts of ``--help``.

`python -m tests.completions` writes them to the folders `completions` of both packages; a test
holds the files against the code.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from bench_compare.cli import COMMANDS as COMPARE
from bench_compare.commands import help as compare_help
from bench_run.commands import COMMANDS as RUN
from bench_run.commands import help as run_help
from bench_run.commands.init import FRAMEWORKS
from bench_run.commands.usage import FLAGS, TUNE_FLAGS
from bench_run.engines import ENGINES

ROOT = Path(__file__).resolve().parents[1]
SPECS = (*ENGINES, "torch:cpu", "torch:cuda", "kernel@")
OF_ENGINES = ("--engine", "-e", "--a", "--b", "--base")


class Flag(NamedTuple):
    names: tuple[str, ...]
    metavar: str
    help: str
    choices: tuple[str, ...]


class Tool(NamedTuple):
    name: str
    default: str
    flags: dict[str, list[Flag]]
    """Flags of each command, that without a name included."""
    words: dict[str, tuple[str, ...]]
    """Words in the place of a file, of the commands that have some."""


def tools():
    run = {name: flags_of(import_module(module).USAGE, RUN_CHOICES) for name, module in RUN.items()}
    words = (*run_help.GUIDES, *run_help.TOPICS, *RUN, "all")
    yield Tool("bench-run", "run", run, {"help": words, "init": ("kernel", "ci", *FRAMEWORKS)})
    compare = {name: flags_of(import_module(module).USAGE, {}) for name, module in COMPARE.items()}
    words = (*compare_help.GUIDES, *compare_help.TOPICS, *COMPARE, "all")
    yield Tool("bench-compare", "compare", compare, {"help": words})


RUN_CHOICES = {
    **{row.flag: row.choices for row in (*FLAGS.values(), *TUNE_FLAGS.values()) if row.choices},
    **dict.fromkeys(OF_ENGINES, SPECS),
}


def flags_of(usage, choices):
    """The flags that a usage text describes."""
    found = []
    for match in re.finditer(r"^  (-.*(?:\n {6,}.*)*)", usage, re.MULTILINE):
        head, _, text = re.sub(r"\n {6,}", "  ", match[1]).partition("  ")
        parts = head.replace(",", "").split()
        names = tuple(part for part in parts if part.startswith("-"))
        metavar = " ".join(part for part in parts if not part.startswith("-"))
        text = " ".join(text.split())
        some = next((choices[name] for name in names if name in choices), ())
        found.append(Flag(names, metavar, re.split(r"[;:(]", text)[0].strip(), tuple(some)))
    return found


def unique(values):
    return list(dict.fromkeys(values))


HEAD = "# Completions of {} for {}; made by `python -m tests.completions`."


def bash(tool):
    function = "_" + tool.name.replace("-", "_")
    named = "|".join(name for name in tool.flags if name != tool.default)
    lines = [
        HEAD.format(tool.name, "bash"),
        f"{function}() {{",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        f"  local command={tool.default} words=",
        f"  case ${{COMP_WORDS[1]}} in {named}) command=${{COMP_WORDS[1]}} ;; esac",
        "  case $command$prev in",
    ]
    for command, flags in tool.flags.items():
        for flag in flags:
            if flag.metavar:
                heads = "|".join(f"{command}{name}" for name in flag.names)
                lines.append(f'    {heads}) words="{" ".join(flag.choices)}" ;;')
    lines += ["    *)", "      case $command$cur in"]
    for command, flags in tool.flags.items():
        names = " ".join(unique(name for flag in flags for name in flag.names))
        lines.append(f'        {command}-*) words="{names}" ;;')
    for command, words in tool.words.items():
        lines.append(f'        {command}*) words="{" ".join(unique(words))}" ;;')
    lines += [
        f'        *) [ $COMP_CWORD = 1 ] && words="{named.replace("|", " ")}" ;;',
        "      esac ;;",
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "}",
        f"complete -o default -F {function} {tool.name}",
    ]
    return "\n".join(lines) + "\n"


def quoted(text):
    return text.replace("'", "").replace("[", "(").replace("]", ")")


def zsh(tool):
    named = [name for name in tool.flags if name != tool.default]
    lines = [
        f"#compdef {tool.name}",
        HEAD.format(tool.name, "zsh"),
        f"local command={tool.default}",
    ]
    lines += [
        f"case $words[2] in ({'|'.join(named)}) command=$words[2] ;; esac",
        "case $command in",
    ]
    for command, flags in tool.flags.items():
        lines.append(f"  ({command})")
        lines.append("    _arguments -s \\")
        for flag in flags:
            value = ""
            if flag.metavar:
                some = f"({' '.join(flag.choices)})" if flag.choices else "_files"
                value = f":{flag.metavar.split('[')[0]}:{some}".replace(":cpu", "\\:cpu")
                value = value.replace(":cuda", "\\:cuda")
            for name in flag.names:
                lines.append(f"      '*{name}[{quoted(flag.help)}]{value}' \\")
        words = unique(tool.words.get(command, ()))
        if words:
            lines.append(f"      '*:word:({' '.join(words)})' ;;")
        elif command == tool.default:
            first = f'_alternative "commands:command:({" ".join(named)})" "files:file:_files"'
            lines.append(f"      '1:what:{{{first}}}' '*:file:_files' ;;")
        else:
            lines.append("      '*:file:_files' ;;")
    return "\n".join([*lines, "esac"]) + "\n"


def fish(tool):
    named = [name for name in tool.flags if name != tool.default]
    none = f"not __fish_seen_subcommand_from {' '.join(named)}"
    lines = [HEAD.format(tool.name, "fish")]
    lines.append(f"complete -c {tool.name} -n '__fish_is_first_arg' -a '{' '.join(named)}'")
    for command, flags in tool.flags.items():
        when = none if command == tool.default else f"__fish_seen_subcommand_from {command}"
        words = unique(tool.words.get(command, ()))
        lines += [f"complete -c {tool.name} -n '{when}' -f -a {word}" for word in words]
        for flag in flags:
            names = " ".join(f"-l {n[2:]}" if n[:2] == "--" else f"-s {n[1:]}" for n in flag.names)
            value = ""
            if flag.metavar:
                value = f" -x -a '{' '.join(flag.choices)}'" if flag.choices else " -r"
            text = quoted(flag.help)
            lines.append(f"complete -c {tool.name} -n '{when}' {names}{value} -d '{text}'")
    return "\n".join(lines) + "\n"


def files():
    """Each file and its text."""
    for tool in tools():
        folder = ROOT / tool.name.replace("-", "_") / "completions"
        yield folder / tool.name, bash(tool)
        yield folder / f"_{tool.name}", zsh(tool)
        yield folder / f"{tool.name}.fish", fish(tool)


def main():
    for path, text in files():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
