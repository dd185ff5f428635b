"""Engine specs (`GRAMMAR`) ⇄ values.

Everything after the first ``@`` is the path, so that a path may hold any character; only the path
of a file of kernels may be followed by options: ``kernel@my.py+knob:BLOCK=64``. The id ends at
the first ``+`` and may hold colons: ``torch:cuda:1+compile``, ``cudnn:plan=eng5_k2=1``,
``hipdnn:MIOPEN_ENGINE@/opt/plugins/libmiopen_plugin.so``. A number alone is an engine of hipDNN:
``12`` is ``hipdnn:12``. The option ``device=N`` belongs to every engine: ``cudnn:all+device=1``; so
does ``knob:KEY=VALUE``, a knob of this engine alone, to every engine that takes knobs:
``hipdnn:MIOPEN_ENGINE+knob:global.benchmarking=1``; and ``threads=N`` to every engine on the
processor; ``python=FILE`` names the interpreter of another environment, which has dnn-bench.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

from bench_schema.usage import nearest

from bench_run.engines import KERNEL, is_known, known_names
from bench_run.engines.base import EngineSpec
from bench_run.errors import UsageError

WORDS = {
    "pytorch": "torch",
    "cuda": "torch:cuda or cudnn",
    "gpu": "torch:cuda or cudnn",
    "cpu": "numpy or torch:cpu",
    "np": "numpy",
    "miopen": "hipdnn:MIOPEN_ENGINE",
    "rocm": "hipdnn",
}
"""Names of engines in other tools, and their specifications here."""
GRAMMAR = (
    "name[:id][+option...][+knob:KEY=VALUE...][+device=N][+threads=N][+python=FILE][@plugin path]"
)
DEVICE = "device="
THREADS = "threads="
INTERPRETER = "python="
FILES = (".py", ".cu", ".hip", ".cpp", ".cc", ".cxx", ".c", ".so")
"""Ends of a path after which options follow."""
OPTIONS = re.compile(rf"({'|'.join(map(re.escape, FILES))})\+(?=[a-z])")
KNOB = "knob:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def parse_spec(text: str) -> EngineSpec:
    """Parse a spec. Raises `UsageError` if the text is not a spec or names an unknown engine."""
    head, has_path, path = text.partition("@")
    behind = OPTIONS.search(path) if head.partition(":")[0].partition("+")[0] == KERNEL else None
    if behind is not None:  # kernel@my.py+knob:BLOCK=64
        path, head = path[: behind.start() + len(behind[1])], f"{head}+{path[behind.end() :]}"
    if head.partition("+")[0].isdecimal():
        head = f"hipdnn:{head}"
    chosen, *options = head.split("+")
    name, has_id, identifier = chosen.partition(":")
    if "," in name:
        several = " ".join(f"--engine {one}" for one in text.split(","))
        raise UsageError(f"--engine {text!r}: one engine at a time: {several}")
    if text.endswith(FILES) and not has_path:
        file = identifier if name == KERNEL and has_id else text
        raise UsageError(f"--engine {text!r}: a file of kernels is kernel@{file}")
    if not _NAME.fullmatch(name):
        raise UsageError(f"--engine {text!r}: not of the form {GRAMMAR}")
    options_given = [("option", "+", option) for option in options]
    for what, mark, value in (("id", has_id, identifier), ("path", has_path, path), *options_given):
        if mark and not value:
            raise UsageError(f"--engine {text!r}: empty {what} after {mark!r}")
    if not is_known(name):
        meant = f"; did you mean {WORDS[name]}?" if name in WORDS else nearest(name, known_names())
        raise UsageError(f"--engine {text!r}: no engine {name!r}{meant}")
    return EngineSpec(
        text=text,
        name=name,
        id=identifier if has_id else None,
        options=tuple(o for o in options if not o.startswith((DEVICE, THREADS, KNOB, INTERPRETER))),
        plugin_path=path if has_path else None,
        device=_number(text, options, DEVICE),
        threads=_number(text, options, THREADS, least=1),
        knobs=_knobs(text, options),
        python=_interpreter(text, options),
    )


def _knobs(text: str, options: list[str]) -> dict[str, str]:
    found = {}
    for option in options:
        if option.startswith(KNOB):
            key, equals, value = option.removeprefix(KNOB).partition("=")
            if not key or not equals or not value:
                raise UsageError(f"--engine {text!r}: expected KEY=VALUE after +{KNOB}")
            found[key] = value
    return found


def _interpreter(text: str, options: list[str]) -> str | None:
    given = [o.removeprefix(INTERPRETER) for o in options if o.startswith(INTERPRETER)]
    if not given:
        return None
    found = shutil.which(given[0])
    if len(given) > 1 or found is None:
        raise UsageError(
            f"--engine {text!r}: expected one Python interpreter after +{INTERPRETER}, "
            "as in /path/to/venv/bin/python"
        )
    return found


def with_option(text: str, option: str) -> str:
    """Return the spec's text with one more option, before its plugin path."""
    head, has_path, path = text.partition("@")
    return f"{head}+{option}{has_path}{path}"


def _number(text: str, options: list[str], name: str, least: int = 0) -> int | None:
    given = [option.removeprefix(name) for option in options if option.startswith(name)]
    if not given:
        return None
    if len(given) > 1 or not given[0].isdecimal() or int(given[0]) < least:
        raise UsageError(f"--engine {text!r}: expected one number after +{name}, {least} or more")
    return int(given[0])


def on_device(spec: EngineSpec, index: int) -> EngineSpec:
    """Return the same engine on one of several devices; its text says which and can be given
    again."""
    return replace(spec, text=with_option(spec.text, f"{DEVICE}{index}"), device=index)


def refuse_unknown(spec: EngineSpec, *, options: tuple[str, ...], plugin: bool = False) -> None:
    """Raise `UsageError` for options that are not among `options`, and for a path that the engine
    does not use."""
    for option in spec.options:
        if option not in options:
            known = (*options, f"{THREADS}N", f"{DEVICE}N", f"{INTERPRETER}FILE")
            meant = nearest(option, known)
            raise UsageError(f"engine {spec.text!r}: no option {option!r}{meant}")
    if spec.plugin_path is not None and not plugin:
        raise UsageError(f"engine {spec.text!r}: {spec.name} has no plugin path")
