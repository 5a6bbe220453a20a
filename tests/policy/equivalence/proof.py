"""The whole comparison: makes the objects of a seed, puts them through every gate, and says where these differ."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.policy.equivalence.anatomy import Body
from tests.policy.equivalence.gates import checked, decisions
from tests.policy.equivalence.generator import Generator, Subject
from tests.policy.equivalence.reviewed import Reviewed
from tests.policy.equivalence.stage import Stage
from tests.policy.equivalence.verdict_comparison import Comparison, Tally
from tests.policy.equivalence.worlds import Worlds, own_settings
from trainyard.data import data_folder
from trainyard.jobs.render.typed_clients import normalized, normalized_runtime
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.kube.blocking import BlockingSession
from trainyard.manifests.documents import Source
from trainyard.policy.check.sources import Manifest
from trainyard.policy.check.train_job_check import resolved
from trainyard.policy.check.world import CheckContext
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.opa.local_server import OpaServer
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.cases import Case, load_world
from trainyard.settings.platform import PolicySettings

OWN_SHARE = 4
"""Every fourth object is reviewed by the settings of a stack that sets all it can."""

CASES = 5
"""So many cases of each rule and verdict are reviewed as they are, so that every rule is broken and kept."""


_REWRITES = {
    "TrainJob": normalized,
    "TrainingRuntime": normalized_runtime,
    "ClusterTrainingRuntime": normalized_runtime,
}
"""What the mutating webhooks change in a created object of a kind."""


@cache
def corpus() -> tuple[list[Case], dict[str, Body], Worlds]:
    """Return what objects are made from: the cases, what the runtimes become, and where all of it lives.

    Evictions and token requests are left out: what they create is no object that could be changed or stored.
    """
    folder = data_folder("policies")
    cases = [case for case in load_cases(folder, load_rules()) if case.is_stored]
    return cases, dict(_rendered()), Worlds(cases, load_world(folder))


def _rendered() -> Iterator[tuple[str, Body]]:
    """Yield the runtimes of the catalog, a TrainJob on each, and the objects that it becomes."""
    world = CheckContext(None)
    for runtime in load_catalog((data_folder("runtimes"),), ("*",)).runtimes:
        for body in runtime.objects():
            name = body["metadata"]["name"]
            job = {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "metadata": {"name": "job", "namespace": "vision", "uid": "5f0c1f4e-0000-4000-8000-000000000000"},
                "spec": {
                    "runtimeRef": {"name": name},
                    "trainer": {"image": "registry.example/train:1.0", "numNodes": 2},
                },
            }
            yield name, body
            outcome = resolved(Manifest(Source("job", ""), 0, (), job), world)
            yield f"{name}/TrainJob", {**outcome.body, "metadata": {"name": "job"}}
            for made in outcome.objects:
                yield f"{name}/{made['kind']}", made


def subjects_of(seed: int, count: int) -> tuple[list[Subject], Worlds]:
    """Return the subjects of a seed: all cases as they are (seed 1) or some of each rule, and mutated ones."""
    cases, others, worlds = corpus()
    generator = Generator(cases, others, worlds, seed)
    unchanged = list(generator.unchanged() if seed == 1 else generator.sampled(CASES))
    return [*unchanged, *generator.mutated(len(unchanged), max(0, count - len(unchanged)))], worlds


def prove(session: BlockingSession, program: Callable[[], Path], folder: Path, *, seed: int, count: int) -> Tally:
    """Return what the gates say about the objects of a seed.

    Parameters
    ----------
    session
        Connection of an administrator to an API server that has the kinds of the rules, and nothing else.
    program
        Returns the ``opa`` program.
    folder
        An empty folder.
    seed, count
        Which objects, and how many.
    """
    rules = load_rules()
    subjects, worlds = subjects_of(seed, count)
    comparison = Comparison(rules, worlds)
    shape = frozenset(rule.id for rule in rules if rule.gate is EnforcementPoint.CRD)
    shipped = [subject for subject in subjects if subject.number % OWN_SHARE]
    own = [subject for subject in subjects if not subject.number % OWN_SHARE]
    with OpaServer(program, build_bundle(rules=rules)) as address:
        for name, part in (("shipped", shipped), ("own", own)):
            run = f"t{uuid.uuid4().hex[:6]}"

            def settings(
                namespace: Callable[[str], str], name: str = name, run: str = run, part: Sequence[Subject] = part
            ) -> PolicySettings:
                if name == "shipped":
                    return PolicySettings()
                names = [f"{run}-{subject.number}{subject.ending}" for subject in part]
                return own_settings(rules, namespace("tenant"), names)

            stage = Stage(session, rules, worlds, run, settings, brief=name == "shipped")
            reached, refused = comparison.count(stage.reviewed(part))
            answers = dict(
                zip((each.subject.number for each in reached), decisions(address, reached, stage, worlds), strict=True)
            )
            for each in reached:
                comparison.policy_server(each, answers[each.subject.number])
            (folder / name).mkdir()
            files = [each for each in (*reached, *refused) if _by_any_user(each)]
            results = checked(program, files, stage, worlds, folder / name, shape)
            rewritten = [each for each in map(_defaulted, reached) if each is not None and _by_any_user(each)]
            answers |= zip(
                (each.subject.number for each in rewritten), decisions(address, rewritten, stage, worlds), strict=True
            )
            for each in files:
                if each.subject.number in answers:
                    comparison.check(each, answers[each.subject.number], results[each.subject.number])
                else:
                    comparison.refused(each, results[each.subject.number])
    return comparison.tally


def _defaulted(reviewed: Reviewed) -> Reviewed | None:
    """Return a created object as the platform's mutating webhooks store it; None: as it was sent.

    The API server of the proof has no webhooks.
    """
    rewrite = _REWRITES.get(reviewed.subject.shape["kind"])
    if rewrite is None or reviewed.body is None:
        return None
    body = rewrite(reviewed.body, None)
    return None if body == reviewed.body else replace(reviewed, body=body)


def _by_any_user(reviewed: Reviewed) -> bool:
    """Whether the check can know of the request: it reviews creations by a user without rights of the platform."""
    return reviewed.subject.operation == "CREATE" and reviewed.subject.user == "author"
