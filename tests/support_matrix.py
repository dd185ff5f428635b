"""What each engine supports, as text: operations by data types, and the graphs it refuses.

`python -m tests.support_matrix` (`make support`) writes the tables of the engines that are here to
`tests/data/support/`; a test holds them against what the engines do, so that support that is lost
fails, and support that is gained is stored in the same commit.

`hipdnn` is the contract double's newest release; `cudnn` is the check of cuDNN's frontend, for
which neither needs a GPU; `cudnn_views` is our own part of the way to cuDNN and needs nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from bench_run.commands.coverage import cover, coverage_text, rows_of_operations
from bench_run.engines.cudnn.library import load, new_graph, refusals
from bench_run.engines.cudnn.lowering import Lowering
from bench_run.engines.cudnn.rewrite import rewrite
from bench_run.engines.cudnn.views import views
from bench_run.errors import UnsupportedGraphError
from tests.conformance.graphs import FAMILIES
from tests.conformance.opening import CUDNN, absence
from tests.conformance.sketch import LAYOUTS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "data" / "support"
NEEDS = {"numpy": (), "torch": ("torch:cpu",), "hipdnn": (), "cudnn": (CUDNN,), "cudnn_views": ()}
"""What has to be here to make a table."""


def table(name):
    """The table as it is with this code, in this environment."""
    own = {"cudnn": cudnn_table, "cudnn_views": cudnn_views_table}
    return own[name]() if name in own else command_table(name)


def command_table(engine):
    """What `bench-run --coverage` prints, which executes each graph once."""
    paths = (ROOT, ROOT / "schema", ROOT / "tests" / "doubles", os.environ.get("PYTHONPATH", ""))
    env = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "HIPDNN_DOUBLE_PROFILE": "newest"}
    command = [sys.executable, "-m", "bench_run", "--coverage", "--engine", engine]
    done = subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return without_reasons(done.stdout)


def without_reasons(text):
    """Which graphs are refused; the words of a refusal may change."""
    return re.sub(rf": (cudnn: )?({'|'.join(NEEDS)}): .*", ": no", text)


def lowered(cudnn, graph):
    """The numbers of a graph's tensors, once cuDNN's frontend has checked it as for compute
    capability 9.0. Raises `UnsupportedGraphError`."""
    canonical, kinds = rewrite(graph), cudnn.data_type
    made = new_graph(
        cudnn,
        None,
        canonical,
        name="g",
        io_data_type=kinds.NOT_SET,
        intermediate_data_type=kinds.FLOAT,
        compute_data_type=kinds.FLOAT,
        sm_version=90,
    )
    if hasattr(made, "plans"):  # asks for a handle, which needs a device, for its graph below
        made._backend_handle_for_lowering = lambda _settings: None
    lowering = Lowering(cudnn, made, canonical, views(canonical))
    with refusals("graph"):
        lowering.lower()
        made.validate()
    return lowering.numbers


def _refusal(attempt, graph):
    try:
        attempt(graph)
    except UnsupportedGraphError as error:
        return str(error)
    return None


def cudnn_table():
    cudnn = load()

    def attempt(_, graph):
        return {"cudnn": _refusal(lambda graph: lowered(cudnn, graph), graph)}

    rows = rows_of_operations()
    text = coverage_text([cover(row, ("cudnn",), attempt) for row in rows]) + "\n"
    return without_reasons(text)


def cudnn_views_table():
    """The layouts in which each small graph of the conformance suite is taken in float."""
    lines = []
    for family, make in FAMILIES.items():
        reasons = {it: _refusal(lambda g: views(rewrite(g)), make("float", it)) for it in LAYOUTS}
        taken = [layout for layout, reason in reasons.items() if reason is None]
        lines.append(f"{family}: {' '.join(taken) or 'no'}")
    return "\n".join(lines) + "\n"


def stored(name):
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, needs in NEEDS.items():
        reason = next(filter(None, map(absence, needs)), None)
        if reason is None:
            (FOLDER / f"{name}.txt").write_text(table(name), encoding="utf-8")
        print(name, "written" if reason is None else f"left as it is: {reason}")


if __name__ == "__main__":
    main()
