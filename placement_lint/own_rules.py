"""The tool's own rules, about files and suppression comments. They have pages and no listeners."""

from __future__ import annotations

from placement_lint.finding import Severity
from placement_lint.rule import Page, Rule

UNREADABLE_SOURCE = Rule(
    code="DPL001",
    name="unreadable-source",
    severity=Severity.ERROR,
    page=Page(
        what="Reports a file that cannot be opened, decoded or parsed as Python 3.",
        why=("Such a file is not checked. Without a finding it would look clean, and its bugs would go unnoticed."),
        example="print 'hello'\n",
        instead="print('hello')\n",
        silent=(
            "The file is excluded, or has a comment `# placement-lint: skip-file` at its top. "
            "Syntax that is newer than the running Python is accepted. "
            "A file in which `async` or `await` is a name, as before Python 3.7, is reported and checked all the same."
        ),
        fix="Correct the syntax or the encoding, or exclude the file.",
    ),
)

UNUSED_SUPPRESSION = Rule(
    code="DPL002",
    name="unused-suppression",
    severity=Severity.WARNING,
    page=Page(
        what=(
            "Reports `# placement-lint: ignore[...]` and `# noqa: DPL...` comments that suppress nothing, "
            "and a `skip-file` comment that is not at the top of its file."
        ),
        why="A comment that outlives its bug hides the next one on the same line.",
        example="import torch\n\nx = torch.zeros(2)  # placement-lint: ignore[move-result-discarded]\n",
        instead="import torch\n\nx = torch.zeros(2)\n",
        silent=(
            "The comment names a rule that is not selected in this run, or is a bare `# noqa`, "
            "which may be meant for another tool. A file of the project that is not part of this run imports the "
            "file: its calls may lead to a finding on the line."
        ),
        fix="Remove the comment, or the part of it that names the rule.",
    ),
)

UNKNOWN_RULE_IN_SUPPRESSION = Rule(
    code="DPL003",
    name="unknown-rule-in-suppression",
    severity=Severity.WARNING,
    page=Page(
        what="Reports a suppression comment with a rule or a word that does not exist.",
        why="It suppresses nothing: the finding that it should suppress is still reported, or will be later.",
        example="import torch\n\nx = torch.zeros(2)  # placement-lint: ignore[move-result-discraded]\n",
        instead="import torch\n\nx = torch.zeros(2)\n",
        silent="The codes of other tools in a `# noqa` comment are ignored.",
        fix="Use the name that the message suggests.",
    ),
)

RULES = (UNREADABLE_SOURCE, UNUSED_SUPPRESSION, UNKNOWN_RULE_IN_SUPPRESSION)
