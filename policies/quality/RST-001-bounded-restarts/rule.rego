package trainyard.rules.rst_001

import data.trainyard.lib.request
import data.trainyard.lib.restarts
import rego.v1

parameter(name) := request.parameter("RST-001", name)

violation contains {"path": entry.path, "message": message} if {
	some entry in restarts.numbers
	ceiling := ceilings[entry.limit]
	not bounded(entry.number, ceiling)
	message := sprintf("out of bounds: %v (at most %d)", [entry.number, ceiling])
}

ceilings := {
	"backoffs": parameter("maxBackoffLimit"),
	"restarts": parameter("maxRestarts"),
	"seconds": parameter("maxDeadlineSeconds"),
	"nothing": 2147483647,
}

# Values that are not numbers are unbounded: Rego sorts them before or after all numbers.
bounded(number, ceiling) if {
	number >= 0
	number <= ceiling
}

violation contains {"path": path, "message": "restarts that ignore maxRestarts are unlimited"} if {
	some path in restarts.unlimited
}

violation contains {"path": sprintf("%s.onExitCodes.operator", [entry.path]), "message": message} if {
	some entry in restarts.ignored
	entry.exitCodes.operator == "NotIn"
	codes := concat(" ", request.texts(entry.exitCodes, "values"))
	message := sprintf("action Ignore restarts pods without limit for all exit codes but %s", [codes])
}

violation contains {"path": sprintf("%s.podFailurePolicy.rules", [job]), "message": message} if {
	some job in {entry.job | some entry in restarts.ignored}
	total := sum([count(request.list(entry.exitCodes, "values")) | some entry in restarts.ignored; entry.job == job])
	total > parameter("maxIgnoredExitCodes")
	message := sprintf("action Ignore for %d exit codes; at most %d are allowed", [total, parameter("maxIgnoredExitCodes")])
}

violation contains {"path": sprintf("%s.onPodConditions", [entry.path]), "message": message} if {
	some entry in restarts.ignored
	allowed := parameter("ignoredConditions")
	types := [type | some each in entry.conditions; type := request.text(each, "type"); not type in allowed]
	count(types) > 0
	message := sprintf("action Ignore for condition %s; only %s is allowed", [concat(" ", types), concat(" ", allowed)])
}

violation contains {"path": "spec.activeDeadlineSeconds", "message": "activeDeadlineSeconds is unset"} if {
	parameter("deadlineRequired")
	request.kind == "TrainJob"
	request.object_get(request.spec, "activeDeadlineSeconds", null) == null
}
