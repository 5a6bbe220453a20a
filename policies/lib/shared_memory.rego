package trainyard.lib.shared_memory

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Containers and their mounts at /dev/shm: entries {path, container, mounts}, with the mounts {mount, volumes}, where
# volumes are the emptyDirs in memory of that name.
containers := [{"path": entry.path, "container": entry.container, "mounts": mounts(entry)} |
	some entry in pod_templates.containers
]

mounts(entry) := [{"mount": mount, "volumes": volumes} |
	some mount in request.list(entry.container, "volumeMounts")
	regex.match(`^/+dev/+shm/*$`, request.text(mount, "mountPath"))
	volumes := [empty_dir |
		some volume in request.list(entry.pod.spec, "volumes")
		volume.name == mount.name
		empty_dir := request.map(volume, "emptyDir")
		empty_dir.medium == "Memory"
	]
]
