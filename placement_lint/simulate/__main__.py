"""``python -m placement_lint.simulate --gpus 2 script.py args…``"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .machine import KINDS
from .memory import parse_size
from .runner import run_script


def main() -> int:
    parser = argparse.ArgumentParser(prog="placement_lint.simulate", description="Run a program on simulated GPUs.")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="how many GPUs the program sees")
    parser.add_argument("--device", choices=KINDS, default="cuda", help="the kind of GPU")
    parser.add_argument("--memory", type=parse_size, metavar="SIZE", help="memory of each GPU, such as 24GiB")
    parser.add_argument("--trace", action="store_true", help="print a table of the moves between devices")
    parser.add_argument("-m", dest="module", action="store_true", help="the target is a module, not a script")
    parser.add_argument("target", help="the script or the module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="what the program sees as its arguments")
    given = parser.parse_args()
    return run_script(given.target, given.args, given.gpus, **_options(given))


def _options(given: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(given, name) for name in ("module", "trace", "memory", "device")}


if __name__ == "__main__":
    sys.exit(main())
