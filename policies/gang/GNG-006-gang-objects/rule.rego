package trainyard.rules.gng_006

import data.trainyard.lib.gang_amounts
import data.trainyard.lib.owners as references
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": "metadata.ownerReferences", "message": message} if {
	not users.is_platform("GNG-006")
	message := sprintf("user \"%v\" cannot write the PodGroup of %v \"%v\"", [request.user.name, owners[0].kind, owners[0].name])
}

violation contains {"path": "status", "message": message} if {
	not users.is_platform("GNG-006")
	request.map(request.object, "status") != request.map(gang_amounts.old, "status")
	message := sprintf("user \"%v\" cannot write the status of a PodGroup", [request.user.name])
}

violation contains {"path": sprintf("spec.minResources[%s]", [name]), "message": message} if {
	some name, amount in gang_amounts.unreadable
	message := sprintf("amount \"%v\" is not a quantity, or has more than 64 characters or an exponent of more than two digits", [amount])
}

violation contains {"path": sprintf("spec.minResources[%s]", [name]), "message": sprintf("amount \"%v\" is negative", [amount])} if {
	some name, amount in gang_amounts.negative
}

violation contains {"path": sprintf("spec.minResources[%s]", [name]), "message": sprintf("amount \"%v\" occupies the queue without pods", [amount])} if {
	not users.is_platform("GNG-006")
	some name, amount in gang_amounts.claimed
}

violation contains {"path": "spec", "message": message} if {
	not users.is_platform("GNG-006")
	request.operation == "UPDATE"
	request.metadata.deletionTimestamp
	parts(request.object) != parts(gang_amounts.old)
	message := sprintf("user \"%v\" cannot change a PodGroup that is being deleted", [request.user.name])
}

parts(subject) := [request.map(subject, "spec"), request.map(metadata, "labels"), request.map(metadata, "annotations")] if {
	metadata := request.map(subject, "metadata")
}

owners := [owner |
	some subject in subjects
	some owner in references.controllers(request.map(subject, "metadata"))
	owner.kind in request.parameter("GNG-006", "controllers")
]

subjects := [request.object, gang_amounts.old]
