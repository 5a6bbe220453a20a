package trainyard.rules.img_001

import data.trainyard.lib.request
import data.trainyard.lib.workloads
import rego.v1

with_digest := `^[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?@sha256:[0-9a-f]{64}$`

with_tag := `^[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*:[A-Za-z0-9_][A-Za-z0-9_.-]*$`

registries := request.parameter("IMG-001", "registries")

violation contains {"path": path, "message": sprintf("\"%v\" has no exact tag or digest", [image])} if {
	some path, image in workloads.images
	not pinned(image)
}

pinned(image) if {
	regex.match(with_tag, image)
	not floating(image)
}

pinned(image) if regex.match(with_digest, image)

floating(image) if {
	parts := split(lower(image), ":")
	parts[count(parts) - 1] in request.parameter("IMG-001", "floatingTags")
}

violation contains {"path": path, "message": message} if {
	count(registries) > 0
	some path, image in workloads.images
	not allowed(image)
	message := sprintf("\"%v\" is not from an allowed registry (%s)", [image, concat(", ", registries)])
}

allowed(image) if {
	some registry in registries
	startswith(full(image), sprintf("%s/", [registry]))
}

full(image) := image if {
	regex.match(`^([^/]*[.:][^/]*|localhost)/`, image)
} else := concat("/", ["docker.io", image]) if {
	contains(image, "/")
} else := concat("/", ["docker.io", "library", image])
