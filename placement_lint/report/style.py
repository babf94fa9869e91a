"""The style of a report for people: its extra lines, and whether it uses colour."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

COLORS = ("auto", "always", "never")


@dataclass(frozen=True)
class Style:
    """``brief`` reports have findings only, without a summary; ``unsafe`` ones count unsafe fixes as fixable."""

    color: str = "auto"
    brief: bool = False
    unsafe: bool = False

    def colors(self, stream: TextIO) -> bool:
        """Whether to write colours: by default on a terminal, unless NO_COLOR or FORCE_COLOR decides."""
        if self.color != "auto":
            return self.color == "always"
        return not os.environ.get("NO_COLOR") and (bool(os.environ.get("FORCE_COLOR")) or stream.isatty())
