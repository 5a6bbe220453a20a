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
	message := sprintf("user \"%v\" cannot %s objects that the platform trusts", [request.user.name, verbs[request.operation]])
}

trusted if {
	some suffix in reserved[request.kind]
	endswith(request.text(request.metadata, "name"), suffix)
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
