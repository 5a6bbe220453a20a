"""The admission rules agree with the real webhook on a random corpus of trees and changes."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.queues.corpus import Model, sequence
from tests.queues.real_webhook import Answer, queue_webhooks, send
from tests.support import LiveCluster

SEQUENCES = int(os.environ.get("TRAINYARD_QUEUE_SEQUENCES", "200"))
FIRST = int(os.environ.get("TRAINYARD_QUEUE_SEED", "1"))


def differing(answers: list[Answer]) -> list[str]:
    """Return the changes of a sequence on which the rules and the webhook disagree."""
    model, found = Model(), []
    for answer in answers:
        ours = model.rejections(answer.change)
        if bool(ours) is (answer.refused is None):
            found.append(f"{answer.change}\n  webhook: {answer.refused}\n  ours: {[str(each) for each in ours]}")
        if answer.refused is None:
            model.accept(answer.change)
    return found


def test_a_seed_gives_the_same_sequence() -> None:
    assert sequence(7) == sequence(7)
    assert sequence(7) != sequence(8)


def test_the_corpus_reaches_every_rule_that_the_webhook_enforces() -> None:
    reached: Counter[str | None] = Counter()
    for seed in range(FIRST, FIRST + SEQUENCES):
        model = Model()
        for change in sequence(seed):
            findings = model.rejections(change)
            reached.update({finding.rule for finding in findings} or {"accepted"})
            if not findings:
                model.accept(change)
    enforced = {
        "queue-amount-negative",
        "queue-capability-parent",
        "queue-deserved-capability",
        "queue-deserved-sum",
        "queue-guarantee-capability",
        "queue-guarantee-deserved",
        "queue-guarantee-sum",
        "queue-name",
        "queue-parent-self",
        "queue-parent-unknown",
        "queue-resource-fraction",
        "queue-schema",
    }
    assert enforced <= set(reached)
    assert min(reached[rule] for rule in enforced) >= 5, reached
    assert 0.3 < reached["accepted"] / sum(reached.values()) < 0.8


@pytest.mark.cluster
def test_the_rules_agree_with_the_webhook(cluster: LiveCluster, tmp_path: Path) -> None:
    async def scenario() -> list[list[Answer]]:
        async with queue_webhooks(cluster, tmp_path) as client:
            return await send(client, [sequence(seed) for seed in range(FIRST, FIRST + SEQUENCES)])

    answers = asyncio.run(scenario())
    found = [text for each in answers for text in differing(each)]
    assert not found, f"{len(found)} of {sum(map(len, answers))} verdicts differ:\n" + "\n".join(found[:20])
