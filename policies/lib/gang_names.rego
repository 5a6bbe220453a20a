package trainyard.lib.gang_names

import data.trainyard.lib.request
import rego.v1

# PodGroups that metadata names by its annotations and labels: entries {path, group}.
of(path, metadata, annotations, labels) := array.concat(
	values(sprintf("%s.annotations", [path]), metadata, "annotations", annotations),
	values(sprintf("%s.labels", [path]), metadata, "labels", labels),
)

values(path, metadata, field, keys) := [{"path": sprintf("%s[%s]", [path, key]), "group": value} |
	some key in keys
	value := request.map(metadata, field)[key]
	value != null
]

# Metadata of an updated object and of its templates, before the update.
old_metadata := array.flatten([
	[metadata | metadata := request.old_object.metadata],
	[metadata | metadata := request.old_object.spec.template.metadata],
	[metadata | metadata := request.old_object.spec.jobTemplate.metadata],
	[metadata | metadata := request.old_object.spec.jobTemplate.spec.template.metadata],
	[metadata | metadata := request.old_object.spec.tasks[_].template.metadata],
	[metadata | metadata := request.old_object.spec.replicatedJobs[_].template.spec.template.metadata],
])
