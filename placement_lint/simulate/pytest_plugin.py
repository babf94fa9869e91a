"""pytest plugin: the fixture ``simulated_gpus`` and the marker ``@pytest.mark.gpus(n, device="cuda")``.

PyTorch is imported when a test asks for GPUs, not before. The traceback of such a test ends in the user's line, and the
report has the account of the operands that were on different devices; ``--full-trace`` shows all frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from .machine import Machine

# By kind of GPU; MPS has one.
DEFAULT_COUNT = {"mps": 1}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpus(n, device='cuda'): run the test on n simulated GPUs")


@pytest.fixture
def simulated_gpus(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The simulated machine the test runs on: two GPUs of CUDA, or what ``@pytest.mark.gpus(1, device="mps")`` says."""
    from . import gpus
    from .journal import Journal

    marker = request.node.get_closest_marker("gpus")
    device = marker.kwargs.get("device", "cuda") if marker else "cuda"
    count = marker.args[0] if marker and marker.args else DEFAULT_COUNT.get(device, 2)
    with gpus(count, device=device, observer=Journal()) as machine:
        yield machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marked test uses the fixture without naming it."""
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker("gpus") and "simulated_gpus" not in names:
            names.insert(0, "simulated_gpus")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten the traceback of a failed simulated test and say where the operands came from."""
    machine: Machine | None = getattr(item, "funcargs", {}).get("simulated_gpus")
    failure = call.excinfo
    if machine is None or failure is None:
        return (yield)
    if not item.config.getoption("fulltrace", False):
        _shorten(failure)
    report = yield
    text = _account(machine, failure.value)
    if text and report.failed:
        report.sections.append(("simulated GPUs", text))
    return report


def _shorten(failure: pytest.ExceptionInfo[BaseException]) -> None:
    from .tracebacks import shortened_copy

    if (copy := shortened_copy(failure.tb)) is not None:
        failure.traceback = type(failure.traceback)(copy)


def _account(machine: Machine, error: BaseException) -> str:
    """The operands of the refusal behind an error, as the runner prints them."""
    from .journal import Journal
    from .report import account, aligned

    refusal = machine.observer.refusal_behind(error) if isinstance(machine.observer, Journal) else None
    return "\n".join(aligned(account(refusal))) if refusal else ""
