package trainyard.rules.esc_002

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

selinux_types := ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"]

violation contains {"path": sprintf("%s.privileged", [entry.path]), "message": "privileged containers are not allowed"} if {
	some entry in pod_templates.security_contexts
	entry.context.privileged == true
}

violation contains {"path": sprintf("%s.capabilities.add", [entry.path]), "message": message} if {
	some entry in pod_templates.security_contexts
	foreign := [sprintf("\"%v\"", [name]) |
		some name in request.list(entry.context.capabilities, "add")
		not name in request.parameter("ESC-002", "capabilities")
	]
	count(foreign) > 0
	message := sprintf("capability %s is not allowed", [concat(", ", foreign)])
}

violation contains {"path": sprintf("%s.procMount", [entry.path]), "message": message} if {
	some entry in pod_templates.security_contexts
	value := request.text(entry.context, "procMount")
	not value in ["Default", ""]
	message := sprintf("procMount must be Default, not \"%s\"", [value])
}

violation contains {"path": sprintf("%s.%s.type", [entry.path, field]), "message": "type Unconfined is not allowed"} if {
	some entry in pod_templates.security_contexts
	some field in ["seccompProfile", "appArmorProfile"]
	entry.context[field].type == "Unconfined"
}

violation contains {"path": sprintf("%s.seLinuxOptions", [entry.path]), "message": message} if {
	some entry in pod_templates.security_contexts
	options := entry.context.seLinuxOptions
	foreign := [sprintf("%s \"%s\"", [field, value]) |
		some field in ["type", "user", "role"]
		value := request.text(options, field)
		not value in object.get({"type": selinux_types}, field, [""])
	]
	count(foreign) > 0
	message := sprintf("SELinux %s is not allowed", [concat(", ", foreign)])
}

violation contains {"path": path, "message": sprintf("sysctl \"%s\" is not allowed", [name])} if {
	some pod in pod_templates.pods
	some i, each in request.list(pod.spec.securityContext, "sysctls")
	name := request.text(each, "name")
	not name in request.parameter("ESC-002", "sysctls")
	path := sprintf("%s.securityContext.sysctls[%d]", [pod.specPath, i])
}
