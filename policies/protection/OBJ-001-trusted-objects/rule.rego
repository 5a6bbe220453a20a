package trainyard.rules.obj_001

import data.trainyard.lib.request
import rego.v1

# Suffixes of the names of a TrainJob's objects, by kind: of its runtime snapshot, and of what frameworks create.
reserved := data.trainyard.children

verbs := {"CREATE": "create", "UPDATE": "update", "DELETE": "delete"}

violation contains {"path": "metadata", "message": message} if {
	trusted
	not by_platform
	not by_administrator
	verb := verbs[request.operation]
	message := sprintf("user \"%v\" cannot %s %s \"%s\", which the platform trusts", [request.user.name, verb, request.kind, name])
}

name := request.text(request.metadata, "name")

trusted if {
	some suffix in reserved[request.kind]
	endswith(name, suffix)
}

# Endings that are common elsewhere are reserved in the namespaces of tenants only.
trusted if {
	request.kind == "ConfigMap"
	some suffix in request.parameter("OBJ-001", "configMaps")
	endswith(name, suffix)
	"trainyard.dev/tenant" in object.keys(request.namespace_labels)
}

trusted if {
	not reserved[request.kind]
	some subject in subjects
	some owner in request.list(request.map(subject, "metadata"), "ownerReferences")
	owner.kind == "TrainJob"
	startswith(request.text(owner, "apiVersion"), "trainer.kubeflow.org/")
}

subjects contains request.object

subjects contains request.old_object

by_platform if request.user.name in request.parameter("OBJ-001", "users")

by_platform if {
	some name in input.exemptNamespaces
	sprintf("system:serviceaccounts:%s", [name]) in request.user.groups
}

# Users that may change admission policies may write these objects too; outside a cluster, no such user is known.
by_administrator if request.user.administrator == true

by_administrator if "system:masters" in request.user.groups
