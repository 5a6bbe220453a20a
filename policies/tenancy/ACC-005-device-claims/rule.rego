package trainyard.rules.acc_005

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": sprintf("%s.adminAccess", [entry.path]), "message": message} if {
	not users.is_platform("ACC-005")
	some entry in parts
	entry.part.adminAccess == true
	message := "adminAccess uses devices that others hold"
}

violation contains {"path": sprintf("%s.allocationMode", [entry.path]), "message": message} if {
	not users.is_platform("ACC-005")
	some entry in parts
	mode := request.text(entry.part, "allocationMode")
	not mode in ["", "ExactCount"]
	message := sprintf("allocation mode %v requests devices without a number", [mode])
}

violation contains {"path": sprintf("%s.deviceClassName", [entry.path]), "message": message} if {
	not users.is_platform("ACC-005")
	count(request.parameter("ACC-005", "deviceClasses")) > 0
	some entry in parts
	name := request.text(entry.part, "deviceClassName")
	name != ""
	not name in request.parameter("ACC-005", "deviceClasses")
	message := sprintf("device class \"%v\" is not allowed", [name])
}

violation contains {"path": sprintf("%s.devices.requests", [base]), "message": message} if {
	not users.is_platform("ACC-005")
	total := sum([max([request.number(entry.part, "count", 1) | some entry in entries]) | some entries in choices])
	total > request.parameter("ACC-005", "maxDevices")
	message := sprintf("the claim requests %v devices; at most %v are allowed", [total, request.parameter("ACC-005", "maxDevices")])
}

base := "spec.spec" if {
	request.kind == "ResourceClaimTemplate"
} else := "spec"

claim := request.map(request.spec, "spec") if {
	request.kind == "ResourceClaimTemplate"
} else := request.spec

# The alternatives of each request: entries {path, part}. In old versions, the request itself has the fields of exactly.
choices := [array.flatten([
	{"path": path, "part": each},
	[{"path": sprintf("%s.exactly", [path]), "part": each.exactly} | is_object(each.exactly)],
	[{"path": sprintf("%s.firstAvailable[%d]", [path, k]), "part": part} |
		some k, part in request.list(each, "firstAvailable")
	],
]) |
	some i, each in request.list(request.map(claim, "devices"), "requests")
	path := sprintf("%s.devices.requests[%d]", [base, i])
]

parts := array.flatten(choices)
