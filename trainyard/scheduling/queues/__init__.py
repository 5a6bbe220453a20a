"""The tenant queue tree: checked against the rules of the Volcano version, and compiled to Queue objects."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    pass
    pass
    pass
    pass
    pass
    pass
    pass
    pass
    pass
    pass
    pass
    pass
    pass
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
