"""Programs with upstream's Go types of v2.1 (as in Kueue 0.16.2) and v2.3 read what is stored and write it back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.api.test_go_quantity import RECORDED
from tests.compatibility import typed_clients
from tests.compatibility.corpus import corpus
from tests.render.test_typed_clients import MODELS, NOW, runtimes
from trainyard.api import TrainJob
from trainyard.api.go_quantity import canonical
from trainyard.api.go_types import JOB_SPEC, RELEASES, RUNTIME_SPEC, known
from trainyard.api.verdicts import decoded
from trainyard.jobs.render.defaults import defaulted
from trainyard.jobs.render.rendered_documents import render_documents
from trainyard.jobs.render.typed_clients import normalized_runtime

pytestmark = pytest.mark.cluster

Body = dict[str, Any]
SEED = 20261123


def test_the_table_is_that_of_the_modules() -> None:
    assert typed_clients.TABLE.read_text() == typed_clients.as_text(typed_clients.table())


def test_quantities_are_written_as_by_go() -> None:
    chosen = random.Random(SEED)
    texts = [sent for sent, _ in RECORDED] + [_quantity(chosen) for _ in range(20_000)]
    back = typed_clients.updates("2.3", [{"kind": "Quantity", "value": text} for text in texts])
    wrong = [
        (text, canonical(text), body["value"])
        for text, body in zip(texts, back, strict=True)
        if canonical(text) != body["value"]
    ]
    assert not wrong, f"{len(wrong)} of {len(texts)}, seed {SEED}: {wrong[:5]}"


def _quantity(chosen: random.Random) -> str:
    whole = "0" * chosen.choice((0, 0, 0, 1)) + str(chosen.randrange(10 ** chosen.randint(1, 17)))
    part = f".{chosen.randrange(10 ** chosen.randint(1, 9))}" if chosen.random() < 0.4 else chosen.choice(("", "", "."))
    zeros = "0" * chosen.choice((0, 0, 0, 3))
    suffix = chosen.choice(("", "", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "E2", "e-2", "e0"))
    return chosen.choice(("", "", "", "+", "-")) + whole + part + zeros + suffix


@pytest.mark.parametrize("release", RELEASES)
def test_an_update_by_the_client_changes_nothing(release: str) -> None:
    """For each accepted TrainJob and runtime of the corpus, and each shipped runtime."""
    stored = [body for body in accepted() if not _meaning_lost(body)]
    kept = [{**body, "spec": known(_kind(body), body["spec"], release)} for body in stored]
    changed = []
    for body, known_body, back in zip(stored, kept, typed_clients.updates(release, kept), strict=True):
        sent = {**known_body, "spec": back["spec"]}
        if admitted(sent, known_body)["spec"] != known_body["spec"]:
            changed.append((body["metadata"], sent["spec"]))
    assert len(stored) > 1000
    assert not changed, f"{len(changed)} of {len(stored)}: {json.dumps(changed[0])}"


def accepted() -> list[Body]:
    """Return what is stored of each accepted object."""
    bodies: list[Body] = [admitted(body, None) for body in runtimes()]
    for case in corpus():
        documents = case.documents()
        if not render_documents({"case": "\n---\n".join(json.dumps(body) for body in documents)})[0].errors:
            bodies.extend(admitted(body, None) for body in documents)
    return bodies


def admitted(body: Body, old: Body | None) -> Body:
    """Return what is stored of an object that is created or updated."""
    if body["kind"] == "TrainJob":
        return defaulted(decoded(TrainJob, body), old, NOW)
    return normalized_runtime(decoded(MODELS[body["kind"]], body), old)


def _kind(body: Body) -> str:
    return JOB_SPEC if body["kind"] == "TrainJob" else RUNTIME_SPEC


def _meaning_lost(body: Body) -> bool:
    """Whether Go clients cannot express a value: replicas 0, which JobSet's schema then sets to 1."""
    jobs = body["spec"].get("template", {}).get("spec", {}).get("replicatedJobs", ())
    return any(job.get("replicas") == 0 for job in jobs)
