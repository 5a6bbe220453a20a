package trainyard.rules.bnd_002

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

limit(name) := request.parameter("BND-002", name)

violation contains {"path": path, "message": sprintf("%d pod templates exceed the limit of %d", [size, limit("templates")])} if {
	some path, size in templates
}

# Only the outermost lists that are too long are reported: nothing visits the rest.
violation contains {"path": path, "message": sprintf("%d containers exceed the limit of %d", [size, limit("containers")])} if {
	count(templates) == 0
	some path, size in containers
}

violation contains {"path": path, "message": sprintf("%d items exceed the limit of %d", [size, limit("items")])} if {
	count(templates) == 0
	count(containers) == 0
	some path, size in items
}

templates[path] := size if {
	some field in ["replicatedJobs", "tasks", "podTemplateOverrides", "podSpecOverrides"]
	size := count(request.list(request.spec, field))
	size > limit("templates")
	path := sprintf("spec.%s", [field])
}

templates["spec.template.spec.replicatedJobs"] := size if {
	size := count(request.list(request.map(request.map(request.spec, "template"), "spec"), "replicatedJobs"))
	size > limit("templates")
}

containers[path] := size if {
	some pod in pod_templates.pods
	some field in ["containers", "initContainers"]
	size := count(request.list(pod.spec, field))
	size > limit("containers")
	path := sprintf("%s.%s", [pod.specPath, field])
}

items[path] := size if {
	some pod in pod_templates.pods
	some field in ["volumes", "tolerations"]
	size := count(request.list(pod.spec, field))
	size > limit("items")
	path := sprintf("%s.%s", [pod.specPath, field])
}

items[path] := size if {
	some entry in pod_templates.containers
	some field in ["env", "volumeMounts"]
	size := count(request.list(entry.container, field))
	size > limit("items")
	path := sprintf("%s.%s", [entry.path, field])
}
