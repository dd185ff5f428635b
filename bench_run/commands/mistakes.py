"""Words of other tools on the command line, and what does the same here."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost half the time of --help
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

FLAGS = {
    "--parallel": "several GPUs measure at the same time with --device all",
    "--repeat": "--rounds N repeats the measurement, --iters N its iterations",
    "--repeats": "--rounds N repeats the measurement, --iters N its iterations",
    "--repetitions": "--rounds N repeats the measurement, --iters N its iterations",
    "--runs": "--rounds N repeats the measurement, --iters N its iterations",
    "-n": "--iters N is the number of iterations",
    "--iteration": "--iters N is the number of iterations",
    "--iterations": "--iters N is the number of iterations",
    "--format": "--csv FILE, --markdown FILE and -o FILE write the results ('-' is stdout)",
    "--html": "bench-compare FILE --html PAGE makes a page of a result document",
    "--json": "-o FILE writes the result document, which is JSON",
    "--batch": "--benchdnn FILE reads a batch file of benchdnn; --scale-batch N cuts the batch of "
    "every graph",
    "--batch-size": "--scale-batch N cuts the batch of every graph",
    "--gpu": "--device N chooses the GPU, --engine what runs on it",
    "--backend": "--engine SPEC chooses what runs the graphs: -e torch for pytorch, -e hipdnn",
    "-b": "--engine SPEC chooses what runs the graphs: -e torch for pytorch, -e hipdnn",
    "--validate": "outputs are always compared: --reference torch with those of PyTorch, "
    "--reference none with none",
    "--cache-mode": "--cache hot for warm, --cache cold for cold",
    "--min-time-ms": "--min-time S, in seconds: 100 ms are --min-time 0.1",
    "--timing-block": "--executions N times N launches as one sample",
    "--oracle-mode": "--oracle measures the default plan and the best one; bench-run tune "
    "--exhaustive tries every plan",
    "--autotune": "--engine hipdnn:autotune lets hipDNN choose by measuring",
    "--pytorch-sdpa-backend": "PyTorch chooses its attention kernel itself here; --engine "
    "cudnn or hipdnn names another",
    "--pytorch-rocm-fa-library": "PyTorch chooses its attention kernel itself here; --engine "
    "hipdnn names another",
    "--metrics-tier": "--counters SET reads hardware counters; -v shows all statistics",
    "--pmc": "--counters SET reads hardware counters",
    "--emit-trace": "--trace FILE writes a trace",
    "--perf": "--counters SET reads hardware counters; --trace FILE writes a trace",
    "--roofline": "a run tells GFLOP/s and GB/s of each case, and -v their share of the machine's",
    "--plugin": "--plugin-path DIR names a folder of plugins, --engine hipdnn:ID@PATH one",
    "--timeout-s": "--timeout S",
    "--compare": "bench-compare A.json B.json compares two runs",
    "--profile": "--trace FILE writes a trace, --counters SET reads hardware counters",
    "--list-ops": "bench-run coverage lists the operations",
}
"""Flags of other tools, and what does the same here."""

WORDS = {
    "list": "bench-run engines lists the engines, bench-run coverage the operations",
    "ls": "bench-run engines lists the engines, bench-run coverage the operations",
    "compare": "bench-compare A.json B.json compares two runs",
    "diff": "bench-compare A.json B.json compares two runs",
    "history": "bench-compare history DIR reports which build changed what",
    "compose": "bench-compare compose PIPELINE DOC composes a network from its layers",
    "version": "bench-run --version",
    "info": "bench-run doctor says what this machine has",
    "show": "bench-compare FILE shows a result document, bench-run describe a graph",
    "ops": "bench-run coverage lists the operations",
    "all": "--op all makes a graph of every operation; a folder runs all of its graphs",
}
"""Words of other tools in the place of a graph."""

TORCH_FILES = (".pt", ".pth", ".pt2", ".safetensors", ".ckpt")
MODELS = {
    (".onnx",): "is a model: bench-run import {0} -o net makes graphs of it",
    TORCH_FILES: "is a file of PyTorch: bench-run import "
    "--torch FILE.py:FUNCTION -o net makes graphs of a model",
}
"""Suffixes of files that are not graphs, and what reads them."""
TABLES = {
    ".csv": "; --csv {0} writes a table",
    ".md": "; --markdown {0} writes a table",
    ".html": "; bench-compare FILE --html {0} makes a page",
    ".txt": "",
    ".yaml": "",
    ".pdf": "",
}
"""Suffixes that a result document does not have, and what writes such files."""
OF_DOCUMENTS = ("run", "merge", "judge", "tune")
"""Commands whose output is a result document or a record."""


def mistaken_words(command: str, arguments: Mapping[str, Any]) -> str | None:
    """Return a sentence about the first argument of a wrong kind; None if there is none.
    `arguments`: docopt's."""
    output = arguments.get("--output")
    if output is not None and output.startswith("="):
        return f"-o{output}: a short flag and its value are two words: -o {output[1:] or 'FILE'}"
    suffix = os.path.splitext(output or "")[1]
    kinds = "the result document is .json, .json.gz or .json.zst"
    if command in OF_DOCUMENTS and output and not suffix and _is_a_name(output):
        return f"--output {output}: {kinds}: -o {output}.json"
    if command in OF_DOCUMENTS and suffix in TABLES:
        instead = TABLES[suffix].format(output) if "--csv" in arguments else ""
        return f"--output {output}: {kinds}{instead}"
    graphs: Sequence[str] = arguments.get("GRAPH") or ()
    for word in graphs:
        if command == "tune" and arguments["--space"] and "=" in word and not os.path.lexists(word):
            return f"{word}: each axis has a flag of its own: --space {word}"
        if (sentence := _mistaken(word, arguments.get("--op") or ())) is not None:
            return f"{word}: {sentence}"
    return None


def _is_a_name(path: str) -> bool:
    """Return True for the name of a file: not stdout, a device, a folder, or what reads as a
    flag."""
    from bench_schema.places import Place

    return not (Place("-o", path).is_stream or os.path.isdir(path) or path.startswith("-"))


def mistaken_model(path: str | None) -> str | None:
    """Return a sentence about a file in the place of a model that is not ONNX; None if it may
    be."""
    if path is None or os.path.splitext(path)[1] not in TORCH_FILES:
        return None
    return (
        f"import: {path}: is a file of PyTorch: name the function that makes the model, and its "
        "inputs: --torch FILE.py:FUNCTION --input 1x3x224x224"
    )


def _mistaken(word: str, ops: Sequence[str]) -> str | None:
    suffix = os.path.splitext(word)[1]
    for suffixes, sentence in MODELS.items():
        if suffix in suffixes and not os.path.isdir(word):
            return sentence.format(word)
    if os.path.lexists(word) or any(sign in word for sign in "*?[:"):
        return None
    if ops and "=" in word:
        return f"an operation with its parameters is one word: --op '{' '.join((*ops, word))}'"
    if word in WORDS:
        return f"no such file or folder; {WORDS[word]}"
    if not word.replace("_", "").replace("+", "").replace("-", "").isalnum():
        return None
    from bench_run.graph.make.spec import ALIASES, OPS
    from bench_run.graph.sources.suites import suite_names

    if word in ("suite", "suites"):
        known = " ".join(f"suite:{name}" for name in suite_names())
        return f"no such file or folder; the suites are {known}"
    if word in suite_names():
        return f"no such file or folder; the suite is suite:{word}"
    if word.partition("+")[0] in {*OPS, *ALIASES}:
        return f"no such file or folder; the operation is --op {word}"
    return None
