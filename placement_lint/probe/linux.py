"""The system calls of Linux that a confinement is made of, for which Python has no function in every version we run on.

Each function is one call of the C library or of the kernel and raises :class:`OSError` with the name of the call. What
they are put together to is in confinement.py.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import platform
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

# Namespaces: unshare(2).
NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USERS = 0x10000000
NEW_PROCESSES = 0x20000000
NEW_NETWORK = 0x40000000

# Mounts: mount(2), umount2(2), mount_setattr(2).
READ_ONLY = 0x1
NO_SETUID = 0x2
NO_DEVICES = 0x4
NO_PROGRAMS = 0x8
REMOUNT = 0x20
BIND = 0x1000
RECURSIVE = 0x4000
PRIVATE = 0x40000
DETACH = 0x2
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
_COPY_TREE, _CLOSE_ON_EXEC, _MOVE_DESCRIPTOR, _MAP_OWNERS = 0x1, 0o2000000, 0x4, 0x100000

# Processes: prctl(2).
_SET_PARENT_DEATH_SIGNAL = 1
_SET_DUMPABLE = 4
_SET_SECCOMP = 22
_DROP_BOUNDING = 24
_SET_NO_NEW_PRIVILEGES = 38
_AMBIENT, _AMBIENT_CLEAR_ALL = 47, 4
_SECCOMP_FILTER = 2

# Calls without a function in every C library, and those that a filter refuses: the same on all machines but for these.
_PIDFD_SEND_SIGNAL = 424
_OPEN_TREE = 428
_MOVE_MOUNT = 429
_PIDFD_OPEN = 434
_MOUNT_SETATTR = 442
_IO_URING_SETUP = 425
_MEMFD_SECRET = 447


@dataclass(frozen=True)
class _Machine:
    """Numbers of system calls on one kind of processor; ``audit`` is its name in seccomp(2)."""

    audit: int
    pivot_root: int
    socket: int
    memfd_create: int
    shmget: int
    refused: tuple[int, ...]


# Refused: keys of the user's session are in no namespace (add_key, request_key, keyctl); the rest no program that
# trains calls, and faults of the kernel have often been reached through it (bpf, perf_event_open, userfaultfd,
# open_by_handle_at, kexec_load, io_uring_setup); memfd_secret hides memory from those who count it.
_MACHINES = {
    "x86_64": _Machine(0xC000003E, 155, 41, 319, 29, (248, 249, 250, 321, 298, 323, 304, 246)),
    "aarch64": _Machine(0xC00000B7, 41, 198, 279, 194, (217, 218, 219, 280, 241, 282, 265, 104)),
}
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)  # the last is AF_NETLINK: getifaddrs(3)


def knows_this_machine() -> bool:
    return platform.machine() in _MACHINES and struct.calcsize("P") == 8


def _machine() -> _Machine:
    return _MACHINES[platform.machine()]


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _called(name: str, result: int) -> None:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _syscall(name: str, number: int, *arguments: int | bytes | None) -> int:
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result: int = _library().syscall(ctypes.c_long(number), *words)
    _called(name, result)
    return result


def _path(path: str | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


# --- namespaces and mounts -----------------------------------------------------------------------------------------


def unshare(namespaces: int) -> None:
    """unshare(2): the calling process gets namespaces of its own; its children, in the case of processes."""
    _called("unshare", _library().unshare(namespaces))


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2)"""
    flag_word = ctypes.c_ulong(flags)
    arguments = (_path(source), _path(target), _path(kind), flag_word, _path(options))
    _called(f"mount {target}", _library().mount(*arguments))


def unmount(target: str) -> None:
    """umount2(2) with MNT_DETACH: what is mounted there can be reached by no path any more."""
    _called(f"umount {target}", _library().umount2(_path(target), DETACH))


def restrict_mounts(target: str, attributes: int) -> None:
    """mount_setattr(2): further attributes for a mount and all mounts below it, which keep those that they have."""
    setting = struct.pack("=QQQQ", attributes, 0, 0, 0)
    _syscall(f"mount_setattr {target}", _MOUNT_SETATTR, _AT_FDCWD, _path(target), _AT_RECURSIVE, setting, len(setting))


def mount_with_owners(source: str, target: str, users: int) -> None:
    """A folder mounted once more, with the owners that a user namespace's map gives it: ID-mapped, mount_setattr(2)."""
    flags = _COPY_TREE | _CLOSE_ON_EXEC
    tree = _syscall(f"open_tree {source}", _OPEN_TREE, _AT_FDCWD, _path(source), flags)
    try:
        setting = struct.pack("=QQQQ", _MAP_OWNERS, 0, 0, users)
        _syscall(f"mount_setattr {source}", _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, setting, len(setting))
        _syscall(f"move_mount {target}", _MOVE_MOUNT, tree, b"", _AT_FDCWD, _path(target), _MOVE_DESCRIPTOR)
    finally:
        os.close(tree)


def make_root(folder: str) -> None:
    """pivot_root(2), the way in which its page describes ``pivot_root(".", ".")``: the old root is gone afterwards."""
    os.chdir(folder)
    _syscall("pivot_root", _machine().pivot_root, b".", b".")
    unmount(".")
    os.chdir("/")


def start_loopback() -> None:
    """netdevice(7): the loopback device of a new network namespace is down."""
    up, running = 0x1, 0x40
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        fcntl.ioctl(some, 0x8914, struct.pack("16sH14s", b"lo", up | running, b""))  # SIOCSIFFLAGS


# --- processes -----------------------------------------------------------------------------------------------------


def _prctl(name: str, *arguments: int) -> None:
    words = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5]]
    _called(name, _library().prctl(*words))


def die_with_parent(signal: int) -> None:
    """PR_SET_PDEATHSIG. It is forgotten when the process changes its user."""
    _prctl("PR_SET_PDEATHSIG", _SET_PARENT_DEATH_SIGNAL, signal)


def process_descriptor(process: int) -> int:
    """pidfd_open(2): a descriptor that means this process for good. It can be read once the process has ended."""
    return _syscall("pidfd_open", _PIDFD_OPEN, process, 0)


def send_signal(descriptor: int, signal: int) -> None:
    """pidfd_send_signal(2)"""
    _syscall("pidfd_send_signal", _PIDFD_SEND_SIGNAL, descriptor, signal, None, 0)


def set_dumpable(dumpable: bool) -> None:
    """PR_SET_DUMPABLE: ptrace(2) does not reach processes that are not, nor do their files in /proc."""
    _prctl("PR_SET_DUMPABLE", _SET_DUMPABLE, int(dumpable))


def bound_capabilities() -> None:
    """capabilities(7): no program that is started later gets any."""
    for capability in range(int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="ascii")) + 1):
        _prctl("PR_CAPBSET_DROP", _DROP_BOUNDING, capability)


def drop_capabilities() -> None:
    """capabilities(7): the process has none any more, and no_new_privs keeps programs from giving it any."""
    _prctl("PR_CAP_AMBIENT", _AMBIENT, _AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _called("capset", _library().capset(header, bytes(24)))
    _prctl("PR_SET_NO_NEW_PRIVS", _SET_NO_NEW_PRIVILEGES, 1)


class _Filter(ctypes.Structure):
    """``struct sock_fprog`` of seccomp(2)."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def filter_calls(memory_files: bool) -> None:
    """seccomp(2): system calls that namespaces do not confine fail, as if the kernel had none such.

    So do sockets but those of files and of the Internet: others, as AF_VSOCK to the host of a virtual machine, are in
    no network namespace. Without ``memory_files``, so do memfd_create(2) and shmget(2): nothing else would count what
    they take.
    """
    load, jump_if_equal, jump_if_at_least, give = 0x20, 0x15, 0x35, 0x06
    allowed, refused = 0x7FFF0000, 0x00050000
    number, architecture, first_argument = 0, 4, 16
    machine = _machine()
    unknown = refused | errno.ENOSYS
    calls = [*machine.refused, _IO_URING_SETUP, _MEMFD_SECRET]
    if not memory_files:
        calls += [machine.memfd_create, machine.shmget]
    program = [
        (load, 0, 0, architecture),
        (jump_if_equal, 1, 0, machine.audit),
        (give, 0, 0, unknown),
        (load, 0, 0, number),
        (jump_if_at_least, 0, 1, 0x40000000),  # x32: the same calls under other numbers
        (give, 0, 0, unknown),
    ]
    for call in calls:
        program += [(jump_if_equal, 0, 1, call), (give, 0, 0, unknown)]
    program += [(jump_if_equal, 1, 0, machine.socket), (give, 0, 0, allowed), (load, 0, 0, first_argument)]
    for family in _FAMILIES:
        program += [(jump_if_equal, 0, 1, family), (give, 0, 0, allowed)]
    program.append((give, 0, 0, refused | errno.EAFNOSUPPORT))
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    setting = _Filter(len(program), packed)
    mode = ctypes.c_ulong(_SECCOMP_FILTER)
    _called("seccomp", _library().prctl(_SET_SECCOMP, mode, ctypes.byref(setting)))
