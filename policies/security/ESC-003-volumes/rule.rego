package trainyard.rules.esc_003

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": path, "message": message} if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	some kind, source in volume
	source != null
	type := denied(kind, source)
	path := sprintf("%s.volumes[%d]", [pod.specPath, i])
	message := sprintf("inline volumes of %s are not allowed", [type])
}

denied("csi", source) := sprintf("CSI driver \"%s\"", [driver]) if {
	driver := request.text(source, "driver")
	not driver in request.parameter("ESC-003", "drivers")
}

denied(kind, _) := kind if {
	not kind in ["name", "csi"]
	not kind in request.parameter("ESC-003", "volumes")
}
