"""An engine that dies in as many ways as there are rows below: the name of a graph says how.

Registered for the tests as `mortal`; everything else is the NumPy engine's work.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import platform
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, EngineSpec, ModuleAbilities, PlanAbilities

NAME = "mortal"
SUMMARY = "dies on request; for tests"
INSTALL = "nothing to install"
ABILITIES = ModuleAbilities()


def probe():
    return Availability(True, "always there")


def open(spec, options):  # noqa: A001 - the protocol's name
    return Mortal(numpy_engine.open(EngineSpec("numpy", "numpy"), options))


class Mortal:
    def __init__(self, inner):
        self.inner = inner
        self.facts, self.stream, self.abilities = inner.facts, inner.stream, inner.abilities
        self.variants, self.peak_bytes, self.close = inner.variants, inner.peak_bytes, inner.close

    def build(self, graph, variant):
        die(graph.name, "build")
        return graph.name, self.inner.build(graph, variant)

    def plan(self, built):
        name, inner = built
        die(name, "plan")
        return MortalPlan(name, self.inner.plan(inner))


class MortalPlan:
    def __init__(self, name, plan):
        self.name, self.plan = name, plan
        self.facts, self.abilities = plan.facts, PlanAbilities()
        self.runs = 0

    def upload(self, inputs):
        die(self.name, "upload")
        self.plan.upload(inputs)

    def poison(self):
        die(self.name, "poison")
        self.plan.poison()

    def run(self):
        self.runs += 1
        die(self.name, "run")
        if self.runs > 2:
            die(self.name, "timed run")
        self.plan.run()

    def download(self):
        die(self.name, "download")
        return self.plan.download()

    def close(self):
        die(self.name, "close")
        self.plan.close()


def die(name, phase):
    death = BY_NAME.get(name)
    if death is not None and death.phase == phase:
        death.die()


# --- how ---


def catch(number):
    """Die by a signal that Python handles or ignores else."""

    def die():
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        time.sleep(5)

    return die


def raising(error):
    def die():
        raise error

    return die


def libc():
    return ctypes.CDLL(None)


def bad_pointer():
    libc().free(ctypes.c_void_p(ctypes.addressof(ctypes.create_string_buffer(64)) + 8))


def failed_assertion():
    libc().__assert_fail(b"stride > 0", b"kernel.cc", 12, b"launch")


def terminate():
    """An exception of C++ that nobody caught."""
    ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()


def execute(codes):
    """Jump to an instruction, by the processor's name."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(codes[platform.machine()])
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def shorter_file():
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        page[0]


def processor_time():
    resource.setrlimit(resource.RLIMIT_CPU, (1, 60))
    for _ in itertools.count():
        pass


def file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with tempfile.TemporaryFile() as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        file.write(b"x" * 100_000)


def broken_pipe():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    read, write = os.pipe()
    os.close(read)
    os.write(write, b"x")


def alarm():
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(5)


class Deep:
    def __repr__(self):
        return repr(self)


def overflow():
    """Calls of Python in calls of C, until the stack is full."""
    sys.setrecursionlimit(10**9)

    repr(Deep())


def killed_guardian():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(5)


def ended_guardian():
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(5)


def in_thread(target):
    def die():
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()

    return die


def child_that_holds_the_pipe():
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def other_thread_stays():
    threading.Thread(target=time.sleep, args=(30,)).start()
    raise ValueError("a thread of mine goes on")


def fails():
    raise ValueError("no tile left")


def hangs_without_thread():
    in_thread(fails)()
    time.sleep(1000)


def once_more():
    """The second worker dies that comes here."""
    mark = Path(os.environ["MORTAL_MARK"])
    if not mark.exists():
        mark.write_text(str(os.getpid()))
    elif mark.read_text() != str(os.getpid()):
        os.abort()


def printing(words, then):
    def die():
        os.write(2, words)
        then()

    return die


class StrangeError(Exception):
    def __str__(self):
        raise RuntimeError("no words for it")


class LibraryError(Exception):
    __module__ = "torch.cuda"


class Unlike(BaseException):
    """An exception that is no `Exception`."""


def chained():
    try:
        {}["tile"]
    except KeyError as error:
        raise LibraryError("no such tile") from error


class Death(NamedTuple):
    name: str
    phase: str
    die: object
    words: str
    status: str = "crashed"
    slow: bool = False
    """Whether it is tried at night only: a quick one shows the same."""


def exits(code):
    return lambda: os._exit(code)


OVERFLOWED = "its stack overflowed" if sys.version_info < (3, 12) else "RecursionError: "
"""Python counts its own calls in calls of C since 3.12."""
UD2 = {"x86_64": b"\x0f\x0b", "aarch64": b"\x00\x00\x00\x00"}
INT3 = {"x86_64": b"\xcc", "aarch64": b"\x00\x00\x20\xd4"}

DEATHS = (
    # signals of the processor and of libraries
    Death(
        "null_pointer", "run", lambda: ctypes.string_at(0), "SIGSEGV during first_run: it touched"
    ),
    Death("null_in_thread", "run", in_thread(lambda: ctypes.string_at(0)), "SIGSEGV", slow=True),
    Death("null_in_build", "build", lambda: ctypes.string_at(0), "SIGSEGV during build", slow=True),
    Death("null_in_plan", "plan", lambda: ctypes.string_at(0), "SIGSEGV during plan", slow=True),
    Death("null_in_upload", "upload", lambda: ctypes.string_at(0), "SIGSEGV", slow=True),
    Death("null_in_poison", "poison", lambda: ctypes.string_at(0), "SIGSEGV", slow=True),
    Death("null_in_download", "download", lambda: ctypes.string_at(0), "SIGSEGV", slow=True),
    Death("null_when_timed", "timed run", lambda: ctypes.string_at(0), "SIGSEGV during"),
    Death("stack_overflow", "run", overflow, OVERFLOWED),
    Death("shorter_file", "run", shorter_file, "SIGBUS during first_run: it touched memory with"),
    Death("abort", "run", os.abort, "SIGABRT during first_run: a library gave up", slow=True),
    Death("bad_pointer", "run", bad_pointer, "it printed last: free(): invalid"),
    Death(
        "assertion", "run", failed_assertion, "launch: Assertion `stride > 0' failed.", slow=True
    ),
    Death("terminate", "run", terminate, "terminate called without an active exception", slow=True),
    Death("illegal", "run", lambda: execute(UD2), "SIGILL during first_run: an instruction that"),
    Death(
        "trap",
        "run",
        lambda: execute(INT3),
        "SIGTRAP during first_run: a library stopped",
        slow=True,
    ),
    Death("division", "run", catch(signal.SIGFPE), "a whole number was divided by zero", slow=True),
    Death("system_call", "run", catch(signal.SIGSYS), "a system call that is forbidden", slow=True),
    # limits
    Death("cpu_time", "run", processor_time, "SIGXCPU during first_run: its proc", slow=True),
    Death(
        "cpu_signal",
        "run",
        catch(signal.SIGXCPU),
        "its processor time reached the limit",
        slow=True,
    ),
    Death("file_size", "run", file_size, "SIGXFSZ during first_run: a file that it wrote"),
    Death(
        "broken_pipe", "run", broken_pipe, "SIGPIPE during first_run: it wrote to a pipe", slow=True
    ),
    Death("alarm", "run", alarm, "SIGALRM during first_run: an alarm that it had set", slow=True),
    # somebody
    Death(
        "killed",
        "run",
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        "SIGKILL during first_run: killed from outside",
    ),
    Death(
        "guardian_killed",
        "run",
        killed_guardian,
        "SIGKILL during first_run: somebody killed",
        slow=True,
    ),
    Death(
        "guardian_ended",
        "run",
        ended_guardian,
        "SIGTERM during first_run: it was terminated from outside",
    ),
    Death(
        "terminated",
        "run",
        catch(signal.SIGTERM),
        "SIGTERM during first_run: somebody ended",
        slow=True,
    ),
    Death(
        "hung_up", "run", catch(signal.SIGHUP), "SIGHUP during first_run: its terminal", slow=True
    ),
    Death("interrupted", "run", catch(signal.SIGINT), "it was interrupted from outside", slow=True),
    Death("quit", "run", catch(signal.SIGQUIT), "SIGQUIT during first_run", slow=True),
    Death("user_signal", "run", catch(signal.SIGUSR1), "SIGUSR1 during first_run: User def"),
    Death("virtual_alarm", "run", catch(signal.SIGVTALRM), "SIGVTALRM during first_run", slow=True),
    Death("real_time", "run", catch(signal.SIGRTMIN + 3), "signal 37 during first_run"),
    Death("fork_and_kill", "run", child_that_holds_the_pipe, "SIGKILL during first_run"),
    # its own end
    Death("exit_0", "run", exits(0), "it exited with code 0 during first_run", slow=True),
    Death("exit_3", "run", exits(3), "it exited with code 3 during first_run"),
    Death("exit_255", "run", exits(255), "it exited with code 255", slow=True),
    Death(
        "exit_of_c",
        "run",
        lambda: libc().exit(4),
        "it exited with code 4 during first_run",
        slow=True,
    ),
    Death(
        "exit_with_words", "run", printing(b"no device\n", exits(9)), "it printed last: no device"
    ),
    Death("another_program", "run", lambda: os.execv("/bin/true", ["true"]), "exited with code 0"),
    Death("closes_its_pipe", "run", lambda: os.closerange(3, 64), "during first_run"),
    Death("exit_in_thread", "run", in_thread(exits(5)), "it exited with code 5", slow=True),
    Death("sys_exit", "run", lambda: sys.exit(3), "SystemExit: 3 (during first_run)"),
    Death("sys_exit_words", "run", lambda: sys.exit("no GPU"), "SystemExit: no GPU", slow=True),
    Death("interrupt", "run", raising(KeyboardInterrupt()), "KeyboardInterrupt (during first_run)"),
    # exceptions
    Death(
        "value",
        "run",
        raising(ValueError("wrong tile")),
        "ValueError: wrong tile (during first_run)",
    ),
    Death(
        "value_in_build",
        "build",
        raising(ValueError("x")),
        "ValueError: x (during build)",
        slow=True,
    ),
    Death(
        "value_in_plan", "plan", raising(ValueError("x")), "ValueError: x (during plan)", slow=True
    ),
    Death("value_in_upload", "upload", raising(ValueError("x")), "ValueError: x (", slow=True),
    Death("value_in_poison", "poison", raising(ValueError("x")), "ValueError: x (", slow=True),
    Death("value_in_download", "download", raising(ValueError("x")), "ValueError: x (", slow=True),
    Death("value_in_close", "close", raising(ValueError("x")), "ValueError: x ("),
    Death("value_when_timed", "timed run", raising(ValueError("x")), "ValueError: x (", slow=True),
    Death(
        "no_words", "run", raising(AssertionError()), "AssertionError (during first_run)", slow=True
    ),
    Death(
        "lines",
        "run",
        raising(RuntimeError("CUDA error\nuse X\n")),
        "RuntimeError: CUDA error use X (",
    ),
    Death("long", "run", raising(ValueError("a" * 10**6 + "z")), "aaz (during first_run)"),
    Death(
        "strange",
        "run",
        raising(StrangeError()),
        "StrangeError: <exception str() failed>",
        slow=True,
    ),
    Death(
        "library", "run", raising(LibraryError("lost")), "torch.cuda.LibraryError: lost", slow=True
    ),
    Death("chained", "run", chained, "torch.cuda.LibraryError: no such tile (during first_run)"),
    Death("surrogate", "run", raising(ValueError("\udcff")), "ValueError: ? (during first_run)"),
    Death("base", "run", raising(Unlike("odd")), "Unlike: odd (during first_run)", slow=True),
    Death(
        "recursion",
        "run",
        lambda: repr(Deep()),
        "RecursionError: maximum recursion depth",
        slow=True,
    ),
    Death(
        "no_module",
        "run",
        lambda: __import__("no_such_module"),
        "No module named 'no_such_module'",
        slow=True,
    ),
    Death("thread_stays", "run", other_thread_stays, "ValueError: a thread of mine goes on"),
    Death(
        "fatal", "run", lambda: ctypes.pythonapi.Py_FatalError(b"lost"), "Python error", slow=True
    ),
    Death("no_memory", "run", raising(MemoryError()), "out of memory on the host", "failed"),
)
"""What dies in which part of a plan's life, and the words that are expected of it."""
OTHERS = (
    Death("thread_fails", "run", in_thread(fails), "ValueError: no tile left", "completed"),
    Death("thread_hangs", "run", hangs_without_thread, "ValueError: no tile left", "timed out"),
    Death("second_round", "run", once_more, "SIGABRT during first_run"),
)
"""Those that need a run of their own."""
BY_NAME = {death.name: death for death in (*DEATHS, *OTHERS)}
