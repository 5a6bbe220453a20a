"""The tenant queue tree: checked against the rules of the Volcano version, and compiled to Queue objects."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from trainyard.scheduling.queues.capacity import Capacity, capacity_of
    from trainyard.scheduling.queues.fairness_checks import branch_findings
    from trainyard.scheduling.queues.paths import ManifestPaths, Paths, SettingsPaths
    from trainyard.scheduling.queues.queue import DEFAULT, ROOT, Queue
    from trainyard.scheduling.queues.queue_bodies import QueueObjects, prove_queues, queue_objects
    from trainyard.scheduling.queues.queue_manifests import Manifests, is_manifest, read_manifests, read_queue
    from trainyard.scheduling.queues.rules import RULES
    from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS, Plugin, Scheduling
    from trainyard.scheduling.queues.tree import QueueTree
    from trainyard.scheduling.queues.tree_checks import check_queues, check_tree
    from trainyard.scheduling.queues.tree_text import draw
    from trainyard.scheduling.queues.units import Compiled, Remainder, compile_queues, queue_tree
    from trainyard.scheduling.queues.webhook_checks import rejections
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "capacity": "Capacity capacity_of",
            "fairness_checks": "branch_findings",
            "paths": "ManifestPaths Paths SettingsPaths",
            "queue": "DEFAULT ROOT Queue",
            "queue_bodies": "QueueObjects prove_queues queue_objects",
            "queue_manifests": "Manifests is_manifest read_manifests read_queue",
            "rules": "RULES",
            "scheduling": "VOLCANO_VERSIONS Plugin Scheduling",
            "tree": "QueueTree",
            "tree_checks": "check_queues check_tree",
            "tree_text": "draw",
            "units": "Compiled Remainder compile_queues queue_tree",
            "webhook_checks": "rejections",
        },
    )

__all__ = [
    "DEFAULT",
    "ROOT",
    "RULES",
    "VOLCANO_VERSIONS",
    "Capacity",
    "Compiled",
    "ManifestPaths",
    "Manifests",
    "Paths",
    "Plugin",
    "Queue",
    "QueueObjects",
    "QueueTree",
    "Remainder",
    "Scheduling",
    "SettingsPaths",
    "branch_findings",
    "capacity_of",
    "check_queues",
    "check_tree",
    "compile_queues",
    "draw",
    "is_manifest",
    "prove_queues",
    "queue_objects",
    "queue_tree",
    "read_manifests",
    "read_queue",
    "rejections",
]
