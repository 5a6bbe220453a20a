package trainyard.rules.esc_003

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": path, "message": "gitRepo, flexVolume and inline CSI volumes of this driver are not allowed"} if {
	some pod in pod_templates.pods
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
