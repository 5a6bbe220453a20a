package trainyard.rules.ten_003

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

classes := array.concat(request.texts(request.tenant_policy, "priorityClasses"), request.parameter("TEN-003", "defaults"))

violation contains {"path": entry.path, "message": message} if {
	some entry in named
	of_the_system(entry.name)
	message := sprintf("system priority class \"%v\" is not allowed", [entry.name])
}

violation contains {"path": entry.path, "message": message} if {
	some entry in named
	not of_the_system(entry.name)
	not entry.name in classes
	message := sprintf("priority class \"%v\" is not one of this namespace's priority classes (%s)", [entry.name, listed])
}

of_the_system(name) if startswith(name, "system-")

named contains {"path": "spec.priorityClassName", "name": name} if {
	name := request.text(request.spec, "priorityClassName")
	name != ""
}

named contains {"path": sprintf("%s.priorityClassName", [pod.specPath]), "name": name} if {
	some pod in pod_templates.pods
	name := request.text(pod.spec, "priorityClassName")
	name != ""
}

listed := "none" if count(classes) == 0

listed := concat(", ", classes) if count(classes) > 0
