"""Threads that ask for a decoder at the same time each get a whole one."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading
from bench_schema.checks import acceptor
from bench_schema.document import SCHEMA_VERSION

sys.setswitchinterval(1e-6)
found = []
for _ in range(30):
    for each in (acceptor._decoder, acceptor._compiler):
        each.cache_clear()
    start = threading.Barrier(8)

    def work():
        start.wait()
        try:
            acceptor.decoder(SCHEMA_VERSION, "Case")(b'{"id": 3}')
        except acceptor.msgspec.ValidationError as error:
            found.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print(len(found), len(set(found)))
"""


@pytest.mark.long
def test_threads_that_ask_at_once_get_the_same_answer():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (0, "240 1\n") == (done.returncode, done.stdout), done.stderr
