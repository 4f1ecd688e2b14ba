"""What only the kernel's own calls can do, by ctypes: process attributes, capabilities, Landlock, seccomp.

Standard library only and cheap to import: the launcher of every tool uses it. Every function raises OSError with the
kernel's reason; none falls back to less.
"""

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_GET_DUMPABLE = 3
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_SIG_IGN = 1
_CAPABILITY_VERSION_3 = 0x20080522

# Numbers of calls that came after the numbering was made the same for all architectures.
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.signal.restype = ctypes.c_void_p


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _prctl(option: int, what: str, *arguments: int) -> int:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(ctypes.c_int(option), *padded), what)


def set_dumpable(dumpable: bool) -> None:
    """Not dumpable: other processes of the user cannot read memory, environment or descriptors, nor trace."""
    _prctl(_PR_SET_DUMPABLE, "PR_SET_DUMPABLE", int(dumpable))


def is_dumpable() -> bool:
    return _prctl(_PR_GET_DUMPABLE, "PR_GET_DUMPABLE") != 0


def become_subreaper() -> None:
    """Orphans among the descendants become children of this process, so that none is lost."""
    _prctl(_PR_SET_CHILD_SUBREAPER, "PR_SET_CHILD_SUBREAPER", 1)


def die_with_parent(signal_number: int) -> None:
    """Get this signal when the thread that started this process ends."""
    _prctl(_PR_SET_PDEATHSIG, "PR_SET_PDEATHSIG", signal_number)


def no_new_privileges() -> None:
    """No program started from here on gains anything by set-uid bits or file capabilities."""
    _prctl(_PR_SET_NO_NEW_PRIVS, "PR_SET_NO_NEW_PRIVS", 1)


def default_signal(number: int) -> None:
    """Undo that a signal is ignored or handled. (Importing `signal` would cost the launcher milliseconds.)"""
    _libc.signal(ctypes.c_int(number), None)


def ignore_signal(number: int) -> None:
    """What is started from here ignores it too. Of SIGCHLD: children that end are reaped by the kernel."""
    _libc.signal(ctypes.c_int(number), ctypes.c_void_p(_SIG_IGN))


def drop_capabilities() -> None:
    """Give up all capabilities, also those that a program started by root would get."""
    _prctl(_PR_CAP_AMBIENT, "PR_CAP_AMBIENT", _PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(64):
        try:
            _prctl(_PR_CAPBSET_DROP, "PR_CAPBSET_DROP", capability)
        except OSError:  # the first number that this kernel does not know
            break
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, nothing), "capset")


def landlock_abi() -> int:
    """The version of Landlock; 0 where the kernel has none, or it is switched off."""
    version = _libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint(_LANDLOCK_CREATE_RULESET_VERSION),
    )
    return max(0, int(version))


def landlock_ruleset(attributes: bytes) -> int:
    """Create a ruleset of what it handles; returns its descriptor. `attributes`: struct landlock_ruleset_attr."""
    result = _libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
    )
    return _checked(int(result), "landlock_create_ruleset")


def landlock_allow_beneath(ruleset: int, attributes: bytes) -> None:
    """`attributes`: struct landlock_path_beneath_attr."""
    result = _libc.syscall(
        ctypes.c_long(_LANDLOCK_ADD_RULE),
        ctypes.c_int(ruleset),
        ctypes.c_int(_LANDLOCK_RULE_PATH_BENEATH),
        attributes,
        ctypes.c_uint(0),
    )
    _checked(int(result), "landlock_add_rule")


def landlock_restrict(ruleset: int) -> None:
    result = _libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint(0))
    _checked(int(result), "landlock_restrict_self")


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def seccomp(program: bytes) -> None:
    """Install a filter: `program` is an array of struct sock_filter. Needs no_new_privileges() first."""
    buffer = ctypes.create_string_buffer(program, len(program))
    whole = _FilterProgram(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _checked(
        _libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(whole), 0, 0),
        "PR_SET_SECCOMP",
    )
