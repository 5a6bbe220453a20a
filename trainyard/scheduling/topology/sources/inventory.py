"""Source `inventory`: a table of nodes, as CSV or as a YAML list, one node per line.

Columns: ``node``; one for each tier, lowest first (``rack``, ``spine``, …); ``shape``, or ``gpu`` (model), ``gpus``
(number), ``cpu``, ``memory``, ``resource`` (of the devices); and ``rail0``, ``rail1``, … for the leaf of each rail.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml
from pydantic import ValidationError

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.manifests.nodes import PLAIN, compose_all
from trainyard.scheduling.topology.inventory import Inventory, InventoryNode, dns_label, raise_findings
from trainyard.scheduling.topology.layout import MAX_NODES
from trainyard.scheduling.topology.sources.base import FabricSource, Options
from trainyard.scheduling.topology.to_settings import ImportedFabric, to_settings
from trainyard.settings.fabric import NodeShape

_NODE = ("node", "name", "hostname", "host")
_AMOUNTS = ("gpus", "cpu", "memory")
_UNITS = {"gpus": "gpu", "cpu": "cpu", "memory": ""}
_SHAPE = ("shape", "gpu", "resource", *_AMOUNTS)
_RAIL = re.compile(r"rail[-_ ]?(\d{1,2})")
_TIERS = frozenset({"nvlink", "nvlink-domain", "clique", "accelerator", "block", "rack", "leaf", "su", "scalable-unit"})
_TIERS |= {"row", "pod", "aisle", "island", "spine", "superspine", "super-spine", "core", "room", "zone", "building"}
"""Columns that are tiers without being set as such."""

_WHAT = "The inventory"
_EMPTY = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True)
class _Row:
    line: int
    cells: Mapping[str, str]


def _read(text: str, options: Options) -> ImportedFabric:
    rows = list(_yaml_rows(text) if _looks_like_yaml(text) else _csv_rows(text))
    if not rows:
        raise TrainyardError(f"{_WHAT} has no rows", fix="write a line with the columns, then one line per node")
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    node = next((name for name in _NODE if name in columns), None)
    if node is None:
        raise TrainyardError(
            f"{_WHAT} has no column for the node; its columns are: {', '.join(columns)[:300]}",
            fix="name it node",
        )
    tiers = [_column(name) for name in options.tiers] or [name for name in columns if name in _TIERS]
    absent = [name for name in tiers if name not in columns]
    if not tiers or absent:
        raise TrainyardError(
            f"{_WHAT} has no column {absent[0]!r}" if absent else f"{_WHAT} has no column that names a tier",
            fix=f"set the tiers with --tier, lowest first; the columns are: {', '.join(columns)[:300]}",
        )
    rails = sorted((int(match[1]), name) for name in columns if (match := _RAIL.fullmatch(name)))
    used = {node, *tiers, *_SHAPE, *(name for _, name in rails)}
    ignored = [name for name in columns if name not in used]
    shapes = _Shapes()
    found = []
    for row in rows:
        path = tuple(row.cells.get(tier, "") for tier in tiers)
        leaves = tuple(row.cells.get(name, "") for _, name in rails)
        found.append(InventoryNode(row.cells.get(node, ""), path, f"line {row.line}", shapes.of(row), leaves))
    raise_findings(f"{_WHAT} is invalid", shapes.findings)
    notes = (f"ignored columns: {', '.join(ignored)} (set tiers with --tier)",) if ignored else ()
    names = tuple(dns_label(tier) for tier in tiers)
    return to_settings(Inventory(names, tuple(found), shapes.known, notes), what=_WHAT, qualify=options.qualify)


class _Shapes:
    """The node shapes of the rows: by name, or by capacity."""

    def __init__(self) -> None:
        self.known: dict[str, NodeShape] = {}
        self.findings: list[Finding] = []
        self._first: dict[str, tuple[dict[str, str], int]] = {}
        self._seen: dict[tuple[str, ...], str] = {}

    def of(self, row: _Row) -> str:
        """Return the name of a row's shape; empty if it has none."""
        key = tuple(row.cells.get(name, "") for name in _SHAPE)
        if key not in self._seen:
            self._seen[key] = self._shape(row)
        return self._seen[key]

    def _shape(self, row: _Row) -> str:
        cells = {name: row.cells.get(name, "") for name in _SHAPE}
        device = cells["resource"] or "nvidia.com/gpu"
        amounts = {device if name == "gpus" else name: cells[name] for name in _AMOUNTS if cells[name]}
        parts = [cells["gpu"], *(f"{cells[name]}{_UNITS[name]}" for name in _AMOUNTS if cells[name])]
        name = dns_label(cells["shape"] or "-".join(filter(None, parts)))
        if not name or not amounts:
            return name
        first, line = self._first.setdefault(name, (amounts, row.line))
        if first != amounts:
            message = f"shape {name!r} has {_shown(amounts)} here, but {_shown(first)} on line {line}"
            self.findings.append(Finding(f"line {row.line}", message, "use another shape, or correct the numbers"))
            return name
        try:
            self.known[name] = NodeShape.model_validate({"capacity": {**amounts, "pods": "110"}})
        except ValidationError as error:
            detail = error.errors()[0]
            message = f"{detail['input']!r}: {detail['msg'].removeprefix('Value error, ')}"
            self.findings.append(Finding(f"line {row.line}", message[:300], "correct it"))
        return name


def _shown(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{amount} {resource}" for resource, amount in sorted(amounts.items()))


def _column(name: str) -> str:
    return name.strip().lower()


def _looks_like_yaml(text: str) -> bool:
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return line.lstrip()[:1] in "-[{" or line.rstrip().endswith(":")
    return False


def _csv_rows(text: str) -> Iterator[_Row]:
    lines = text.splitlines()
    header = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True, strict=True)
    columns: list[str] = []
    count = 0
    try:
        for cells in reader:
            values = [cell.strip() for cell in cells]
            if not any(values) or values[0].startswith("#"):
                continue
            if not columns:
                columns = [_column(value) for value in values]
                repeated = sorted({name for name in columns if columns.count(name) > 1})
                if repeated:
                    raise _wrong(reader.line_num, f"column {repeated[0]!r} is repeated", "rename one")
                continue
            if len(values) != len(columns):
                message = f"{len(values)} cells under {len(columns)} columns"
                raise _wrong(
                    reader.line_num, message, "add a cell for every column; quote cells that contain the separator"
                )
            count += 1
            if count > MAX_NODES:
                raise _wrong(reader.line_num, f"more than {MAX_NODES:,} nodes", "split the fabric")
            yield _Row(reader.line_num, dict(zip(columns, values, strict=True)))
    except csv.Error as error:
        raise _wrong(reader.line_num, f"not valid CSV: {error}", "correct the line") from error


def _yaml_rows(text: str) -> Iterator[_Row]:
    documents = list(compose_all(text, _WHAT, fix="correct it"))
    if len(documents) > 1:
        raise TrainyardError(f"{_WHAT} has {len(documents)} YAML documents", fix="use one document")
    document = documents[0] if documents else None
    if isinstance(document, yaml.MappingNode):
        document = next((value for key, value in document.value if key.value == "nodes"), document)
    if not isinstance(document, yaml.SequenceNode):
        raise TrainyardError(f"{_WHAT} is not a list", fix="write one - {node: …, rack: …} per node")
    for entry in document.value:
        line = entry.start_mark.line + 1
        if not isinstance(entry, yaml.MappingNode):
            raise _wrong(line, "not a mapping", "write {node: …, rack: …}")
        cells: dict[str, str] = {}
        for key, value in entry.value:
            if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode):
                raise _wrong(value.start_mark.line + 1, "a value is neither text nor a number", "write key: value")
            empty = value.tag == PLAIN and value.value in _EMPTY
            cells[_column(key.value)] = "" if empty else value.value.strip()
        yield _Row(line, cells)


def _wrong(line: int, message: str, fix: str) -> TrainyardError:
    return TrainyardError(f"{_WHAT} is invalid", findings=[Finding(f"line {line}", message, fix)])


SOURCE = FabricSource("inventory", "a table of nodes (CSV, or a YAML list)", _read)
