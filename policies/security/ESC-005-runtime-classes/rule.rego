package trainyard.rules.esc_005

import data.trainyard.lib.device_requests
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": entry.path, "message": sprintf("runtime class \"%v\" is not allowed", [entry.name])} if {
	request.subresource == ""
	some entry in named
	count(prefixes(entry.name)) == 0
}

violation contains {"path": entry.path, "message": message} if {
	some entry in named
	count(prefixes(entry.name)) > 0
	given(entry.spec, entry.name)
	message := sprintf("runtime class \"%v\" is for containers that request its accelerators", [entry.name])
}

# Pods with a class that is not allowed everywhere.
named := [{"spec": pod.spec, "name": name, "path": sprintf("%s.runtimeClassName", [pod.specPath])} |
	some pod in pod_templates.pods
	name := request.text(pod.spec, "runtimeClassName")
	not name in array.concat([""], request.parameter("ESC-005", "classes"))
]

# Beginnings of the resources of a class.
prefixes(name) := {trim_prefix(entry, start) |
	start := sprintf("%s=", [name])
	some entry in request.parameter("ESC-005", "deviceClasses")
	startswith(entry, start)
}

# A container that requests nothing gets all devices by the variable of its image.
given(spec, class) if {
	some container in considered(spec)
	not device_requests.one_of(container, prefixes(class))
	not hides(container, class)
}

# An existing pod was evaluated when it was created.
considered(spec) := pod_templates.joining if {
	request.subresource == "ephemeralcontainers"
} else := array.concat(request.list(spec, "containers"), request.list(spec, "initContainers"))

hides(container, class) if {
	some variable in request.list(container, "env")
	sprintf("%s=%s", [class, request.text(variable, "name")]) in request.parameter("ESC-005", "hidingVariables")
	request.object_get(variable, "valueFrom", null) == null
	request.text(variable, "value") in ["", "none", "void"]
}
