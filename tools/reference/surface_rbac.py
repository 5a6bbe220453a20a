"""Generate the table of docs/bypass.md of what only RBAC protects, from the ledger.

``python -m tools.reference.surface_rbac docs/bypass.md``
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tools.reference.surface_ledger import SurfaceLedger, load_ledger

START, END = "<!-- only rbac -->", "<!-- end of only rbac -->"

_KEYS: Final = {"Requests": "", "Annotations": "annotation ", "Labels": "label "}


def with_table(text: str, ledger: SurfaceLedger) -> str:
    """Return a page with the current table between its markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{_table(ledger)}\n{END}{after}"


def _table(ledger: SurfaceLedger) -> str:
    lines = ["| request or field | read by | what RBAC prevents |", "|---|---|---|"]
    for name, entry in sorted(ledger.all(), key=lambda each: each[0] != "Requests"):
        if entry.rbac:
            written = ", ".join(f"`{path}`" for path in entry.fields)
            what = f"{_KEYS.get(name, f'{name} ')}{written}"
            lines.append(f"| {what} | {entry.by} | {entry.rbac} |")
    return "\n".join(lines)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text(), load_ledger()))
