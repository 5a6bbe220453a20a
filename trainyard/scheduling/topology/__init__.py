"""The network fabric: checks, and its compilation to HyperNodes and node labels."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from trainyard.scheduling.topology.fabric_checks import check_fabric
    from trainyard.scheduling.topology.fabric_compiler import Fabric, FabricDomain, FabricNode, compile_fabric
    from trainyard.scheduling.topology.fabric_text import draw
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "fabric_checks": "check_fabric",
            "fabric_compiler": "Fabric FabricDomain FabricNode compile_fabric",
            "fabric_text": "draw",
        },
    )

__all__ = ["Fabric", "FabricDomain", "FabricNode", "check_fabric", "compile_fabric", "draw"]
