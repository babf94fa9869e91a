"""Comments that suppress findings, and reports on comments that suppress nothing."""

from __future__ import annotations

import pytest

from placement_lint.checking.checker import Checker, Job

pytestmark = pytest.mark.usefixtures("fake_rules")


def findings(job: Job, text: str) -> list[tuple[str, int]]:
    checked = Checker(job).check_bytes(b"import torch\n" + text.encode(), "train.py")
    return [(finding.code, finding.range.line) for finding in checked.findings]


@pytest.mark.parametrize(
    "line",
    [
        "bad()  # placement-lint: ignore[bad-call]",
        "bad()  # placement-lint: ignore[DPL301]",
        "bad()  # placement-lint: ignore[DPL3]",
        "bad()  # placement-lint: ignore[state]",
        "bad()  # placement-lint:ignore[ dpl301 ]",
        "bad(); worse()  # placement-lint: ignore[bad-call, DPL302]",
        "bad()  # placement-lint: ignore",
        "bad()  # type: ignore  # placement-lint: ignore[bad-call] because of reasons",
        "bad()  # noqa: DPL301",
        "bad()  # noqa:DPL301",
        "bad()  # NOQA: E501, DPL301",
        "bad()  # noqa: E501 DPL301",
        "bad()  # noqa",
        "good(  # placement-lint: ignore[bad-call]\n    bad(),\n)",
        "good(\n    bad(),  # placement-lint: ignore[bad-call]\n)",
        "good(\n    bad(),\n)  # placement-lint: ignore[bad-call]",
        "bad(\n    1,\n)  # noqa: DPL301",
        "s = '''\n''', bad()  # noqa: DPL301",
    ],
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_suppressed(job: Job, line: str, end: str) -> None:
    assert findings(job, line + end) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bad()\n", [("DPL301", 2)]),
        ("bad('# placement-lint: ignore[bad-call]')\n", [("DPL301", 2)]),
        ("bad()  # placement-lint: ignore[worse-call]\n", [("DPL301", 2), ("DPL002", 2)]),
        ("bad()  # placement-lint: ignore[bda-call]\n", [("DPL301", 2), ("DPL003", 2)]),
        ("bad()  # noqa: E501\n", [("DPL301", 2)]),
        ("bad()  # noqa: DPL302\n", [("DPL301", 2), ("DPL002", 2)]),
        ("bad()  # noqa: DPL999\n", [("DPL301", 2), ("DPL003", 2)]),
        ("bad()  # placement-lint: ignroe\n", [("DPL301", 2), ("DPL003", 2)]),
        ("# placement-lint: ignore[bad-call]\nbad()\n", [("DPL002", 2), ("DPL301", 3)]),
        ("good()  # placement-lint: ignore\n", [("DPL002", 2)]),
        ("good()  # noqa\n", []),
        ("good()  # noqa: E501\n", []),
        ("good()  # placement-lint: skip-file\nbad()\n", [("DPL002", 2), ("DPL301", 3)]),
        ("if bad():  # placement-lint: ignore[bad-call]\n    bad()\n", [("DPL301", 3)]),
    ],
)
def test_not_suppressed(job: Job, line: str, expected: list[tuple[str, int]]) -> None:
    assert findings(job, line) == expected


def test_the_nearest_rule_is_named(job: Job) -> None:
    checked = Checker(job).check_bytes(b"x = 1  # placement-lint: ignore[bda-call]\n", "train.py")
    (finding,) = checked.findings
    assert "did you mean `bad-call`?" in finding.message
    assert (finding.range.column, finding.range.end_column) == (33, 41)


def test_a_rule_that_does_not_run_leaves_no_unused_comment(job: Job) -> None:
    narrow = Job(job.settings, select=("DPL302", "DPL002"))
    assert findings(narrow, "good()  # placement-lint: ignore[bad-call]\n") == []
    assert findings(narrow, "good()  # placement-lint: ignore\n") == []
    assert findings(narrow, "good()  # placement-lint: ignore[DPL302]\n") == [("DPL002", 2)]


def test_reports_on_comments_can_be_switched_off(job: Job) -> None:
    quiet = Job(job.settings, ignore=("tool",))
    assert findings(quiet, "good()  # placement-lint: ignore[nonsense]\n") == []


@pytest.mark.parametrize("top", ["", "#!/usr/bin/env python\n", "# a licence\n\n"])
@pytest.mark.parametrize("rest", ["bad()\n", "print 'Python 2'\n", "(" * 5000])
def test_skip_file_at_the_top_skips_whatever_follows(job: Job, top: str, rest: str) -> None:
    text = f"{top}# placement-lint: skip-file\nimport torch\n{rest}"
    checked = Checker(job).check_bytes(text.encode(), "train.py")
    assert checked.skipped
    assert not checked.findings
