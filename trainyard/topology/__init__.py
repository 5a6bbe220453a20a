"""The network fabric: checked, and compiled to HyperNodes and node labels."""

from trainyard.topology.checks import check_fabric
from trainyard.topology.drawing import draw
from trainyard.topology.fabric import Fabric, FabricDomain, FabricNode, compile_fabric

__all__ = ["Fabric", "FabricDomain", "FabricNode", "check_fabric", "compile_fabric", "draw"]
