package trainyard.lib.workloads

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Container settings of an object, including those of a TrainJob's trainer.

trainer := request.map(request.spec, "trainer")

# Images by path; unset and empty fields are ignored.
images[path] := sprintf("%v", [entry.container.image]) if {
	some entry in pod_templates.containers
	not entry.container.image in ["", null]
	path := sprintf("%s.image", [entry.path])
}

# Volumes with the files of an image.
images[path] := reference if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	reference := request.text(request.map(volume, "image"), "reference")
	reference != ""
	path := sprintf("%s.volumes[%d].image.reference", [pod.specPath, i])
}

images["spec.trainer.image"] := sprintf("%v", [trainer.image]) if not trainer.image in ["", null]

# Entries {path, limits, requests}.
resources contains resource_entry(sprintf("%s.resources", [entry.path]), request.map(entry.container, "resources")) if {
	some entry in pod_templates.containers
}

resources contains resource_entry("spec.trainer.resourcesPerNode", request.map(trainer, "resourcesPerNode"))

resource_entry(path, resources) := {
	"path": path,
	"limits": amounts(resources, "limits"),
	"requests": amounts(resources, "requests"),
}

# The API server drops null values.
amounts(resources, kind) := {name: amount |
	some name, amount in request.map(resources, kind)
	amount != null
}

# Entries {path, name} of the environment variables of containers, and of those of a TrainJob's trainer.
environment := array.concat(
	[{"path": entry.path, "name": variable.name} |
		some entry in pod_templates.containers
		some variable in request.list(entry.container, "env")
		is_string(variable.name)
	],
	[{"path": "spec.trainer", "name": variable.name} |
		some variable in request.list(trainer, "env")
		is_string(variable.name)
	],
)
