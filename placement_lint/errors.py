"""When the tool cannot do its work at all: bad arguments, a bad configuration, a missing path."""

from __future__ import annotations


class UsageError(Exception):
    """The request itself is wrong; the commands print the message and exit with status 2."""
