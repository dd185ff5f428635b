"""All that two GPUs of a host are to show, in one command that holds its time.

Usage:
  two_gpus_all.py --out=DIR [--seconds=S] [--engine=SPEC] [--specs=FILE]

Options:
  --out=DIR      where documents and what each script prints go
  --seconds=S    for all of it [default: 225]
  --engine=SPEC  [default: cudnn]
  --specs=FILE   other graphs than the 19 of `two_gpus.py`, one --op a line

`two_gpus.py` gets 58 % of the time, `two_gpus_pairs.py` 25, `ray_gpus.py` 17 and whatever is left
over: each is told how long it may take, and interrupted when it takes longer. Their answers stand
together at the end, also after Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from docopt import docopt

HERE = Path(__file__).resolve().parent
SHARES = {"two_gpus": 0.58, "two_gpus_pairs": 0.83, "ray_gpus": 1.0}
"""Of the time, when each script is to be over."""
END_S = 12.0
"""What a script takes to tell what it has, once its time is over."""
ANSWER = "= "


def words_of(script, given, out):
    extra = {
        "two_gpus": ["--cycles", "2", "--keep", str(out / "two")],
        "two_gpus_pairs": ["--pairs", "8"],
        "ray_gpus": ["--alone", str(out / "two")],
    }
    specs = [] if given["--specs"] is None else ["--specs", given["--specs"]]
    return ["--engine", given["--engine"], *specs, *extra[script]]


def run(script, words, seconds, log):
    """Until it is over; it is interrupted after so many seconds, and ended if it stays."""
    command = [sys.executable, str(HERE / f"{script}.py"), *words, "--seconds", f"{seconds:.0f}"]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        for limit_s, last in ((seconds + END_S / 2, signal.SIGINT), (END_S, signal.SIGKILL)):
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.send_signal(last)
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                process.wait(END_S)
                raise
        return process.wait()


def tell(scripts, out):
    """The answers of each script; where it has none, the end of what it printed."""
    print(f"\n{'':=<78}")
    for script, state in scripts.items():
        print(f"{script}: {state}")
        path = out / f"{script}.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        answers = [line.removeprefix(ANSWER) for line in lines if line.startswith(ANSWER)]
        for line in answers or lines[-6:]:
            print(f"    {line}")
    sys.stdout.flush()


def main():
    given = docopt(__doc__)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out, whole_s, begin = Path(given["--out"]), float(given["--seconds"]), time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    scripts = dict.fromkeys(SHARES, "not run")
    try:
        for script, share in SHARES.items():
            started = time.monotonic()
            left_s = share * whole_s - (started - begin) - END_S
            if left_s < END_S:
                scripts[script] = "no time was left"
                continue
            scripts[script] = "interrupted"
            code = run(script, words_of(script, given, out), left_s, out / f"{script}.txt")
            scripts[script] = f"exit code {code} after {time.monotonic() - started:.0f} s"
            print(f"{script}: {scripts[script]}", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    tell(scripts, out)


if __name__ == "__main__":
    main()
