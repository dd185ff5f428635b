from bench_run.cli import entry

entry()
