"""The entry point for jupyter-lsp, which starts language servers for JupyterLab."""

from __future__ import annotations

import sys

from placement_lint.errors import UsageError, require_pygls


def spec(manager: object) -> dict[str, dict[str, object]]:
    """The server's specification by its name; none if the ``server`` extra is not installed."""
    try:
        require_pygls()
    except UsageError:
        return {}
    return {
        "placement-lint": {
            "version": 2,
            "display_name": "placement-lint",
            "argv": [sys.executable, "-m", "placement_lint", "server"],
            "languages": ["python"],
            "mime_types": ["text/x-python", "text/x-ipython"],
            "requires_documents_on_disk": False,
        }
    }
