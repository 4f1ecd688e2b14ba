"""The seccomp filter of tools: what no other means keeps a tool of the runner's own user from. Pure.

Always refused: changing the limits of another process (one of the same user could stop the runner from writing).
With `network: false`: every socket but local ones; it backs the network namespace and stands in for it where there
is none. Also closed are the ways around it: io_uring makes sockets without the socket call, and other call tables have
other numbers. A virtual machine's vsock, which no network namespace holds, is refused with the rest.
"""

import errno
import struct

_AF_UNIX, _AF_NETLINK = 1, 16
_X32_BIT = 0x40000000
_IO_URING_SETUP = 425
_MACHINES = {"x86_64": (0xC000003E, 302, 41), "aarch64": (0xC00000B7, 261, 198)}
"""Architecture as the audit system names it, and the numbers of `prlimit64` and `socket`."""

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16

_Line = tuple[int, int, int | str, int | str]
"""Operation, value, and where to go on if it is so and if not: lines ahead, or the name of an end."""


def call_filter(machine: str, *, network: bool) -> bytes | None:
    """Instructions for this machine (`os.uname().machine`), 8 bytes each; None where its numbers are not known."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    architecture, limits_call, socket_call = known
    lines: list[_Line] = [
        (_LOAD, _MACHINE_AT, 0, 0),
        (_EQUAL, architecture, 0, "refuse"),
        (_LOAD, _NUMBER_AT, 0, 0),
        (_AT_LEAST, _X32_BIT, "refuse", 0),
        (_EQUAL, limits_call, 0, 2),
        (_LOAD, _FIRST_ARGUMENT_AT, 0, 0),
        (_EQUAL, 0, "allow", "refuse"),
    ]
    if not network:
        lines += [
            (_EQUAL, _IO_URING_SETUP, "refuse", 0),
            (_EQUAL, socket_call, 0, "allow"),
            (_LOAD, _FIRST_ARGUMENT_AT, 0, 0),
            (_EQUAL, _AF_UNIX, "allow", 0),
            (_EQUAL, _AF_NETLINK, "allow", "refuse"),
        ]
    return _assemble(lines)


def _assemble(lines: list[_Line]) -> bytes:
    """Put the ends behind the lines and the distances to them into the lines."""
    ends = {"allow": len(lines), "refuse": len(lines) + 1}

    def distance(index: int, target: int | str) -> int:
        return target if isinstance(target, int) else ends[target] - index - 1

    program = [
        struct.pack("=HBBI", operation, distance(index, if_so), distance(index, if_not), value)
        for index, (operation, value, if_so, if_not) in enumerate(lines)
    ]
    program += [struct.pack("=HBBI", _RETURN, 0, 0, end) for end in (_ALLOW, _ERRNO | errno.EPERM)]
    return b"".join(program)
