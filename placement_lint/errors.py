"""When the tool cannot do its work at all: bad arguments, a bad configuration, a missing path."""

from __future__ import annotations

from importlib.util import find_spec


class UsageError(Exception):
    """The request itself is wrong; the commands print the message and exit with status 2."""


def require_torch(command: str) -> None:
    """Refuse what cannot be done without PyTorch, which linting does not need."""
    if find_spec("torch") is None:
        raise UsageError(f"`{command}` needs PyTorch: pip install torch")


def require_pygls() -> None:
    """Refuse to serve an editor without the libraries that speak its protocol."""
    if find_spec("pygls") is None or find_spec("lsprotocol") is None:
        raise UsageError("`server` needs pygls and lsprotocol: pip install pygls lsprotocol")
