package trainyard.rules.run_001

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

released_annotation := "trainyard.dev/released"

alias_annotation := "trainyard.dev/alias-of"

annotations(subject) := request.map(request.map(subject, "metadata"), "annotations")

old := annotations(request.old_object)

released if {
	released_annotation in object.keys(old)
	not alias_annotation in object.keys(old)
}

violation contains {"path": "spec", "message": "spec of a released version is immutable"} if {
	released
	object.get(request.object, "spec", null) != object.get(request.old_object, "spec", null)
}

violation contains {"path": sprintf("metadata.annotations[%s]", [released_annotation]), "message": message} if {
	released
	new := annotations(request.object)
	not new[released_annotation] == old[released_annotation]
	message := "the annotation of a released version is immutable"
}

violation contains {"path": sprintf("metadata.annotations[%s]", [alias_annotation]), "message": message} if {
	released
	alias_annotation in object.keys(annotations(request.object))
	message := "a released version cannot become an alias"
}

violation contains {"path": "metadata", "message": "a released version must be deprecated before it is deleted"} if {
	released
	request.operation == "DELETE"
	not deprecated
	not users.is_platform("RUN-001")
}

deprecated if request.map(request.metadata, "labels")["trainer.kubeflow.org/support"] == "deprecated"
