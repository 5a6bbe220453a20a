package trainyard.rules.esc_004

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": entry.path, "message": "containers should not run as root"} if {
	some entry in pod_templates.security_contexts
	as_root(entry.context)
}

violation contains {"path": path, "message": "allowPrivilegeEscalation should be false"} if {
	some entry in pod_templates.security_contexts
	entry.context.allowPrivilegeEscalation == true
	path := sprintf("%s.allowPrivilegeEscalation", [entry.path])
}

violation contains {"path": path, "message": sprintf("use a PersistentVolumeClaim instead of a volume of type %s", [kind])} if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	some kind, source in volume
	source != null
	not kind in usual
	path := sprintf("%s.volumes[%d]", [pod.specPath, i])
}

violation contains {"path": path, "message": sprintf("audience \"%s\" is not that of the API server", [audience])} if {
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	some k, source in request.list(request.map(volume, "projected"), "sources")
	audience := request.text(request.map(source, "serviceAccountToken"), "audience")
	foreign(audience)
	path := sprintf("%s.volumes[%d].projected.sources[%d].serviceAccountToken.audience", [pod.specPath, i, k])
}

usual := array.concat(["name"], request.parameter("ESC-004", "volumes"))

as_root(context) if context.runAsUser == 0

as_root(context) if context.runAsNonRoot == false

foreign(audience) if {
	audience != ""
	every start in request.parameter("ESC-004", "audiences") {
		not startswith(audience, start)
	}
}
