"""Whether the cases notice a mutant: the answers to all of them, before and after the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.policy.rego.documents import case_documents, entry_documents, generated_documents, rego_files, rule_data
from tests.policy.rego.engine import RegoServer, without_errors
from tests.policy.rego.mutants import Mutant
from trainyard.policy.engines.opa.bundle import package_name

ENTRY: Final = "entry"
_TOGETHER: Final = 300
"""Mutants of rules that one server runs."""
_ENTRY_POINT: Final = "lib/decision.rego"
_GENERATED: Final = "generated"
_OBJECTS: Final = 2500
"""Objects of the equivalence proof that what no case notices is asked about."""
_OBJECTS_OF_A_RULE: Final = 500


@dataclass
class Outcome:
    """What became of mutants: noticed by a case, by an object of the equivalence proof, no Rego at all, or alive."""

    noticed: int = 0
    invalid: int = 0
    generated: list[Mutant] = field(default_factory=list)
    alive: list[Mutant] = field(default_factory=list)


class MutantRunner:
    """Runs mutants for the time of a ``with`` block.

    Mutants of rules are asked many at once, each as a package of its own, about the cases of their rule. A mutant of
    what rules share, or of the entry point, takes the place of the original and is asked about the cases of all rules
    that import it until one answer differs. A mutant that ends in an error has been noticed. What no case notices is
    asked about the objects of the equivalence proof, on which the API server and the policy server must agree.

    Parameters
    ----------
    program
        The ``opa`` program.
    folder
        Where its files are written.
    """

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._files = rego_files()
        # The entry point refers to rules that the servers of mutants do not have.
        self._shared = {name: text for name, text in self._files.items() if name.startswith("lib/")}
        self._shared.pop(_ENTRY_POINT)
        entries = [each for _, each, _ in entry_documents()]
        self._documents = {rule: [each for _, each in found] for rule, found in case_documents().items()}
        for each in entries:
            if each.get("only") and len(each["only"]) == 1 and "requests" not in each:
                self._documents[each["only"][0]].append(each)
        self._suites = {name: self._suites_of(name) for name in self._files if name.startswith("lib/")}
        self._data = rule_data()
        generated = generated_documents(_OBJECTS)
        everything = {**self._data, "documents": {**self._documents, ENTRY: entries, _GENERATED: generated}}
        self._generated: dict[str, list[Any]] = dict.fromkeys(self._documents, generated)
        self._whole = RegoServer(program, folder / "whole", self._files, everything)
        self._before: dict[str, str] = {}

    def __enter__(self) -> MutantRunner:
        self._whole.__enter__()
        suites = [ENTRY, *self._documents]
        self._before = self._whole.ask("digests", suites=suites)
        assert set(self._before) == set(suites)
        for rule, documents in self._documents.items():
            asked = self._whole.ask("asked", suite=rule)
            self._documents[rule] = [each for each, wanted in zip(documents, asked, strict=True) if wanted]
        asking = self._whole.ask("asking", suite=_GENERATED)
        for rule, documents in self._generated.items():
            asked = [each for each, ids in zip(documents, asking, strict=True) if rule in ids]
            self._generated[rule] = asked[:_OBJECTS_OF_A_RULE]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._whole.__exit__(kind, error, trace)

    def run(self, mutants: Iterable[Mutant]) -> Outcome:
        """Return what becomes of mutants."""
        outcome = Outcome()
        chosen = list(mutants)
        of_rules = [mutant for mutant in chosen if not mutant.file.startswith("lib/")]
        for start in range(0, len(of_rules), _TOGETHER):
            self._rules(of_rules[start : start + _TOGETHER], self._folder / f"rules-{start}", outcome)
        of_shared = sorted((mutant for mutant in chosen if mutant.file.startswith("lib/")), key=lambda each: each.file)
        for position, mutant in enumerate(of_shared):
            self._in_shared(mutant, outcome)
            if position + 1 == len(of_shared) or of_shared[position + 1].file != mutant.file:
                assert self._whole.put(mutant.file, self._files[mutant.file])
        return outcome

    def _rules(self, mutants: Sequence[Mutant], folder: Path, outcome: Outcome) -> None:
        suites = {mutant.file: mutant.file.split("/")[1][:7] for mutant in mutants}
        named = dict(enumerate(mutants))
        files = {f"{number}.rego": _as_package(mutant.text, f"mutant_{number}") for number, mutant in named.items()}
        originals = {f"{package_name(rule)}.rego": self._files[file] for file, rule in suites.items()}
        for name, text in {**self._shared, **files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        kept = without_errors(self._program, folder, files, self._shared)
        outcome.invalid += len(files) - len(kept)
        documents = {rule: self._documents[rule] for rule in suites.values()}
        documents |= {f"{rule} {_GENERATED}": self._generated[rule] for rule in suites.values()}
        data = {**self._data, "documents": documents}
        everything = {**self._shared, **originals, **{name: files[name] for name in kept}}
        with RegoServer(self._program, folder, everything, data) as server:
            packages = {f"mutant_{name.removesuffix('.rego')}": suites[named[int(name[:-5])].file] for name in kept}
            left = self._unnoticed(server, packages, {package_name(rule): rule for rule in suites.values()})
            outcome.noticed += len(packages) - len(left)
            wider = {package: f"{rule} {_GENERATED}" for package, rule in left.items()}
            originals_of = {package_name(rule): f"{rule} {_GENERATED}" for rule in set(left.values())}
            alive = self._unnoticed(server, wider, originals_of)
            for package in left:
                found = outcome.alive if package in alive else outcome.generated
                found.append(named[int(package.removeprefix("mutant_"))])

    @staticmethod
    def _unnoticed(server: RegoServer, packages: Mapping[str, str], originals: Mapping[str, str]) -> dict[str, str]:
        """Return the packages, with their suites, whose answers are those of the originals."""
        before = server.ask("packages", packages=originals) if originals else {}
        expected = {suite: before[original] for original, suite in originals.items()}
        return {
            package: packages[package]
            for package, digest in _digests(server, packages)
            # Where a built-in function fails, the real server gives no decision.
            if digest == expected[packages[package]]
            and server.ask("packages", packages={package: packages[package]}) is not None
        }

    def _suites_of(self, shared: str) -> list[str]:
        """Return what is asked about a mutant of what rules share: the cases of the rules that import it."""
        reached, found = {shared}, set[str]()
        while reached - found:
            found |= reached
            imports = [f"import data.trainyard.{name[:-5].replace('/', '.')}\n" for name in found]
            reached |= {name for name, text in self._files.items() if any(each in text for each in imports)}
        if _ENTRY_POINT in found:
            return [ENTRY, *self._documents]
        return [rule for rule in self._documents if any(f"/{rule}-" in name for name in found)]

    def _in_shared(self, mutant: Mutant, outcome: Outcome) -> None:
        if not self._whole.put(mutant.file, mutant.text):
            outcome.invalid += 1
            return
        suites = self._suites[mutant.file]
        for suite in suites:
            if self._whole.ask("digests", suites=[suite]) != {suite: self._before[suite]}:
                suites.remove(suite)
                suites.insert(0, suite)
                outcome.noticed += 1
                return
        if _GENERATED not in self._before:
            assert self._whole.put(mutant.file, self._files[mutant.file])
            self._before |= self._whole.ask("digests", suites=[_GENERATED])
            assert self._whole.put(mutant.file, mutant.text)
        if self._whole.ask("digests", suites=[_GENERATED]) != {_GENERATED: self._before[_GENERATED]}:
            outcome.generated.append(mutant)
        else:
            outcome.alive.append(mutant)


def _as_package(text: str, name: str) -> str:
    head, _, rest = text.partition("\n")
    return f"{head.rpartition('.')[0]}.{name}\n{rest}"


def _digests(server: RegoServer, packages: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield each package's answer; a request that ends in an error is divided, until one package is left."""
    if not packages:
        return
    answers = server.ask("packages", strict=False, packages=packages)
    if answers is not None:
        yield from ((package, answers.get(package)) for package in packages)
    elif len(packages) == 1:
        yield from ((package, None) for package in packages)
    else:
        names = list(packages)
        for part in (names[: len(names) // 2], names[len(names) // 2 :]):
            yield from _digests(server, {name: packages[name] for name in part})
