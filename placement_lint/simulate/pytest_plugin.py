"""pytest plugin: the fixture ``simulated_gpus`` and the marker ``@pytest.mark.gpus(n)``.

PyTorch is imported when a test asks for GPUs, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .machine import Machine

DEFAULT_COUNT = 2


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpus(n): run the test on n simulated GPUs")


@pytest.fixture
def simulated_gpus(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The simulated machine the test runs on: two GPUs, or as many as ``@pytest.mark.gpus(n)`` says."""
    from . import gpus

    marker = request.node.get_closest_marker("gpus")
    with gpus(marker.args[0] if marker and marker.args else DEFAULT_COUNT) as machine:
        yield machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marked test uses the fixture without naming it."""
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker("gpus") and "simulated_gpus" not in names:
            names.insert(0, "simulated_gpus")
