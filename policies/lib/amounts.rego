package trainyard.lib.amounts

import data.trainyard.lib.amount_bounds
import data.trainyard.lib.divisor_amounts
import data.trainyard.lib.nested_maps
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Amounts of an object by path that are no quantities, or too long or too large.

unbounded := object.union_n([divisor_amounts.unbounded, of_containers, of_pod_specs, of_object, of_sums])

of_containers[path] := amount if {
	some entry in pod_templates.containers
	some kind in ["limits", "requests"]
	some name, amount in request.map(request.map(entry.container, "resources"), kind)
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("%s.resources.%s[%s]", [entry.path, kind, name])
}

of_pod_specs[path] := amount if {
	some pod in pod_templates.pods
	some place, amounts in {
		"overhead": request.map(pod.spec, "overhead"),
		"resources.limits": request.map(request.map(pod.spec, "resources"), "limits"),
		"resources.requests": request.map(request.map(pod.spec, "resources"), "requests"),
	}
	some name, amount in amounts
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("%s.%s[%s]", [pod.specPath, place, name])
}

of_pod_specs[path] := amount if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	some kind in ["limits", "requests"]
	some name, amount in nested_maps.at(volume, ["ephemeral", "volumeClaimTemplate", "spec", "resources", kind])
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("%s.volumes[%d].ephemeral.volumeClaimTemplate.spec.resources.%s[%s]", [pod.specPath, i, kind, name])
}

of_pod_specs[path] := amount if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	amount := request.map(volume, "emptyDir").sizeLimit
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("%s.volumes[%d].emptyDir.sizeLimit", [pod.specPath, i])
}

of_object[path] := amount if {
	divisor_amounts.own
	some kind in ["limits", "requests"]
	some name, amount in nested_maps.at(request.spec, ["trainer", "resourcesPerNode", kind])
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("spec.trainer.resourcesPerNode.%s[%s]", [kind, name])
}

of_object[path] := amount if {
	divisor_amounts.own
	some i, volume in request.list(request.spec, "volumes")
	some kind in ["limits", "requests"]
	some name, amount in nested_maps.at(volume, ["volumeClaim", "resources", kind])
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("spec.volumes[%d].volumeClaim.resources.%s[%s]", [i, kind, name])
}

of_object[path] := amount if {
	divisor_amounts.own
	some at in [[], ["template", "spec"]]
	some i, policy in request.list(nested_maps.at(request.spec, at), "volumeClaimPolicies")
	some k, claim in request.list(policy, "templates")
	some place in [
		["spec", "resources", "limits"], ["spec", "resources", "requests"],
		["status", "allocatedResources"], ["status", "capacity"],
	]
	some name, amount in nested_maps.at(claim, place)
	amount_bounds.exceeds(amount, amount_bounds.largest)
	start := concat(".", array.concat(["spec"], at))
	path := sprintf("%s.volumeClaimPolicies[%d].templates[%d].%s[%s]", [start, i, k, concat(".", place), name])
}

# What many pods request: a PodGroup and a Queue.
of_sums[path] := amount if {
	some place in {"PodGroup": [["minResources"]], "Queue": [["capability"], ["deserved"], ["guarantee", "resource"]]}[request.kind]
	some name, amount in nested_maps.at(request.spec, place)
	amount_bounds.exceeds(amount, object.get(amount_bounds.largest_together, name, amount_bounds.largest))
	path := sprintf("spec.%s[%s]", [concat(".", place), name])
}
