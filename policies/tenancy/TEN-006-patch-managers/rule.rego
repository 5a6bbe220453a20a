package trainyard.rules.ten_006

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

patches := request.list(request.spec, "runtimePatches")

before := request.list(request.map(request.old_object, "spec"), "runtimePatches")

violation contains {"path": sprintf("spec.runtimePatches[%d]", [i]), "message": message} if {
	not users.is_platform("TEN-006")
	some i, patch in patches
	reserved(patch)
	not unchanged(patch)
	message := sprintf("only manager \"%s\" itself can write its patches", [request.text(patch, "manager")])
}

violation contains {"path": "spec.runtimePatches", "message": message} if {
	not users.is_platform("TEN-006")
	dropped := [sprintf("\"%s\"", [request.text(patch, "manager")]) |
		some patch in before
		reserved(patch)
		not patch.manager in [each.manager | some each in patches]
	]
	count(dropped) > 0
	message := sprintf("patches of reserved manager %s cannot be removed", [concat(", ", dropped)])
}

reserved(patch) if {
	some start in request.parameter("TEN-006", "managers")
	startswith(request.text(patch, "manager"), start)
}

unchanged(patch) if {
	some old in before
	old.manager == patch.manager
	request.map(old, "trainingRuntimeSpec") == request.map(patch, "trainingRuntimeSpec")
}
