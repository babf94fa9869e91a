"""Puts stand-ins in place."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any

from placement_lint.probe.standins.data import install_data
from placement_lint.probe.standins.files import install_files
from placement_lint.probe.standins.models import Classifying, Outputs, Residual
from placement_lint.probe.standins.options import install_options
from placement_lint.probe.standins.packages import install_packages
from placement_lint.probe.standins.shapes import install_shapes
from placement_lint.probe.standins.texts import Line, Named, Parts, Word
from placement_lint.probe.standins.things import Derived, Mapping, StandIn


def name_classes() -> None:
    """Let pickle find the classes of stand-ins: they are defined in a function."""
    home: Any = types.ModuleType("__stand_ins__")
    sys.modules[home.__name__] = home
    for kind in (StandIn, Derived, Mapping, Word, Named, Line, Parts, Outputs, Residual, Classifying):
        kind.__module__, kind.__qualname__ = home.__name__, kind.__name__
        setattr(home, kind.__name__, kind)


def install(
    packages: tuple[str, ...],
    everything: bool,
    workers: bool,
    saved_on: str,
    unset: tuple[str, ...] = (),
    full: bool = False,
) -> None:
    """Put stand-ins in place.

    If ``everything`` is there, so are options and files that a program can do without, but for options that stay
    ``unset``.
    """
    builtins.__dict__["__stand_in__"] = StandIn
    name_classes()
    install_packages(packages)
    install_shapes()
    install_data(workers, full)
    install_options(everything, unset)
    install_files(everything, saved_on)
