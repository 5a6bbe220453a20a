"""JUnit XML: a suite per file, a test case per object, a failure where a cluster would reject it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from xml.etree import ElementTree as Xml

from trainyard.policy.check.results import Report, Result

__all__ = ["junit"]

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """Return the report as a JUnit document."""
    root = Xml.Element("testsuites", name="trainyard check")
    found = {(result.file, _owner(result)) for result in report.results}
    cases = sorted({*report.checked, *found})
    for file, of_file in groupby(cases, key=lambda case: case[0]):
        suite = Xml.SubElement(root, "testsuite", name=_xml(file))
        failures, names = 0, [name for _, name in of_file]
        for name in names:
            results = [each for each in report.results if (each.file, _owner(each)) == (file, name)]
            failures += _case(suite, file, name, results)
        _count(suite, len(names), failures)
    suites = list(root)
    _count(root, *(sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures")))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _case(suite: Xml.Element, file: str, name: str, results: Iterable[Result]) -> int:
    case = Xml.SubElement(suite, "testcase", classname=_xml(file), name=_xml(name or "the file"), time="0")
    errors = [result for result in results if result.severity == "error"]
    warnings = [result for result in results if result.severity == "warning"]
    if errors:
        kinds = ", ".join(sorted({result.rule or "manifest" for result in errors}))
        failure = Xml.SubElement(case, "failure", type=kinds, message=_xml(_line(errors[0])))
        failure.text = _xml("\n".join(map(_line, errors)))
    if warnings:
        Xml.SubElement(case, "system-out").text = _xml("\n".join(map(_line, warnings)))
    return int(bool(errors))


def _count(element: Xml.Element, tests: int, failures: int) -> None:
    element.attrib |= {"tests": str(tests), "failures": str(failures), "errors": "0"}


def _owner(result: Result) -> str:
    """Return the object of the file: what a TrainJob becomes counts as the TrainJob."""
    _, found, owner = result.object.partition(" (from ")
    return owner.removesuffix(")") if found else result.object


def _line(result: Result) -> str:
    rule = f"{result.rule} " if result.rule else ""
    fix = f" (fix: {result.fix})" if result.fix else ""
    return f"line {result.line}: {rule}{result.path}: {result.message}{fix}"


def _xml(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
