package trainyard.rules.top_001

import data.trainyard.lib.request
import data.trainyard.lib.topology_limits
import rego.v1

violation contains {"path": entry.path, "message": message} if {
	some entry in topology_limits.hard
	not "network-topology-aware" in request.list(request.platform, "schedulerFeatures")
	message := "the scheduler plug-in network-topology-aware is disabled, so hard limits are ignored"
}

violation contains {"path": sprintf("%s.highestTierAllowed", [entry.path]), "message": message} if {
	some entry in topology_limits.hard
	entry.name == ""
	entry.number == null
	message := sprintf("a hard limit without a tier is ignored (tiers: %s)", [known])
}

violation contains {"path": sprintf("%s.highestTierName", [entry.path]), "message": message} if {
	some entry in topology_limits.all
	entry.name != ""
	not entry.name in [tier.name | some tier in tiers]
	message := sprintf("the fabric has no tier \"%v\" (tiers: %s)", [entry.name, known])
}

violation contains {"path": sprintf("%s.highestTierAllowed", [entry.path]), "message": message} if {
	some entry in topology_limits.hard
	entry.name == ""
	entry.number != null
	not inside(entry.number)
	message := sprintf("the fabric has no tier %v (tiers: %s)", [entry.number, known])
}

violation contains {"path": sprintf("%s.highestTierName", [entry.path]), "message": message} if {
	some entry in topology_limits.hard
	entry.part
	entry.name != ""
	message := sprintf("the tier name \"%v\" of a subgroup is ignored; set highestTierAllowed (tiers: %s)", [entry.name, known])
}

violation contains {"path": sprintf("spec.subGroupPolicy[%d].matchLabelKeys", [i]), "message": message} if {
	some i, group in request.list(request.spec, "subGroupPolicy")
	topology_limits.is_hard(group.networkTopology)
	count(request.list(group, "matchLabelKeys")) == 0
	message := "no pod belongs to a subgroup without matchLabelKeys, so its limit is ignored"
}

tiers := request.list(request.platform, "tiers")

inside(number) if {
	numbers := [tier.tier | some tier in tiers]
	number <= max(numbers)
	number >= min(numbers)
}

known := "none" if count(tiers) == 0

known := concat(", ", [sprintf("%s (%d)", [tier.name, tier.tier]) | some tier in tiers]) if count(tiers) > 0
