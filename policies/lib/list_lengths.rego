package trainyard.lib.list_lengths

import data.trainyard.lib.listed_controllers
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Lists of an object that exceed the parameters of BND-002: entries {length, limit} by path. Only the outermost
# lists that are too long are listed: nothing visits the rest.

of_object := too_long("templates", {sprintf("spec.%s", [concat(".", field)]): object.get(request.spec, field, []) |
	some field in [
		["replicatedJobs"], ["tasks"], ["podTemplateOverrides"], ["podSpecOverrides"], ["runtimePatches"],
		["template", "spec", "replicatedJobs"],
	]
	not listed_controllers.listed
})

of_containers := too_long("containers", of_pods([["containers"], ["initContainers"]])) if {
	count(of_object) == 0
}

lists := object.union_n([
	of_job,
	too_long("items", object.union(projected, of_pods([[field] |
		some field in ["volumes", "tolerations", "imagePullSecrets", "hostAliases", "resourceClaims", "schedulingGates", "readinessGates"]
	]))),
	of_terms,
	too_long("items", of_each_container(["env", "envFrom", "ports", "volumeMounts", "volumeDevices"])),
	too_long("arguments", of_each_container(["args", "command"])),
]) if {
	deeper
} else := of_job

deeper if count(of_containers) == 0

of_terms := too_long("terms", of_pods(array.concat(
	[["topologySpreadConstraints"], array.concat(["affinity", "nodeAffinity"], [required, "nodeSelectorTerms"])],
	[["affinity", kind, when] |
		some kind in ["nodeAffinity", "podAffinity", "podAntiAffinity"]
		some when in [preferred, required]
		[kind, when] != ["nodeAffinity", required]
	],
)))

required := "requiredDuringSchedulingIgnoredDuringExecution"

preferred := "preferredDuringSchedulingIgnoredDuringExecution"

of_job := object.union_n([
	too_long("items", {sprintf("spec.%s.env", [concat(".", place)]): object.get(request.spec, array.concat(place, ["env"]), []) |
		some place in [["trainer"], ["initializer", "dataset"], ["initializer", "model"]]
	}),
	too_long("arguments", {sprintf("spec.trainer.%s", [field]): object.get(request.spec, ["trainer", field], []) | some field in ["args", "command"]}),
])

too_long(name, lists) := exceeding(name, {path: count(list) | some path, list in lists; is_array(list)})

exceeding(name, sums) := {path: {"length": number, "limit": limit} |
	limit := request.parameter("BND-002", name)
	some path, number in sums
	number > limit
}

of_pods(fields) := {sprintf("%s.%s", [pod.specPath, concat(".", field)]): object.get(pod.spec, field, []) |
	some pod in pod_templates.pods
	is_object(pod.spec)
	some field in fields
}

projected[path] := request.list(request.map(volume, "projected"), "sources") if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	path := sprintf("%s.volumes[%d].projected.sources", [pod.specPath, i])
}

of_each_container(fields) := {sprintf("%s.%s", [entry.path, field]): request.list(entry.container, field) |
	some entry in pod_templates.containers
	some field in fields
}
