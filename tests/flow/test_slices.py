"""Slices of containers of modules of which only some are known."""

from __future__ import annotations

import textwrap

from placement_lint.checking.listen import problems_in
from placement_lint.registry import all_rules
from placement_lint.source.parsing import parse

PROGRAM = """
    from placement_lint import reveal_placement
    from torch import nn
    from torchvision.models import vgg16

    encoder = nn.Sequential(*list(vgg16().features)[:30])
    decoder = [nn.Conv2d(512, 1, 1), nn.Sigmoid()]
    layers = nn.Sequential(*(list(encoder.children()) + decoder)).cuda()
    reveal_placement(layers[:30])
"""


def test_a_slice_of_unknown_layers_is_where_their_container_is() -> None:
    rule = next(rule for rule in all_rules() if rule.code == "DPL004")
    ((_, problem),) = problems_in(parse(textwrap.dedent(PROGRAM)), [rule]).problems
    assert problem.message == "`layers[:30]`: module of unknown class on cuda:0"
