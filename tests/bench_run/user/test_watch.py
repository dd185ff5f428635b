"""``--watch``: a save is measured again, and told against the one before and the best."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from queue import Empty, Queue

import pytest

RIGHT = "import numpy\ndef matmul(a, b): return a @ b\n"
WAIT_S = 60.0


@pytest.fixture
def watched(tmp_path):
    """Starts a run that watches ``my.py``; gives a function that waits for a line with a text."""
    path = tmp_path / "my.py"
    path.write_text(RIGHT)
    command = [sys.executable, "-m", "bench_run", "--op", "matmul: m=16 n=16 k=16", "--watch"]
    command += ["-e", "numpy", "-e", "kernel@my.py", "--rounds", "2", "--iters", "10"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines = Queue()
    threading.Thread(target=lambda: [lines.put(x) for x in process.stdout], daemon=True).start()

    def expect(text):
        seen = []
        try:
            while text not in (line := lines.get(timeout=WAIT_S)):
                seen.append(line)
        except Empty:
            pytest.fail(f"no {text!r} in {''.join(seen)}")
        return line

    yield path, expect, process
    process.kill()
    process.wait()


@pytest.mark.long
def test_each_save_is_a_line_and_ctrl_c_ends_with_the_last_result(watched):
    path, expect, process = watched
    expect("watching my.py; Ctrl-C ends")
    path.write_text(RIGHT.replace("a @ b", "a @ b * 1.5"))
    assert "against" not in expect("failed")  # wrong outputs do not have a speed
    assert "16 of" not in expect("wrong: ")
    path.write_text(RIGHT.replace("a @ b", "a @@ b"))
    expect("my.py:2: SyntaxError")
    path.write_text(RIGHT.replace("a @ b", "a @ c"))
    expect("failed: my.py:2: NameError")
    path.unlink()
    path.write_text(RIGHT)
    assert "against numpy" in expect("passed")
    process.send_signal(signal.SIGINT)
    assert (0, "") == (process.wait(WAIT_S), process.stderr.read().partition("Traceback")[1])


@pytest.mark.long
def test_a_run_without_a_file_has_nothing_to_watch(tmp_path):
    command = [sys.executable, "-m", "bench_run", "--op", "relu: dims=4", "-e", "numpy", "--watch"]
    done = subprocess.run([*command, "--rounds", "1"], capture_output=True, text=True, cwd=tmp_path)
    assert 1 == done.returncode
    assert "--watch: no engine is a file; give one, such as --engine kernel@my.py" in done.stderr
