package trainyard.rules.top_002

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

tiers := request.list(request.platform, "tiers")

numbers := [tier.tier | some tier in tiers]

violation contains {"path": entry.path, "message": message} if {
	some entry in limits
	not "network-topology-aware" in request.list(request.platform, "schedulerFeatures")
	message := "the scheduler plug-in network-topology-aware is disabled, so hard limits are ignored"
}

violation contains {"path": entry.path, "message": message} if {
	some entry in limits
	not inside(entry.tier)
	message := sprintf("a hard limit to tier \"%s\" is ignored (tiers: %s)", [entry.tier, known])
}

mode_key := "volcano.sh/network-topology-mode"

tier_key := "volcano.sh/network-topology-highest-tier"

# Hard limits of annotations: entries {path, tier}, with the tier as text.
limits contains {"path": path, "tier": request.text(annotations, tier_key)} if {
	some entry in pod_templates.metadatas
	annotations := entry.metadata.annotations
	some key in [mode_key, tier_key]
	annotations[key] != null
	lower(request.text(annotations, mode_key)) != "soft"
	path := sprintf("%s.annotations[%s]", [entry.path, last_key(annotations)])
}

last_key(annotations) := tier_key if {
	annotations[tier_key] != null
} else := mode_key

inside(tier) if {
	regex.match(`^(0|[1-9][0-9]{0,8})$`, tier)
	number := to_number(tier)
	number <= max(numbers)
	number >= min(numbers)
}

known := "none" if count(tiers) == 0

known := concat(", ", [sprintf("%s (%d)", [tier.name, tier.tier]) | some tier in tiers]) if count(tiers) > 0
