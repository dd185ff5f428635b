"""Machine of a run: host, processor, packages, devices, environment, revision of the graphs."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.document import Cpu, Device, Machine, Revision

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKAGES = (
    "dnn-bench",
    "numpy",
    "scipy",
    "ml_dtypes",
    "orjson",
    "msgspec",
    "torch",
    "triton",
    "nvidia-cudnn-frontend",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cublas",
    "cuda-core",
    "cuda-bindings",
    "cupti-python",
    "nvidia-ml-py",
    "hipdnn_frontend",
    "hip-python",
    "amdsmi",
)
"""Packages whose version can change a number."""

ENVIRONMENT = (
    "HIPDNN_",
    "MIOPEN_",
    "HIP_",
    "ROCR_",
    "HSA_",
    "HIPBLASLT_",
    "ROCBLAS_",
    "AMD_",
    "CUDA_",
    "CUDNN_",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_",
    "CUBLASLT_",
    "TORCH_",
    "PYTORCH_",
    "TRITON_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "GOMP_",
    "KMP_",
)
"""Beginnings of the variables that change which kernel runs, or on how many threads."""


def machine(graph_paths: Iterable[str] = (), devices: tuple[Device, ...] = ()) -> Machine:
    """Return this machine as the document describes it. Nothing here may fail: unknown is None."""
    from importlib import metadata  # here: workers need the processor's name only

    import psutil

    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    os_name = platform.system()
    with suppress(OSError):
        os_name = platform.freedesktop_os_release().get("PRETTY_NAME", os_name)
    return Machine(
        host=platform.node() or "unknown",
        os=os_name,
        kernel=platform.release(),
        cpu=Cpu(cpu_model(), psutil.cpu_count(logical=False), psutil.cpu_count()),
        memory_bytes=psutil.virtual_memory().total,
        python=platform.python_version(),
        packages=packages,
        devices=devices,
        environment={k: v for k, v in sorted(os.environ.items()) if k.startswith(ENVIRONMENT)},
        graphs_revision=_revision(graph_paths),
    )


def cpu_model() -> str | None:
    """Return the processor's product name; `platform.processor` is empty on most Linux systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.processor() or None


def processor_name() -> str:
    """Return `cpu_model`, otherwise the architecture."""
    return cpu_model() or platform.machine()


def _revision(graph_paths: Iterable[str]) -> Revision | None:
    """Commit of the repository that the first graph lies in; None outside of version control."""
    first = next(iter(graph_paths), None)
    if first is None:
        return None
    folder = Path(first.partition("!")[0]).resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return Revision(commit, dirty=bool(_git(folder, "status", "--porcelain", "--", ".")))


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words and a folder, no shell
            command, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
