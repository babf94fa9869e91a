"""The log of placements, from which an editor gets the placements of a program's names."""

from __future__ import annotations

import textwrap
from pathlib import Path

import libcst as cst
import pytest

from placement_lint.checking.listen import problems_in
from placement_lint.flow.driver.analyse import analyse
from placement_lint.flow.observers.placements import PlacementLog
from placement_lint.registry import all_rules
from placement_lint.source.parsing import parse

PROGRAMS = sorted((Path(__file__).parents[2] / "fixtures" / "programs").glob("*.py"))


def logged(text: str) -> PlacementLog:
    log = PlacementLog()
    analyse(cst.parse_module(textwrap.dedent(text)), log)
    return log


def places(text: str) -> list[tuple[str, list[str] | None]]:
    """The name and places of every assignment, in program order."""
    return [
        (each.name, None if each.places is None else list(each.places)) for each in logged(text).placements.values()
    ]


def test_a_tensor_on_its_way() -> None:
    found = places(
        """
        import torch
        x = torch.zeros(3)
        x = x.to("cuda:1")
        y = x + 1
        """
    )
    assert found == [("x", ["cpu"]), ("x", ["cuda:1"]), ("y", ["cuda:1"])]


def test_a_module_moved_and_wrapped() -> None:
    log = logged(
        """
        import torch
        from torch import nn
        net = nn.Linear(2, 2)
        net.cuda()
        net = nn.DataParallel(net, device_ids=[0, 1])
        """
    )
    bare, wrapped = log.placements.values()
    assert (list(bare.places or ()), list(wrapped.places or ())) == (["cpu"], ["cuda:0 → DataParallel[0,1]"])
    assert [note.message for note in bare.trace] == [
        "`Linear` is built on the CPU here",
        "moved to cuda:0 here",
        "`net` is wrapped in DataParallel here",
    ]


def test_a_model_in_parts_has_the_places_of_all() -> None:
    found = places(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(2, 2).to("cuda:0")
                self.b = nn.Linear(2, 2).to("cuda:1")
        net = Net()
        """
    )
    assert set(dict(found)["net"] or ()) == {"cuda:0", "cuda:1"}


def test_a_choice_has_the_places_of_both() -> None:
    found = places(
        """
        import torch
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        x = torch.zeros(3, device=device)
        """
    )
    assert found == [("device", []), ("x", ["cuda:0", "cpu"])]


@pytest.mark.parametrize(
    "assignment", ["x = torch.zeros(3, device=args.device)", "x = args.x", "x = args.x.cuda() + args.y"]
)
def test_what_is_not_known_is_not_said(assignment: str) -> None:
    assert all(not each for _, each in places(f"import torch\n{assignment}\n"))


def test_a_parameter_is_where_the_callers_put_it() -> None:
    log = logged(
        """
        import torch
        def train(x):
            return x + 1
        train(torch.zeros(3).to("cuda:0"))
        train(torch.zeros(3).to("cuda:1"))
        """
    )
    (parameter,) = log.placements.values()
    assert (parameter.name, list(parameter.places or ())) == ("x", ["cuda:0", "cuda:1"])
    assert isinstance(parameter.scope, cst.FunctionDef)


def test_an_attribute_of_self_belongs_to_the_class() -> None:
    log = logged(
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
        Net()
        """
    )
    (placement,) = (each for each in log.placements.values() if each.name == "self.fc")
    assert isinstance(placement.scope, cst.ClassDef)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_who_keeps_a_log_finds_the_same(path: Path) -> None:
    module = parse(path.read_text(encoding="utf-8"))
    rules = [rule for rule in all_rules() if rule.listens]
    alone, watched = (problems_in(module, rules, log) for log in (None, PlacementLog()))
    assert not watched.crashes
    assert watched.problems == alone.problems
