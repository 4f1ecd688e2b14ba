"""The seccomp filter behind `network: false`: a tool can make no socket but local ones. Pure.

It backs the network namespace and stands in for it where there is none. Also closed are the ways around it: io_uring
makes sockets without the socket call, and the 32-bit call tables have other numbers. A virtual machine's vsock, which
no network namespace holds, is refused with the rest.
"""

import errno
import struct

_AF_UNIX, _AF_NETLINK = 1, 16
_X32_BIT = 0x40000000
_IO_URING_SETUP = 425
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Architecture as the audit system names it, and the number of `socket`."""

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16


def network_filter(machine: str) -> bytes | None:
    """Instructions for this machine (`os.uname().machine`), 8 bytes each; None where its numbers are not known."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    architecture, socket_number = known
    deny, allow = 10, 11
    program = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 0, deny - 2, architecture),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, deny - 4, 0, _X32_BIT),
        (_EQUAL, deny - 5, 0, _IO_URING_SETUP),
        (_EQUAL, 0, allow - 6, socket_number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_EQUAL, allow - 8, 0, _AF_UNIX),
        (_EQUAL, allow - 9, 0, _AF_NETLINK),
        (_RETURN, 0, 0, _ERRNO | errno.EACCES),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
