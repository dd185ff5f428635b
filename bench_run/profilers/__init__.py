"""Passes of their own for `--trace` and `--counters`: one process under the vendor's profiler for
each completed case, never while samples are taken."""
