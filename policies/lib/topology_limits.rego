package trainyard.lib.topology_limits

import data.trainyard.lib.request
import rego.v1

# Topology limits of a PodGroup, a Volcano Job and a runtime: entries {path, part, hard, name, number}. Part is true
# if the limit is one of a subgroup or a partition, name and number are its tier; a runtime that sets none has number 1.
all contains object.union(tier(request.spec.networkTopology, null), {"path": "spec.networkTopology"})

all contains object.union(tier(policy.networkTopology, 1), {"path": path}) if {
	path := "spec.podGroupPolicy.volcano.networkTopology"
}

all contains object.union(tier(group.networkTopology, 1), {"path": path}) if {
	some i, group in request.list(policy, "subGroupPolicy")
	path := sprintf("spec.podGroupPolicy.volcano.subGroupPolicy[%d].networkTopology", [i])
}

all contains object.union(tier(group.networkTopology, null), {"path": path, "part": true}) if {
	some i, group in request.list(request.spec, "subGroupPolicy")
	path := sprintf("spec.subGroupPolicy[%d].networkTopology", [i])
}

all contains object.union(tier(partition.networkTopology, null), {"path": path, "part": true}) if {
	some i, task in request.list(request.spec, "tasks")
	partition := request.map(task, "partitionPolicy")
	path := sprintf("spec.tasks[%d].partitionPolicy.networkTopology", [i])
}

hard contains entry if {
	some entry in all
	entry.hard
}

policy := request.map(request.map(request.spec, "podGroupPolicy"), "volcano")

tier(limit, default_number) := {"hard": hard_mode, "name": name, "number": number} if {
	hard_mode := is_hard(limit)
	name := request.object_get(limit, "highestTierName", "")
	number := request.object_get(limit, "highestTierAllowed", default_number)
}

is_hard(limit) := request.object_get(limit, "mode", "hard") == "hard" if is_object(limit)
