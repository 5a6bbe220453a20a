package trainyard.rules.gng_005

import data.trainyard.lib.owners
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": entry.path, "message": sprintf("pods cannot join gang \"%v\"", [entry.group])} if {
	not users.is_platform("GNG-005")
	some listed in pod_templates.metadatas
	some entry in groups(listed.path, listed.metadata)
	entry.group != ""
	not own(entry.group)
	not entry.group in before
}

violation contains {"path": "metadata.ownerReferences", "message": message} if {
	request.kind == "Pod"
	not users.is_platform("GNG-005")
	some owner in owners.controllers(request.metadata)
	owner.kind in request.parameter("GNG-005", "controllers")
	not owner.uid in known
	message := sprintf("only the cluster creates pods of %v \"%v\"", [owner.kind, owner.name])
}

# PodGroups that metadata names: entries {path, group}.
groups(path, metadata) := array.concat(
	values(sprintf("%s.annotations", [path]), metadata, "annotations"),
	values(sprintf("%s.labels", [path]), metadata, "labels"),
)

values(path, metadata, field) := [{"path": sprintf("%s[%s]", [path, key]), "group": value} |
	some key in request.parameter("GNG-005", field)
	value := request.map(metadata, field)[key]
	value != null
]

own(group) if {
	some start in request.parameter("GNG-005", "own")
	startswith(sprintf("%v", [group]), start)
}

# PodGroups that the object named before the update.
before contains entry.group if {
	some metadata in old_metadata
	some entry in groups("", metadata)
}

old_metadata := array.flatten([
	[metadata | metadata := request.old_object.metadata],
	[metadata | metadata := request.old_object.spec.template.metadata],
	[metadata | metadata := request.old_object.spec.jobTemplate.metadata],
	[metadata | metadata := request.old_object.spec.jobTemplate.spec.template.metadata],
	[metadata | metadata := request.old_object.spec.tasks[_].template.metadata],
	[metadata | metadata := request.old_object.spec.replicatedJobs[_].template.spec.template.metadata],
])

known contains owner.uid if some owner in owners.controllers(request.map(request.old_object, "metadata"))
