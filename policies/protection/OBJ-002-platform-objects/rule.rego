package trainyard.rules.obj_002

import data.trainyard.lib.own_metadata
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

tenant_label := "trainyard.dev/tenant"

annotation := "scheduling.volcano.sh/queue-name"

violation contains {"path": "metadata", "message": message} if {
	sets_limits
	not users.is_platform("OBJ-002")
	message := sprintf("user \"%v\" cannot write policy configuration", [request.user.name])
}

violation contains {"path": "metadata.labels", "message": message} if {
	of_a_tenant
	not users.is_platform("OBJ-002")
	some key in own_metadata.changed_labels
	binding(key)
	message := sprintf("user \"%v\" cannot change the tenant or Pod Security labels of a tenant's namespace", [request.user.name])
}

violation contains {"path": sprintf("metadata.annotations[%s]", [annotation]), "message": message} if {
	of_a_tenant
	not users.is_platform("OBJ-002")
	queue(own_metadata.annotations) != queue(own_metadata.old_annotations)
	message := sprintf("user \"%v\" cannot set the queue of a tenant's namespace", [request.user.name])
}

violation contains {"path": "metadata.annotations", "message": message} if {
	request.kind == "Namespace"
	not users.is_platform("OBJ-002")
	some key in own_metadata.changed_annotations
	startswith(key, "policy.trainyard.dev/")
	message := sprintf("user \"%v\" cannot change annotations policy.trainyard.dev/ of a namespace", [request.user.name])
}

sets_limits if request.api_group == "trainyard.dev"

sets_limits if {
	request.api_group == "admissionregistration.k8s.io"
	some each in [own_metadata.labels, own_metadata.old_labels]
	each["app.kubernetes.io/managed-by"] == "trainyard"
}

of_a_tenant if {
	request.kind == "Namespace"
	tenant_label in (object.keys(own_metadata.labels) | object.keys(own_metadata.old_labels))
}

binding(key) if key == tenant_label

binding(key) if startswith(key, "pod-security.kubernetes.io/")

queue(annotations) := object.get(annotations, annotation, "")
