package trainyard.rules.obj_003

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

label := "resource.kubernetes.io/admin-access"

violation contains {"path": "metadata", "message": message} if {
	of_the_platform
	not may_write
	message := sprintf("user \"%v\" cannot write %v \"%v\"", [request.user.name, request.kind, request.text(request.metadata, "name")])
}

violation contains {"path": sprintf("metadata.labels[%s]", [label]), "message": message} if {
	request.kind == "Namespace"
	value := labels(request.object)[label]
	not labels(old)[label] == value
	not may_write
	message := sprintf("user \"%v\" cannot give a namespace access to the devices of others", [request.user.name])
}

of_the_platform if request.kind in ["Queue", "HyperNode"]

of_the_platform if {
	request.kind in ["ResourceQuota", "LimitRange"]
	"trainyard.dev/tenant" in object.keys(request.namespace_labels)
}

of_the_platform if {
	request.kind == "PriorityClass"
	some subject in subjects
	shared(subject)
}

shared(subject) if subject.globalDefault == true

shared(subject) if labels(subject)["app.kubernetes.io/managed-by"] == "trainyard"

subjects contains request.object

subjects contains old

default old := {}

old := request.old_object

labels(subject) := request.map(request.map(subject, "metadata"), "labels")

may_write if users.is_platform("OBJ-003")

may_write if {
	some name in request.parameter("OBJ-003", "groups")
	name in request.user.groups
}
