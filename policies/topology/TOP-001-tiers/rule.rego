package trainyard.rules.top_001

import data.trainyard.lib.request
import rego.v1

tiers := request.list(request.platform, "tiers")

names := [tier.name | some tier in tiers]

numbers := [tier.tier | some tier in tiers]

on if "network-topology-aware" in request.list(request.platform, "schedulerFeatures")

wishes contains {"path": "spec.networkTopology", "wish": wish} if {
	wish := request.spec.networkTopology
	is_object(wish)
}

wishes contains {"path": "spec.podGroupPolicy.volcano.networkTopology", "wish": object.union(wish, {"highestTierAllowed": tier})} if {
	wish := request.map(request.map(request.spec, "podGroupPolicy"), "volcano").networkTopology
	is_object(wish)
	tier := request.object_get(wish, "highestTierAllowed", 1)
}

wishes contains {"path": sprintf("spec.podGroupPolicy.volcano.subGroupPolicy[%d].networkTopology", [i]), "wish": limit} if {
	some i, group in request.list(request.map(request.map(request.spec, "podGroupPolicy"), "volcano"), "subGroupPolicy")
	wish := group.networkTopology
	is_object(wish)
	limit := object.union(wish, {"highestTierAllowed": request.object_get(wish, "highestTierAllowed", 1)})
}

wishes contains subgroup if some subgroup in subgroups

subgroups contains {"path": sprintf("spec.subGroupPolicy[%d].networkTopology", [i]), "wish": wish} if {
	some i, group in request.list(request.spec, "subGroupPolicy")
	wish := group.networkTopology
	is_object(wish)
}

subgroups contains {"path": sprintf("spec.tasks[%d].partitionPolicy.networkTopology", [i]), "wish": wish} if {
	some i, task in request.list(request.spec, "tasks")
	wish := request.map(task, "partitionPolicy").networkTopology
	is_object(wish)
}

hard(wish) if request.object_get(wish, "mode", "hard") == "hard"

name_of(wish) := request.object_get(wish, "highestTierName", "")

violation contains {"path": entry.path, "message": message} if {
	some entry in wishes
	hard(entry.wish)
	not on
	message := "the scheduler plug-in network-topology-aware is disabled, so hard limits are ignored"
}

violation contains {"path": sprintf("%s.highestTierAllowed", [entry.path]), "message": message} if {
	some entry in wishes
	hard(entry.wish)
	name_of(entry.wish) == ""
	request.object_get(entry.wish, "highestTierAllowed", null) == null
	message := sprintf("a hard limit without a tier is ignored (tiers: %s)", [known])
}

violation contains {"path": sprintf("%s.highestTierName", [entry.path]), "message": message} if {
	some entry in wishes
	name := name_of(entry.wish)
	name != ""
	not name in names
	message := sprintf("the fabric has no tier \"%v\" (tiers: %s)", [name, known])
}

violation contains {"path": sprintf("%s.highestTierAllowed", [entry.path]), "message": message} if {
	some entry in wishes
	hard(entry.wish)
	name_of(entry.wish) == ""
	number := entry.wish.highestTierAllowed
	number != null
	not inside(number)
	message := sprintf("the fabric has no tier %v (tiers: %s)", [number, known])
}

violation contains {"path": sprintf("%s.highestTierName", [entry.path]), "message": message} if {
	some entry in subgroups
	hard(entry.wish)
	name_of(entry.wish) != ""
	message := sprintf("the tier name of a subgroup is ignored; set highestTierAllowed (tiers: %s)", [known])
}

violation contains {"path": sprintf("spec.subGroupPolicy[%d].matchLabelKeys", [i]), "message": message} if {
	some i, group in request.list(request.spec, "subGroupPolicy")
	wish := group.networkTopology
	is_object(wish)
	hard(wish)
	count(request.list(group, "matchLabelKeys")) == 0
	message := "no pod belongs to a subgroup without matchLabelKeys, so its limit is ignored"
}

inside(number) if {
	number <= max(numbers)
	number >= min(numbers)
}

known := "none" if count(tiers) == 0

known := concat(", ", [sprintf("%s (%d)", [tier.name, tier.tier]) | some tier in tiers]) if count(tiers) > 0
