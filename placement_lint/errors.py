"""Errors that prevent a run: bad arguments, a bad configuration, a missing path."""

from __future__ import annotations

from importlib.util import find_spec


class UsageError(Exception):
    """The request itself is wrong; the commands print the message and exit with status 2."""


def require_torch(command: str) -> None:
    """Raise UsageError if PyTorch, which linting does not need, is not installed."""
    if find_spec("torch") is None:
        raise UsageError(f"`{command}` needs PyTorch: pip install torch")


def require_pygls() -> None:
    """Raise UsageError if the libraries for the editor protocol are not installed."""
    if find_spec("pygls") is None or find_spec("lsprotocol") is None:
        raise UsageError("`server` needs pygls and lsprotocol: pip install pygls lsprotocol")
