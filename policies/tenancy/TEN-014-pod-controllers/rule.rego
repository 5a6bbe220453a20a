package trainyard.rules.ten_014

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": sprintf("%s.%s", [template_path, path]), "message": sprintf("the pods would be denied: %s", [why])} if {
	not users.is_platform("TEN-014")
	some path, why in denied
}

template_path := "spec.jobTemplate.spec.template" if {
	request.kind == "CronJob"
} else := "spec.template"

template := request.map(request.map(request.map(request.spec, "jobTemplate"), "spec"), "template") if {
	request.kind == "CronJob"
} else := request.map(request.spec, "template")

annotations := request.map(request.map(template, "metadata"), "annotations")

spec := request.map(template, "spec")

denied["metadata.annotations[scheduling.volcano.sh/queue-name]"] := sprintf("QUE-002 queue \"%v\"", [queue]) if {
	queue := annotations["scheduling.volcano.sh/queue-name"]
	not queue in request.texts(request.tenant_policy, "queues")
}

denied["metadata.annotations[scheduling.k8s.io/group-name]"] := sprintf("GNG-005 gang \"%v\"", [group]) if {
	group := annotations["scheduling.k8s.io/group-name"]
	not startswith(sprintf("%v", [group]), "own.")
}

denied["spec.serviceAccountName"] := sprintf("TEN-004 service account \"%v\"", [account]) if {
	not account in request.texts(request.tenant_policy, "serviceAccounts")
}

denied["spec.nodeName"] := sprintf("TEN-005 node \"%v\"", [name]) if {
	name := request.text(spec, "nodeName")
	name != ""
}

denied[sprintf("spec.%s", [name])] := sprintf("ESC-001 %s", [name]) if {
	some name in ["hostNetwork", "hostPID", "hostIPC"]
	spec[name] == true
}

denied[sprintf("spec.volumes[%d].hostPath", [i])] := "ESC-001 hostPath" if {
	some i, volume in request.list(spec, "volumes")
	request.object_get(volume, "hostPath", null) != null
}

denied[sprintf("%s.securityContext.privileged", [entry.path])] := "ESC-002 privileged" if {
	some entry in containers
	entry.container.securityContext.privileged == true
}

denied[sprintf("%s.resources.limits", [entry.path])] := "ACC-001 accelerators under the default scheduler" if {
	request.text(spec, "schedulerName") in ["", "default-scheduler"]
	some entry in containers
	some name, amount in request.map(request.map(entry.container, "resources"), "limits")
	amount != null
	endswith(name, "/gpu")
}

account := spec.serviceAccountName if {
	not request.object_get(spec, "serviceAccountName", "") == ""
} else := spec.serviceAccount if {
	not request.object_get(spec, "serviceAccount", "") == ""
} else := "default"

containers := [{"path": sprintf("spec.%s[%d]", [field, i]), "container": container} |
	some field in ["containers", "initContainers"]
	some i, container in request.list(spec, field)
]
