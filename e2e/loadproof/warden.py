"""What sees to it that a program which we start ends, with everything that it ever started, whoever dies first?

A small program: single-threaded, standard library only, run as `python -I -S warden.py NAME ORDER_FD`. It forks
into two wardens: the inner one starts the command, the outer one watches over the inner. Both are subreapers, so
whatever the command's descendants do (own sessions, double forks, an empty environment), their parent in the end is
a warden, which sends KILL to everything below it until the system says that it has no child left: when the command
ends, when the lifeline (standard input) ends because the harness let go of it or was killed, when the other warden is
killed. The command also dies with the inner warden, by PR_SET_PDEATHSIG: safe here, as no thread starts it that ends.
With isolation the inner warden is process 1 of a PID namespace: its death is everybody's, by the kernel. Without it,
harness and both wardens killed in the same instant can leave descendants.

The order is a memory file, so that the command gets exactly its environment, and a search for its name in the process
table finds it alone (`Order`). Answers go to a pipe, a line each; TIME is CLOCK_MONOTONIC in ns:

    started PID TIME      failed ERRNO      refused ERRNO TEXT      ended STATUS TIME      reaped CPU_SECONDS
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MS_HARMLESS, MS_ALL_PRIVATE = 2 | 4 | 8, 1 << 14 | 1 << 18  # nosuid, nodev, noexec; recursive, private
GIVE_UP_S = 60.0  # what a KILL has not ended by then waits for a device, and ends when that answers
LOOK_ROUND_MS = 1000  # orphans that ended by themselves are reaped this often
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


class Order:
    """What to start, read from: report, kept, cpus, isolate, number of arguments, arguments, environment.

    `report` is the pipe for the answers, `kept` are descriptors that the command inherits, `cpus` the cores that it
    may use (none: all), numbers with spaces between them; `isolate` is "pid" or empty.
    """

    def __init__(self, data: bytes) -> None:
        report, kept, cpus, isolate, count, *rest = data.split(b"\0")
        self.report = int(report)
        self.kept, self.cpus = ([int(number) for number in group.split()] for group in (kept, cpus))
        self.isolated = isolate == b"pid"
        self.argv = rest[: int(count)]
        self.env = dict(entry.split(b"=", 1) for entry in rest[int(count) :])

    def say(self, line: str) -> None:
        """Tell the harness, if it is still there."""
        with suppress(BrokenPipeError):
            os.write(self.report, f"{line}\n".encode())

    def release(self) -> None:
        """Let go of what is the command's alone, so that its end is the end of its pipes and locks."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        for descriptor in (null, *self.kept):
            os.close(descriptor)


class Brood:
    """Everything below this process, and the CPU seconds of what of it has been reaped."""

    def __init__(self, order: Order, command: int = 0) -> None:
        self._order, self._command = order, command
        self._cpu_s = 0.0
        self.command_ended = False

    def reap(self) -> bool:
        """Reap who has ended; return whether anybody is left."""
        with suppress(ChildProcessError):
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return True
                self._cpu_s += used.ru_utime + used.ru_stime
                if pid == self._command:
                    self.command_ended = True
                    self._order.say(f"ended {status} {time.monotonic_ns()}")
        return False

    def end(self) -> None:
        """KILL and reap until nobody is left."""
        pause_s, give_up = 0.0005, time.monotonic() + GIVE_UP_S
        while self.reap() and time.monotonic() < give_up:
            _kill_below()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        self._order.say(f"reaped {self._cpu_s:.6f}")


def _kill_below() -> None:
    """Send KILL to every descendant that one look at the process table shows.

    Each is killed right after it was read, so that one which lives only to fork is met alive. A child mostly has a
    higher number than its parent; where not, it becomes ours when its parent is gone, and the next look finds it.
    """
    ours = {os.getpid()}
    for pid, parent in _processes():
        if parent in ours:
            ours.add(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, int]]:
    """Yield (pid, parent's pid), by pid."""
    names = os.listdir("/proc")  # noqa: PTH208 -- pathlib would double the time that a warden takes to start
    for pid in sorted(int(name) for name in names if name.isdigit()):
        with suppress(OSError):
            after_name = _read(f"/proc/{pid}/stat").rpartition(b")")[2]  # a name may have ")" in it
            yield pid, int(after_name.split()[1])


def _read(path: str | int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 -- as above
        return file.read()


def _watching(pid: int) -> tuple[select.poll, int]:
    poll, pidfd = select.poll(), os.pidfd_open(pid)
    for descriptor in (0, pidfd):
        poll.register(descriptor, select.POLLIN)
    return poll, pidfd


def _outer(order: Order, inner: int, words: int) -> None:
    """Hand on what comes down the lifeline; when the inner warden has ended, end what it left, if anything."""
    poll, pidfd = _watching(inner)
    while all(descriptor != pidfd for descriptor, _ in poll.poll()):
        if said := os.read(0, 4096):
            with suppress(BrokenPipeError):
                os.write(words, said)
        else:
            poll.unregister(0)
            os.close(words)
    Brood(order).end()


def _inner(order: Order) -> int:
    """Start the command and wait for its end or for that of the lifeline; then end everything."""
    command = _start(order)
    if not command:
        return 1
    order.release()
    brood, (poll, pidfd) = Brood(order, command), _watching(command)
    while not brood.command_ended:
        ready, number = [descriptor for descriptor, _ in poll.poll(LOOK_ROUND_MS)], signal.SIGKILL
        if 0 in ready and pidfd not in ready:
            if not os.read(0, 4096):
                break
            number = signal.SIGTERM
        if ready:  # the command is not reaped yet, so its number is nobody else's; and no fork escapes a group's KILL
            with suppress(OSError):
                os.killpg(command, number)
        brood.reap()
    brood.end()
    return 0


def _start(order: Order) -> int:
    """Start the command in a session of its own; return its pid, or 0 after saying why it cannot be started."""
    parent, (said, says) = os.getpid(), os.pipe()
    if not (command := os.fork()):
        try:
            _become(order, parent)
        except OSError as error:
            os.write(says, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(says)
    problem = os.read(said, 16)  # nothing at all once it has become the command: the pipe closes then
    os.close(said)
    order.say(f"failed {problem.decode()}" if problem else f"started {command} {time.monotonic_ns()}")
    return 0 if problem else command


def _become(order: Order, parent: int) -> None:
    os.setsid()
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)  # it died before that
    for number in (*IGNORED, signal.SIGPIPE, signal.SIGXFSZ):  # what is ignored would stay so; Python ignores two more
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execvpe(order.argv[0], order.argv, order.env)  # noqa: S606 -- no shell is wanted


def _leave_for_namespace() -> None:
    """Have the next child be process 1 of a new PID namespace: as root, or else within a user namespace."""
    try:
        os.unshare(os.CLONE_NEWPID)
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWPID)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 -- as above
                file.write(text)


def _mount_proc() -> None:
    """Show the namespace's own processes below /proc, to it alone."""
    os.unshare(os.CLONE_NEWNS)
    for source, target, kind, flags in (None, b"/", None, MS_ALL_PRIVATE), (b"proc", b"/proc", b"proc", MS_HARMLESS):
        if _libc.mount(source, target, kind, ctypes.c_ulong(flags), None):
            raise OSError(ctypes.get_errno(), "a /proc of its own cannot be mounted")


def main(order_fd: int) -> int:
    """Be both wardens; return the exit code."""
    order = Order(_read(order_fd))
    os.set_inheritable(order.report, False)  # noqa: FBT003 -- it takes no keyword
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    try:
        if order.cpus:
            os.sched_setaffinity(0, order.cpus)
        if order.isolated:
            _leave_for_namespace()
        return _twins(order)
    except OSError as error:
        order.say(f"refused {error.errno} {error.strerror}")
        return 1


def _twins(order: Order) -> int:
    hears, words = os.pipe()
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    inner = os.fork()
    if inner:
        os.close(hears)
        order.release()
        _outer(order, inner, words)
        return 0
    os.dup2(hears, 0)
    os.close(hears)
    os.close(words)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # a fork does not inherit it
    if order.isolated:
        _mount_proc()
    return _inner(order)


if __name__ == "__main__":
    os._exit(main(int(sys.argv[2])))  # tidying up the interpreter would take as long as starting it
