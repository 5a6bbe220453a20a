package trainyard.rules.shm_001

import data.trainyard.lib.accelerator_amounts
import data.trainyard.lib.quantities
import data.trainyard.lib.request
import data.trainyard.lib.shared_memory
import rego.v1

# Containers with several accelerators.
hungry := [entry |
	some entry in shared_memory.containers
	some kind in ["limits", "requests"]
	accelerator_amounts.several(request.map(request.map(entry.container, "resources"), kind))
]

violation contains {"path": sprintf("%s.volumeMounts", [entry.path]), "message": message} if {
	some entry in hungry
	not backed(entry.mounts)
	message := "/dev/shm requires a writable emptyDir of medium Memory, mounted without subPath"
}

backed(found) if {
	count(found) > 0
	every each in found {
		count(each.volumes) > 0
		request.object_get(each.mount, "subPath", null) == null
		request.object_get(each.mount, "subPathExpr", null) == null
		not each.mount.readOnly
	}
}

violation contains {"path": sprintf("%s.volumeMounts", [entry.path]), "message": message} if {
	some entry in hungry
	some empty_dir in entry.mounts[_].volumes
	not limited(empty_dir)
	message := "the volume at /dev/shm has no sizeLimit"
}

limited(empty_dir) if quantities.amount(empty_dir.sizeLimit) > 0

violation contains {"path": sprintf("%s.resources.limits[memory]", [entry.path]), "message": message} if {
	some entry in hungry
	limit := request.map(request.map(entry.container, "resources"), "limits").memory
	limit != null
	some empty_dir in entry.mounts[_].volumes
	size := quantities.amount(empty_dir.sizeLimit)
	not enough(limit, size)
	message := sprintf("the memory limit %v is below the sizeLimit %v of /dev/shm", [limit, empty_dir.sizeLimit])
}

# An invalid memory limit is too small; a sizeLimit that is no quantity has its own violation.
enough(limit, size) if quantities.amount(limit) >= size
