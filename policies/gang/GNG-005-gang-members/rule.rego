package trainyard.rules.gng_005

import data.trainyard.lib.gang_names
import data.trainyard.lib.owners
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

annotations := request.parameter("GNG-005", "annotations")

labels := request.parameter("GNG-005", "labels")

violation contains {"path": entry.path, "message": sprintf("pods cannot join gang \"%v\"", [entry.group])} if {
	not users.is_platform("GNG-005")
	some listed in pod_templates.metadatas
	some entry in gang_names.of(listed.path, listed.metadata, annotations, labels)
	entry.group != ""
	not own(entry.group)
	not entry.group in before
}

violation contains {"path": "metadata.ownerReferences", "message": message} if {
	request.kind == "Pod"
	not users.is_platform("GNG-005")
	some owner in owners.controllers(request.metadata)
	of_the_cluster(owner.kind)
	not owner.uid in known
	message := sprintf("only the cluster creates pods of %v \"%v\"", [owner.kind, owner.name])
}

of_the_cluster(kind) if kind in request.parameter("GNG-005", "controllers")

# Volcano reads only the uid.
of_the_cluster(kind) if {
	request.text(request.spec, "schedulerName") in request.parameter("GNG-005", "schedulers")
	not kind in request.parameter("GNG-005", "owners")
}

own(group) if {
	some start in request.parameter("GNG-005", "own")
	startswith(sprintf("%v", [group]), start)
}

# PodGroups that the object named before the update.
before contains entry.group if {
	some metadata in gang_names.old_metadata
	some entry in gang_names.of("", metadata, annotations, labels)
}

known contains owner.uid if some owner in owners.controllers(request.map(request.old_object, "metadata"))
