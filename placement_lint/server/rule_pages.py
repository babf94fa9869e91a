"""Rules' pages as files in the user's cache folder, which an editor opens for a rule's code."""

from __future__ import annotations

import contextlib
from pathlib import Path

from platformdirs import user_cache_path

from placement_lint import __version__, writing
from placement_lint.cli.pages import as_markdown, url
from placement_lint.rule import Rule


def folder() -> Path:
    return user_cache_path("placement-lint") / "rules" / __version__


def file_of(code: str) -> Path:
    return folder() / f"{code}.md"


def write(rule: Rule) -> None:
    """Write the page of a rule; if the folder is not writable, there is no page."""
    file, text = file_of(rule.code), as_markdown(rule)
    with contextlib.suppress(OSError):
        if file.exists() and file.read_text(encoding="utf-8") == text:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        writing.write(file, text.encode(), durable=False)


def address(code: str, name: str) -> str | None:
    """The address of a rule's page: on the documentation site, else in the cache folder once it is written there."""
    page = written(code)
    return url(code, name) or (page.as_uri() if page is not None else None)


def written(code: str) -> Path | None:
    """The file of a rule's page, if it exists."""
    file = file_of(code)
    return file if file.exists() else None
