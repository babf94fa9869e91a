"""The parts of a program that a slice keeps, and those that it omits."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

from replaying import accused, case_of, sliced

from placement_lint.probe.replay import Repair
from placement_lint.rule import Line, Note

HEAD = "import torch\nfrom torch import nn\n"


def test_what_nothing_depends_on_is_left_out() -> None:
    text = """
    import sys
    import torch
    from torch import nn

    torch.manual_seed(0)
    print(sys.version)
    other = nn.Linear(2, 2)
    model = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    y = x * 2
    optimizer.zero_grad()
    out = model(x)
    out.sum().backward()
    """
    assert sliced(dedent(text), "DPL503") == dedent(
        """\
        import torch
        from torch import nn

        torch.manual_seed(0)
        model = nn.Linear(4, 2).cuda()  # <-- moved to cuda:0 here
        x = torch.randn(8, 4)  # <-- `randn` makes a tensor on the CPU here
        out = model(x)  # <-- DPL503 operand-not-moved
        """
    )


def test_functions_on_the_way_come_with_what_counts_alone() -> None:
    text = """
    import torch
    from torch import nn


    def build(width, unused=None):
        model = nn.Linear(4, width)
        return model


    def evaluate(model, data):
        total = 0
        for x in data:
            total += 1
            out = model(x)
            print(out)
        return total


    def main():
        model = build(2).cuda()
        data = [torch.randn(8, 4) for _ in range(4)]
        best = None
        for epoch in range(30):
            score = evaluate(model, data)
            if best is None or score > best:
                best = score


    if __name__ == "__main__":
        main()
    """
    slice_ = sliced(dedent(text), "DPL503")
    assert "for epoch in islice(range(30), 2):\n        evaluate(model, data)\n" in slice_
    assert "for x in islice(data, 2):" in slice_
    assert "return model" in slice_
    for gone in ("total", "best", "score", "print"):
        assert gone not in slice_


def test_branches_and_answers_are_those_under_which_it_shows() -> None:
    text = """
    import argparse
    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--parallel", action="store_true")
    args = parser.parse_args()
    model = nn.Linear(4, 2).cuda()
    if args.parallel:
        model = nn.DataParallel(model)
    print(model.weight)
    """
    slice_ = sliced(dedent(text), "DPL101")
    assert 'parser.add_argument("data")' in slice_
    assert "if True:\n    model = nn.DataParallel(model)" in slice_


def test_as_many_rounds_as_a_condition_on_their_number_asks_for() -> None:
    text = HEAD + (
        "net = nn.Linear(4, 2).cuda()\nfor i, (x, y) in enumerate([(torch.randn(8, 4), 0)] * 9):\n"
        "    if i > 5:\n        net(x)\n"
    )
    assert "[(torch.randn(8, 4), 0)] * 9), 7)" in accused(text, "net(x)", "net(x.cuda())").smallest.text


def test_a_branch_of_a_branch() -> None:
    text = HEAD + (
        "net = nn.Linear(4, 2).cuda()\nx = torch.randn(8, 4)\nif len(x) > 9:\n    print(x)\n"
        "elif net(x) is not None:\n    print(net)\n"
    )
    case = accused(text, "net(x)", "net(x.cuda())", led=["torch.randn(8, 4)"])
    assert "elif net(x) is not None:  # <-- DPL503" in case.smallest.text
    (whole, *_) = case.wholes()
    lines = (Line(case.problem.node, "print(x)", before=True),)
    added = case.scripted(whole, Repair({}, lines))
    assert "else:\n    print(x)\n    if net(x) is not None:  # <-- DPL503" in added.text
    assert added.quoted(added.line) == "if net(x) is not None:"


def test_a_handler_does_not_hide_the_fault() -> None:
    text = HEAD + "model = nn.Linear(4, 2).cuda()\ntry:\n    model(torch.randn(8, 4))\nexcept RuntimeError:\n    pass\n"
    assert "try" not in sliced(text, "DPL503")


def test_methods_that_nobody_calls_are_left_out() -> None:
    text = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.head(x)

        def head(self, x):
            return self.fc(x)

        def describe(self):
            return "a net"


    model = Net().cuda()
    print(model.describe())
    model(torch.randn(8, 4))
    """
    slice_ = sliced(dedent(text), "DPL503")
    assert "def head" in slice_
    assert "describe" not in slice_


def test_a_file_that_is_loaded_is_saved_first() -> None:
    text = """
    import torch
    from torch import nn

    model = nn.DataParallel(nn.Linear(4, 2))
    torch.save(model.state_dict(), "net.pt")
    net = nn.Linear(4, 2)
    net.load_state_dict(torch.load("net.pt"))
    """
    assert "torch.save(model.state_dict()" in sliced(dedent(text), "DPL103")


def test_a_message_of_several_lines_is_a_comment_of_one() -> None:
    text = HEAD + (
        "model = nn.Linear(\n    4,\n    2,\n)\nif torch.cuda.device_count() > 1:\n"
        "    model = nn.DataParallel(\n        model,\n    )\nprint(model.module.weight)\n"
    )
    case = case_of(text, "DPL121")
    note = Note(case.problem.node, "`nn.DataParallel(\n    model,\n)` wraps it")
    told = replace(case, problem=replace(case.problem, node=case.problem.trace[0].node, trace=(note,)))
    assert "  # <-- `nn.DataParallel( model, )` wraps it\n" in told.smallest.text
