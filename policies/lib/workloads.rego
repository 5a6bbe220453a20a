package trainyard.lib.workloads

import data.trainyard.lib.places
import data.trainyard.lib.request
import rego.v1

# What the containers of an object say, together with what a TrainJob says of its trainer.

trainer := request.map(request.spec, "trainer")

# Entries {path, image}; a field that is absent or empty names no image.
images contains {"path": sprintf("%s.image", [entry.path]), "image": image} if {
	some entry in places.containers
	image := request.text(entry.container, "image")
	image != ""
}

images contains {"path": "spec.trainer.image", "image": image} if {
	image := request.text(trainer, "image")
	image != ""
}

# Entries {path, limits, requests}.
resources contains resource_entry(sprintf("%s.resources", [entry.path]), request.map(entry.container, "resources")) if {
	some entry in places.containers
}

resources contains resource_entry("spec.trainer.resourcesPerNode", request.map(trainer, "resourcesPerNode"))

resource_entry(path, resources) := {
	"path": path,
	"limits": request.map(resources, "limits"),
	"requests": request.map(resources, "requests"),
}

# Entries {place, name} of the environment variables of containers, and of those of a TrainJob's trainer.
environment contains {"place": entry.path, "name": name} if {
	some entry in places.containers
	some variable in request.list(entry.container, "env")
	name := request.text(variable, "name")
}

environment contains {"place": "spec.trainer", "name": name} if {
	some variable in request.list(trainer, "env")
	name := request.text(variable, "name")
}

# Whether the platform, or the name itself, says that a resource is an accelerator.
accelerator(name) if name in request.list(request.platform, "acceleratorResources")

accelerator(name) if regex.match(`/(gpu|mig-.*)$`, name)
