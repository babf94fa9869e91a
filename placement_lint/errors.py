"""When the tool cannot do its work at all: bad arguments, a bad configuration, a missing path."""

from __future__ import annotations

from importlib.util import find_spec


class UsageError(Exception):
    """The request itself is wrong; the commands print the message and exit with status 2."""


def require_torch(command: str) -> None:
    """Refuse what cannot be done without PyTorch, which linting does not need."""
    if find_spec("torch") is None:
        raise UsageError(f"`{command}` needs PyTorch: pip install 'placement-lint[probe]'")
