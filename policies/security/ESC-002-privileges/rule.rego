package trainyard.rules.esc_002

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

selinux_types := ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"]

violation contains {"path": sprintf("%s.privileged", [entry.path]), "message": "privileged containers are not allowed"} if {
	some entry in pod_templates.security_contexts
	entry.context.privileged == true
}

violation contains {"path": sprintf("%s.capabilities.add", [entry.path]), "message": "an added capability is not allowed"} if {
	some entry in pod_templates.security_contexts
	some name in request.list(entry.context.capabilities, "add")
	not name in request.parameter("ESC-002", "capabilities")
}

violation contains {"path": sprintf("%s.procMount", [entry.path]), "message": "procMount must be Default"} if {
	some entry in pod_templates.security_contexts
	not request.object_get(entry.context, "procMount", "") in ["Default", ""]
}

violation contains {"path": sprintf("%s.%s.type", [entry.path, field]), "message": "type Unconfined is not allowed"} if {
	some entry in pod_templates.security_contexts
	some field in ["seccompProfile", "appArmorProfile"]
	entry.context[field].type == "Unconfined"
}

violation contains {"path": path, "message": "the SELinux type, user or role is not allowed"} if {
	some entry in pod_templates.security_contexts
	relabelled(entry.context.seLinuxOptions)
	path := sprintf("%s.seLinuxOptions", [entry.path])
}

violation contains {"path": path, "message": "the sysctl is not allowed"} if {
	some pod in pod_templates.pods
	some i, each in request.list(pod.spec.securityContext, "sysctls")
	not request.text(each, "name") in request.parameter("ESC-002", "sysctls")
	path := sprintf("%s.securityContext.sysctls[%d]", [pod.specPath, i])
}

relabelled(options) if not request.object_get(options, "type", "") in selinux_types

relabelled(options) if {
	some field in ["user", "role"]
	request.object_get(options, field, "") != ""
}
