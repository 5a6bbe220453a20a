"""Enforcement of NetworkPolicies on the nodes: the rules of nftables follow the objects."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path

from trainyard.kube.change_watch import API_FAILURES, watch_changes
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES, NETWORK_POLICIES, PODS
from trainyard.local.cluster.node.node_plan import NAMESPACE_FOLDER, NodePlan
from trainyard.local.cluster.node.policy_rules import ruleset

_PAUSE = 0.5
_TOGETHER = 0.2
"""Seconds in which changes are collected."""
_SECONDS_OF_NFT = 20.0
_SETTLED = 30.0
"""Seconds after which the rules are compared without a change: a node that was made again has none."""

_log = logging.getLogger(__name__)


async def enforce(kubeconfig: Path, nodes: Sequence[NodePlan]) -> None:
    """Keep the rules of all nodes up to date until cancelled; after that they stay as they are."""
    while True:
        try:
            async with Client.from_kubeconfig(kubeconfig, user_agent="trainyard-network-policies") as client:
                await _follow(client, nodes)
        except API_FAILURES as error:
            _log.warning("network policies: %s", error)
        except Exception:
            # The supervisor, whose task this is, keeps the cluster running; the rules stay as they are until the retry.
            _log.exception("network policies")
        await asyncio.sleep(_PAUSE)


async def _follow(client: Client, nodes: Sequence[NodePlan]) -> None:
    changed = asyncio.Event()
    applied: str | None = None
    async with watch_changes(client, (NETWORK_POLICIES, PODS, NAMESPACES), changed.set):
        while True:
            changed.clear()
            if policies := await client.list(NETWORK_POLICIES):
                pods, namespaces = await client.list(PODS), await client.list(NAMESPACES)
                text = await asyncio.to_thread(ruleset, policies, pods, namespaces)
            else:
                text = ruleset((), (), ())
            if text != applied:
                await asyncio.gather(*(asyncio.to_thread(_load, node, text) for node in nodes))
                applied = text
            try:
                async with asyncio.timeout(_SETTLED):
                    await changed.wait()
            except TimeoutError:
                applied = None
            else:
                await asyncio.sleep(_TOGETHER)


def _load(node: NodePlan, text: str) -> None:
    command = ["nsenter", f"--net={NAMESPACE_FOLDER / node.namespace}", "nft", "--file", "-"]
    try:
        done = subprocess.run(  # noqa: S603
            command, input=text, capture_output=True, text=True, check=False, timeout=_SECONDS_OF_NFT
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"node {node.name} does not take the rules within {_SECONDS_OF_NFT:.0f} s") from error
    if done.returncode:
        raise OSError(f"node {node.name} rejects the rules: {' '.join(done.stderr.split())[-300:]}")
