package trainyard.rules.esc_002

import data.trainyard.lib.places
import data.trainyard.lib.request
import rego.v1

selinux_types := ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"]

violation contains {"path": sprintf("%s.privileged", [entry.path]), "message": "a container may not be privileged"} if {
	some entry in places.security_contexts
	entry.context.privileged == true
}

violation contains {"path": sprintf("%s.capabilities.add", [entry.path]), "message": "a container may not add this capability"} if {
	some entry in places.security_contexts
	some name in request.list(entry.context.capabilities, "add")
	not name in request.parameter("ESC-002", "capabilities")
}

violation contains {"path": sprintf("%s.procMount", [entry.path]), "message": "a container may not have an unmasked /proc"} if {
	some entry in places.security_contexts
	not request.object_get(entry.context, "procMount", "") in ["Default", ""]
}

violation contains {"path": sprintf("%s.%s.type", [entry.path, field]), "message": "a pod may not switch off its profile"} if {
	some entry in places.security_contexts
	some field in ["seccompProfile", "appArmorProfile"]
	entry.context[field].type == "Unconfined"
}

violation contains {"path": path, "message": "a pod may not choose this SELinux type, or a user or role"} if {
	some entry in places.security_contexts
	relabelled(entry.context.seLinuxOptions)
	path := sprintf("%s.seLinuxOptions", [entry.path])
}

violation contains {"path": path, "message": "a pod may not set this kernel parameter"} if {
	some pod in places.pods
	some i, each in request.list(pod.spec.securityContext, "sysctls")
	not request.text(each, "name") in request.parameter("ESC-002", "sysctls")
	path := sprintf("%s.securityContext.sysctls[%d]", [pod.specPath, i])
}

relabelled(options) if not request.object_get(options, "type", "") in selinux_types

relabelled(options) if {
	some field in ["user", "role"]
	request.object_get(options, field, "") != ""
}
