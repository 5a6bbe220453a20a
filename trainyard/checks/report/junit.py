"""JUnit XML: one suite per file and one test case per object, which fails if a finding is an error."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from xml.etree import ElementTree as Xml

from trainyard.checks.finding import Finding
from trainyard.checks.printable_text import printable
from trainyard.checks.report.report import Report


def junit(report: Report) -> str:
    """Return the report as a JUnit document."""
    root = Xml.Element("testsuites", name=report.tool)
    found = {(finding.file, _owner(finding)) for finding in report.findings}
    cases = sorted({*report.checked, *found})
    for file, of_file in groupby(cases, key=lambda case: case[0]):
        suite = Xml.SubElement(root, "testsuite", name=printable(file))
        failures, names = 0, [name for _, name in of_file]
        for name in names:
            findings = [each for each in report.findings if (each.file, _owner(each)) == (file, name)]
            failures += _case(suite, file, name, findings)
        _count(suite, len(names), failures)
    suites = list(root)
    _count(root, *(sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures")))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _case(suite: Xml.Element, file: str, name: str, findings: Iterable[Finding]) -> int:
    case = Xml.SubElement(suite, "testcase", classname=printable(file), name=printable(name or "the file"), time="0")
    errors = [finding for finding in findings if finding.severity == "error"]
    warnings = [finding for finding in findings if finding.severity == "warning"]
    if errors:
        kinds = ", ".join(sorted({finding.rule or "manifest" for finding in errors}))
        failure = Xml.SubElement(case, "failure", type=kinds, message=_line(errors[0]))
        failure.text = "\n".join(map(_line, errors))
    if warnings:
        Xml.SubElement(case, "system-out").text = "\n".join(map(_line, warnings))
    return int(bool(errors))


def _count(element: Xml.Element, tests: int, failures: int) -> None:
    element.attrib |= {"tests": str(tests), "failures": str(failures), "errors": "0"}


def _owner(finding: Finding) -> str:
    """Return the object in the file; findings of rendered objects belong to their TrainJob."""
    _, found, owner = finding.object.partition(" (from ")
    return owner.removesuffix(")") if found else finding.object


def _line(finding: Finding) -> str:
    rule = f"{finding.rule} " if finding.rule else ""
    fix = f" (fix: {finding.fix})" if finding.fix else ""
    return printable(f"line {finding.line}: {rule}{finding.path}: {finding.message}{fix}")
