"""The settings of a run: `Options`, its flags, and how both are read and checked."""

from bench_run.options.flags import FLAGS
from bench_run.options.read import checked, read_options
from bench_run.options.settings import Options

__all__ = ["FLAGS", "Options", "checked", "read_options"]
