package trainyard.rules.gng_007

import data.trainyard.lib.gang_amounts
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": path, "message": sprintf("an existing pod cannot change to gang \"%v\"", [group])} if {
	request.kind == "Pod"
	not users.is_platform("GNG-007")
	some part in ["annotations", "labels"]
	some key in request.parameter("GNG-007", part)
	group := named(request.object, part, key)
	group != named(request.old_object, part, key)
	of_users(group)
	path := sprintf("metadata.%s[%s]", [part, key])
}

violation contains {"path": "status", "message": message} if {
	request.kind != "Pod"
	request.operation == "DELETE"
	not users.is_platform("GNG-007")
	placed(request.map(gang_amounts.old, "status"))
	message := sprintf("user \"%v\" cannot delete the PodGroup of pods that run", [request.user.name])
}

violation contains {"path": "metadata.ownerReferences", "message": message} if {
	request.kind != "Pod"
	request.operation != "DELETE"
	not users.is_platform("GNG-007")
	own(request.text(request.metadata, "name"))
	some owner in request.list(request.metadata, "ownerReferences")
	not owner.uid in former
	message := sprintf("user \"%v\" cannot give a PodGroup an owner", [request.user.name])
}

# GNG-005 denies other gangs.
of_users(group) if group == ""

of_users(group) if own(group)

own(name) if {
	some start in request.parameter("GNG-007", "own")
	startswith(name, start)
}

named(subject, part, key) := request.text(request.map(request.map(subject, "metadata"), part), key)

placed(status) if request.number(status, "running", 0) > 0

placed(status) if request.text(status, "phase") in ["Running", "Unknown"]

former contains owner.uid if some owner in request.list(request.map(gang_amounts.old, "metadata"), "ownerReferences")
