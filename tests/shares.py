"""Selects the part of a long test to run: a different part each day, so that all parts run within a month.

``SHARE=3`` runs the part with that number, and ``SHARE=all`` all parts.
"""

from __future__ import annotations

import os
from datetime import date
from zlib import crc32

VARIABLE, ALL = "SHARE", "all"
SHARES = 28

# Test files that start many programs: a seventh of their tests runs each day, all within a week.
ROTATING = {
    "flow/test_prospects.py",
    "flow/test_renewal.py",
    "probe/test_escapes.py",
    "probe/test_findings.py",
    "probe/test_hostile.py",
    "probe/test_led_cases.py",
    "probe/test_leniency.py",
    "probe/test_replay.py",
    "probe/test_sandbox.py",
    "probe/test_saved.py",
    "probe/test_standins.py",
    "probe/test_trust.py",
    "probe/test_whole_programs.py",
    "server/test_latency.py",
    "server/test_outcomes.py",
    "server/test_server_robustness.py",
    "server/test_server_settings.py",
    "server/test_splicing.py",
    "simulate/test_processes.py",
    "test_bad_input.py",
    "test_executors.py",
    "test_fuzz.py",
}
PARTS = 7


def chosen() -> int | None:
    """The number of the share to run, None for all shares."""
    asked = os.environ.get(VARIABLE, "")
    if asked == ALL:
        return None
    return int(asked) % SHARES if asked else date.today().toordinal() % SHARES


def runs(name: str, parts: int = SHARES) -> bool:
    """Whether the test of this name is in the chosen share, of this many ``parts``."""
    share = chosen()
    return share is None or crc32(name.encode()) % parts == share % parts


def described() -> str:
    share = chosen()
    return f"all {SHARES} shares" if share is None else f"share {share} of {SHARES} ({VARIABLE}={share} repeats it)"
