package trainyard.rules.esc_001

import data.trainyard.lib.places
import data.trainyard.lib.request
import rego.v1

violation contains {"path": path, "message": "a pod may not share the host's network, processes or memory"} if {
	some pod in places.pods
	some field in ["hostNetwork", "hostPID", "hostIPC"]
	pod.spec[field] == true
	path := sprintf("%s.%s", [pod.specPath, field])
}

violation contains {"path": path, "message": "a pod may not mount files of the host"} if {
	some pod in places.pods
	some i, volume in request.list(pod.spec, "volumes")
	volume.hostPath != null
	path := sprintf("%s.volumes[%d].hostPath", [pod.specPath, i])
}

violation contains {"path": path, "message": "a container may not take a port of the host"} if {
	some entry in places.containers
	some i, port in request.list(entry.container, "ports")
	not request.object_get(port, "hostPort", 0) == 0
	path := sprintf("%s.ports[%d].hostPort", [entry.path, i])
}

violation contains {"path": path, "message": "a probe or hook may call its own container only"} if {
	some entry in places.containers
	some name in ["livenessProbe", "readinessProbe", "startupProbe"]
	some field, call in entry.container[name]
	request.text(call, "host") != ""
	path := sprintf("%s.%s.%s.host", [entry.path, name, field])
}

violation contains {"path": path, "message": "a probe or hook may call its own container only"} if {
	some entry in places.containers
	some name, hook in entry.container.lifecycle
	some field, call in hook
	request.text(call, "host") != ""
	path := sprintf("%s.lifecycle.%s.%s.host", [entry.path, name, field])
}

violation contains {"path": path, "message": "a container may not run as a process of the host"} if {
	some entry in places.security_contexts
	entry.context.windowsOptions.hostProcess == true
	path := sprintf("%s.windowsOptions.hostProcess", [entry.path])
}
