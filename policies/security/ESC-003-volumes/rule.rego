package trainyard.rules.esc_003

import data.trainyard.lib.places
import data.trainyard.lib.request
import rego.v1

violation contains {"path": path, "message": "a pod may not mount this kind of volume"} if {
	some pod in places.pods
	some i, volume in request.list(pod.spec, "volumes")
	inline(volume)
	path := sprintf("%s.volumes[%d]", [pod.specPath, i])
}

inline(volume) if {
	some kind in ["gitRepo", "flexVolume"]
	volume[kind] != null
}

inline(volume) if {
	volume.csi != null
	not request.text(volume.csi, "driver") in request.parameter("ESC-003", "drivers")
}
