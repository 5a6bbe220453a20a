"""The network fabric: checks, and its compilation to HyperNodes and node labels."""

from trainyard.topology.fabric_checks import check_fabric
from trainyard.topology.fabric_compiler import Fabric, FabricDomain, FabricNode, compile_fabric
from trainyard.topology.fabric_text import draw

__all__ = ["Fabric", "FabricDomain", "FabricNode", "check_fabric", "compile_fabric", "draw"]
