package trainyard.rules.esc_001

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": path, "message": "host network, PID and IPC namespaces are not allowed"} if {
	some pod in pod_templates.pods
	some field in ["hostNetwork", "hostPID", "hostIPC"]
	pod.spec[field] == true
	path := sprintf("%s.%s", [pod.specPath, field])
}

violation contains {"path": path, "message": "hostPath volumes are not allowed"} if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	volume.hostPath != null
	path := sprintf("%s.volumes[%d].hostPath", [pod.specPath, i])
}

violation contains {"path": path, "message": "host ports are not allowed"} if {
	some entry in pod_templates.containers
	some i, port in request.list(entry.container, "ports")
	not request.object_get(port, "hostPort", 0) == 0
	path := sprintf("%s.ports[%d].hostPort", [entry.path, i])
}

violation contains {"path": path, "message": "a host is not allowed in probes and lifecycle hooks"} if {
	some entry in pod_templates.containers
	some name in ["livenessProbe", "readinessProbe", "startupProbe"]
	some field, call in entry.container[name]
	request.text(call, "host") != ""
	path := sprintf("%s.%s.%s.host", [entry.path, name, field])
}

violation contains {"path": path, "message": "a host is not allowed in probes and lifecycle hooks"} if {
	some entry in pod_templates.containers
	some name, hook in entry.container.lifecycle
	some field, call in hook
	request.text(call, "host") != ""
	path := sprintf("%s.lifecycle.%s.%s.host", [entry.path, name, field])
}

violation contains {"path": path, "message": "HostProcess containers are not allowed"} if {
	some entry in pod_templates.security_contexts
	entry.context.windowsOptions.hostProcess == true
	path := sprintf("%s.windowsOptions.hostProcess", [entry.path])
}
