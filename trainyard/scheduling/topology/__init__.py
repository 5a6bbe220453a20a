"""The network fabric: checks, and its compilation to HyperNodes and node labels."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    pass
    pass
    pass
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "fabric_checks": "check_fabric",
            "fabric_compiler": "Fabric FabricDomain FabricNode compile_fabric",
            "fabric_text": "draw",
        },
    )
