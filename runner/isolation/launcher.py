"""The launcher: a small process beside the runner that starts its tools, so that no tool waits for an interpreter.

    <this module's main> SCRATCH     standard input: the control socket

It starts with the first tool of a run. For each command it forks a watcher, whose child confines itself and becomes the
tool (confining.py). The watcher is the subreaper of its command, which keeps every descendant findable; the launcher is
that of what commands leave. When the runner is gone without a word, the launcher ends everything and removes the
scratch folder.

It holds nothing worth having: no environment, and requests are read by the child that they are for, because they may
carry an MCP server's secrets. It takes orders from the control socket only, which no tool inherits; other users and
confined tools cannot signal it, and nobody can trace it.

    control   `+` and descriptors: request, answer, standard streams, what the command inherits beside; `.` is the end
    request   words of `confining.Recipe`, separated by NUL
    answer    `PID\\n` of the watcher and then `CODE\\n` (negative: a signal); or `!REASON\\n`; nothing: it was killed
"""

import os
import sys
from _socket import (  # what `socket` adds are enums, which take ten milliseconds
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    SCM_RIGHTS,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
)
from struct import unpack

from runner.isolation import kernel
from runner.isolation.confining import (
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGTERM,
    Recipe,
    become_tool,
    out_of_the_way,
)

START, END = b"+", b"."
MOST_DESCRIPTORS = 16
END_S = 5.0


def main() -> None:
    offer_memory()
    kernel.set_dumpable(False)
    kernel.become_subreaper()
    # A stop of the whole container is the runner's business, which still needs its tools' answers.
    for number in (SIGHUP, SIGINT, SIGTERM):
        kernel.ignore_signal(number)
    kernel.ignore_signal(SIGCHLD)  # the kernel reaps
    control = socket(AF_UNIX, SOCK_SEQPACKET, 0, 0)
    while True:
        order, descriptors = receive(control)
        if order != START:
            break
        launch(descriptors)
        close(descriptors)
    if order != END:
        clean_up(sys.argv[1])


def receive(control: socket) -> tuple[bytes, list[int]]:
    order, messages, _, _ = control.recvmsg(1, CMSG_SPACE(4 * MOST_DESCRIPTORS), MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, data in messages:
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
            descriptors += unpack(f"={len(data) // 4}i", data)
    return order, descriptors


def launch(descriptors: list[int]) -> None:
    try:
        if os.fork() == 0:
            watch(*descriptors)
    except OSError as error:
        os.write(descriptors[1], refusal(error))


def watch(request: int, answer: int, *inherited: int) -> None:
    """The watcher: one command's subreaper. Tells that it has begun, or why it could not, and how it ended."""
    try:
        kernel.default_signal(SIGCHLD)
        kernel.die_with_parent(SIGKILL)
        kernel.become_subreaper()
        leader, trouble = fork_leader(request, list(inherited))
        # Hold none of the tool's pipes open: their end is the end of the tool's processes.
        close([request, *inherited])
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        why = os.read(trouble, 4096)
        if why:
            os.write(answer, why)
        else:
            os.write(answer, b"%d\n" % os.getpid())
            os.write(answer, b"%d\n" % wait_for(leader))
    except OSError as error:
        os.write(answer, refusal(error))
    finally:
        os._exit(0)


def fork_leader(request: int, inherited: list[int]) -> tuple[int, int]:
    """Its pid, and where it says why it could not become the tool; that ends when it has."""
    trouble, complain = os.pipe()
    leader = os.fork()
    if leader != 0:
        os.close(complain)
        return leader, trouble
    try:
        complain = out_of_the_way(complain)
        become_tool(Recipe(read_words(request)), inherited)
    except (OSError, ValueError, LookupError, StopIteration) as error:
        os.write(complain, refusal(error))
    finally:
        os._exit(1)


def read_words(request: int) -> list[str]:
    with open(request, "rb", closefd=False) as file:
        return os.fsdecode(file.read()).split("\0")


def refusal(error: Exception) -> bytes:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return b"!%s\n" % reason.replace("\n", " ").encode()


def wait_for(leader: int) -> int:
    """Reap orphans until the leader ends; how it did."""
    while True:
        pid, status = os.wait()
        if pid == leader:
            return os.waitstatus_to_exitcode(status)


def offer_memory() -> None:
    """Where memory runs out, it is taken from tools: they inherit this, and of equals the largest goes first. Before
    the process becomes unreadable, which also takes this file out of its hands.
    """
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 - pathlib is dear
            file.write("1000")
    except OSError:
        return


def clean_up(scratch: str) -> None:
    from runner.isolation.grounds import remove_folder
    from runner.isolation.process_table import end_children

    end_children(END_S)
    remove_folder(scratch)


def close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
