package trainyard.rules.pgp_002

import data.trainyard.lib.request
import rego.v1

topology := request.map(request.map(request.map(request.spec, "podGroupPolicy"), "volcano"), "networkTopology")

path := "spec.podGroupPolicy.volcano.networkTopology"

violation contains {"path": path, "message": "highestTierAllowed and highestTierName are mutually exclusive"} if {
	is_string(topology.highestTierName)
	request.object_get(topology, "highestTierAllowed", 1) != 1
}
