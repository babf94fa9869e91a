"""Values that a test of a variable excludes stay excluded after it, however many cases lead there."""

from __future__ import annotations

import textwrap

import pytest

from placement_lint.checking.listen import problems_in
from placement_lint.registry import all_rules
from placement_lint.source.parsing import parse

PROGRAM = """
    import argparse
    import os

    import torch
    from placement_lint import reveal_placement

    parser = argparse.ArgumentParser()
    for option in ("--paired", "--mixed", "--cropped", "--turned", "--several", "--flipped"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--rank", type=int, default=0)
    args = parser.parse_args()
    batch = torch.randn(3)
    if args.rank == 0:
        batch = [batch] if args.paired else batch
    elif args.rank == 1:
        batch = [batch] if args.mixed else batch
    elif "RANK" in os.environ and args.several:
        batch = [batch] if args.cropped else batch
    elif args.flipped:
        batch = [batch] if args.turned else batch
    else:
        raise SystemExit
"""

LIST, TENSOR = "list of 1 items", "tensor on the CPU"


def revealed(end: str) -> str:
    rule = next(rule for rule in all_rules() if rule.code == "DPL004")
    ((_, problem),) = problems_in(parse(textwrap.dedent(PROGRAM) + textwrap.dedent(end)), [rule]).problems
    return problem.message


@pytest.mark.parametrize(
    ("end", "there", "gone"),
    [
        ("reveal_placement(batch)", (LIST, TENSOR), ()),
        (
            """
            if isinstance(batch, list):
                raise SystemExit
            reveal_placement(batch)
            """,
            (TENSOR,),
            (LIST,),
        ),
        (
            """
            if not isinstance(batch, (list, tuple)):
                raise SystemExit
            reveal_placement(batch)
            """,
            (LIST,),
            (TENSOR,),
        ),
        (
            """
            assert isinstance(batch, torch.Tensor)
            reveal_placement(batch)
            """,
            (TENSOR,),
            (LIST,),
        ),
        ("print(reveal_placement(batch) if isinstance(batch, torch.Tensor) else 0)", (TENSOR,), (LIST,)),
        (
            """
            if isinstance(batch, list):
                print(len(batch))
            reveal_placement(batch)
            """,
            (LIST, TENSOR),
            (),
        ),
        (
            """
            if isinstance(batch, list) and args.rank:
                raise SystemExit
            reveal_placement(batch)
            """,
            (LIST, TENSOR),
            (),
        ),
    ],
)
def test_behind_a_test(end: str, there: tuple[str, ...], gone: tuple[str, ...]) -> None:
    known = revealed(end)
    assert all(words in known for words in there), known
    assert not any(words in known for words in gone), known
