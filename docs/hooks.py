"""MkDocs hooks: generate the rule pages and the reference tables from the code.

A rule page is generated for every rule of this distribution. In other pages, a comment such as ``<!-- keys -->`` stands
for a generated table. ``docs/experiments.json`` records the outcome of every experiment; a test compares it with what
the experiments do. Record it again with
``placement-lint probe --probe simulated --format json > docs/experiments.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placement_lint.cli import commands, pages
from placement_lint.config.settings import KEYS, Settings, field_of
from placement_lint.registry import FAMILIES, all_rules, family_name
from placement_lint.report.formats import FORMATS
from placement_lint.rule import Rule

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

EXPERIMENTS = Path(__file__).parent / "experiments.json"
TITLES = {
    "tool": ("The tool itself", "Files that cannot be read, and suppression comments."),
    "wrappers": ("Wrappers", "`DataParallel`, `DistributedDataParallel` and their replicas."),
    "optimizers": ("Optimizers", "Optimizers and schedulers that hold the wrong parameters."),
    "state": ("Module state", "Parameters, buffers, plain attributes and containers."),
    "devices": ("Devices", "Device ids, ranks and `CUDA_VISIBLE_DEVICES`."),
    "moves": ("Moves", "`.to()`, `.cuda()`, operands on different devices, and cut gradients."),
    "loading": ("Loading", "Data loaders, checkpoints and asynchronous copies."),
    "folklore": ("Folklore", "Patterns that are often called wrong and are not. Off unless you select them."),
}

RULES_INTRODUCTION = """\
# Rules

`placement-lint rules` lists the rules in the terminal and `placement-lint explain RULE` prints a page. The command line
and the configuration select rules by code (`DPL301`), prefix (`DPL3`), family (`state`) or name.

- **error**: the code raises or trains incorrectly whenever the condition holds.
- **warning**: the harm depends on data or hardware.
- **info**: advice."""

EXPERIMENT = """\
## Experiment

`placement-lint probe {code}` runs it on this machine.
[Confirmed and pattern](../concepts/verdicts.md) says what its verdict means.

| Claim | {claim} |
| --- | --- |
| Flagged code | {flagged} |
| Repaired code | {control} |
| Verdict | **{outcome}** ({device}) |"""

SUPPRESSION = """\
## How to suppress it

End the line with `# placement-lint: ignore[{name}]`, or set `ignore` or `per-file-ignores` in the
[configuration](../reference/configuration.md). See [Suppress findings](../guides/suppressing.md)."""

EXTEND_ROW = (
    "| `extend` | the path of a configuration |  "
    "| A configuration to start from. Its settings count as if this file contained them. |"
)


# --- MkDocs ------------------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the rule pages in the navigation, family by family."""
    assert config.nav is not None
    for entry in config.nav:
        if isinstance(entry, dict) and "Rules" in entry:
            entry["Rules"] = ["rules/index.md", *navigation()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for path, text in rule_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return filled(markdown)


def filled(markdown: str) -> str:
    """The page with every ``<!-- name -->`` of `TABLES` replaced."""
    for name, table in TABLES.items():
        marker = f"<!-- {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, table())
    return markdown


# --- rules -------------------------------------------------------------------------------------------------


def rule_pages() -> dict[str, str]:
    """The generated pages by their path below ``docs/``."""
    by_rule = {f"rules/{rule.name}.md": rule_page(rule) for rule in own_rules()}
    return {"rules/index.md": rules_index(), **by_rule}


def own_rules() -> list[Rule]:
    """The rules of this distribution."""
    return [rule for rule in all_rules() if rule.family in FAMILIES.values()]


def by_family() -> Iterator[tuple[str, list[Rule]]]:
    for family in FAMILIES:
        yield family, [rule for rule in own_rules() if family_name(rule) == family]


def navigation() -> list[dict[str, list[dict[str, str]]]]:
    return [
        {TITLES[family][0]: [{f"{rule.code} {rule.name}": f"rules/{rule.name}.md"} for rule in rules]}
        for family, rules in by_family()
    ]


def rules_index() -> str:
    parts = [RULES_INTRODUCTION]
    for family, rules in by_family():
        title, about = TITLES[family]
        rows = [
            f"| {rule.code} | [{rule.name}]({rule.name}.md) | {rule.severity.value} "
            f"| {in_cell(pages.first_sentence(rule.page.what))} |"
            for rule in rules
        ]
        parts += [f"## {title}", f"{about} Family `{family}`, prefix `{FAMILIES[family]}`."]
        parts.append("\n".join(("| Code | Name | Severity | Reports |", "| --- | --- | --- | --- |", *rows)))
    return "\n\n".join(parts) + "\n"


def rule_page(rule: Rule) -> str:
    parts = [f"# {rule.name} ({rule.code})", pages.facts(rule), *pages.sections(rule.page)]
    if rule.code in experiments():
        parts.append(EXPERIMENT.format_map({name: in_cell(text) for name, text in experiments()[rule.code].items()}))
    return "\n\n".join((*parts, SUPPRESSION.format(name=rule.name))) + "\n"


@cache
def experiments() -> dict[str, dict[str, str]]:
    """The recorded outcomes by code."""
    rows = json.loads(EXPERIMENTS.read_text(encoding="utf-8"))["rows"]
    return {row["code"]: row for row in rows}


# --- tables of the reference -------------------------------------------------------------------------------


def keys_table() -> str:
    rows = [EXTEND_ROW]
    for name, key in KEYS.items():
        rows.append(f"| `{name}` | {key.takes} | {default_of(name)} | {key.description} |")
    return "\n".join(("| Key | Value | Default | Meaning |", "| --- | --- | --- | --- |", *rows))


def default_of(name: str) -> str:
    value = getattr(Settings(), field_of(name))
    if value is None:
        return ""
    plain = getattr(value, "value", value)
    return f"`{json.dumps(dict(plain) if isinstance(plain, Mapping) else plain)}`"


def formats_table() -> str:
    rows = (f"| `{name}` | {description} |" for name, description in FORMATS.items())
    return "\n".join(("| Name | Output |", "| --- | --- |", *rows))


def experiments_table() -> str:
    rows = (
        f"| [{code}](../rules/{row['name']}.md) | {in_cell(row['claim'])} | {in_cell(row['flagged'])} "
        f"| {in_cell(row['control'])} | {row['outcome']} |"
        for code, row in experiments().items()
    )
    headings = "| Rule | Claim | Flagged code | Repaired code | Verdict |"
    return "\n".join((headings, "| --- | --- | --- | --- | --- |", *rows))


def commands_reference() -> str:
    return "\n\n".join(command_section(("placement-lint",), commands, None))


def command_section(words: tuple[str, ...], command: click.Command, parent: click.Context | None) -> Iterator[str]:
    """The section of a command and those of its subcommands."""
    context = click.Context(command, info_name=words[-1], parent=parent)
    usage = " ".join((" ".join(words), *command.collect_usage_pieces(context)))
    yield f"## {' '.join(words)}\n\n```text\n{usage}\n```\n\n{in_prose(command.help or '')}"
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    records = [record for each in options if (record := each.get_help_record(context))]
    if records:
        rows = (f"| `{in_cell(names)}` | {in_cell(in_prose(meaning))} |" for names, meaning in records)
        yield "\n".join(("| Option | Meaning |", "| --- | --- |", *rows))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from command_section((*words, name), inner, context)


def in_prose(text: str) -> str:
    """Help text as Markdown: brackets and stars stand for themselves."""
    return cleandoc(text).replace("*", "\\*").replace("[", "\\[")


def in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


TABLES: Mapping[str, Callable[[], str]] = {
    "keys": keys_table,
    "formats": formats_table,
    "experiments": experiments_table,
    "commands": commands_reference,
}
