"""The type of models of calls: each library's file lists them by the names of the functions, in ``CALLS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import Value
from placement_lint.flow.state.machine import Machine

Handler: TypeAlias = Callable[[Machine, str, Arguments, cst.Call], Value]
Handlers: TypeAlias = Mapping[str, Handler]
