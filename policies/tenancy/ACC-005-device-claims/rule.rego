package trainyard.rules.acc_005

import data.trainyard.lib.device_claims
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": sprintf("%s.adminAccess", [entry.path]), "message": message} if {
	not users.is_platform("ACC-005")
	some entry in device_claims.parts
	entry.part.adminAccess == true
	message := "adminAccess: true uses devices that others hold"
}

violation contains {"path": sprintf("%s.allocationMode", [entry.path]), "message": message} if {
	not users.is_platform("ACC-005")
	some entry in device_claims.parts
	mode := request.text(entry.part, "allocationMode")
	not mode in ["", "ExactCount"]
	message := sprintf("allocation mode %v requests devices without a number", [mode])
}

violation contains {"path": sprintf("%s.deviceClassName", [entry.path]), "message": message} if {
	not users.is_platform("ACC-005")
	count(request.parameter("ACC-005", "deviceClasses")) > 0
	some entry in device_claims.parts
	name := request.text(entry.part, "deviceClassName")
	name != ""
	not name in request.parameter("ACC-005", "deviceClasses")
	message := sprintf("device class \"%v\" is not allowed", [name])
}

violation contains {"path": path, "message": sprintf("the device taint key \"%v\" is not allowed", [key])} if {
	not users.is_platform("ACC-005")
	some entry in device_claims.parts
	some i, each in request.list(entry.part, "tolerations")
	key := request.text(each, "key")
	not key in request.parameter("ACC-005", "taints")
	path := sprintf("%s.tolerations[%d]", [entry.path, i])
}

violation contains {"path": sprintf("%s.devices.requests", [device_claims.base]), "message": message} if {
	not users.is_platform("ACC-005")
	total := sum([max([request.number(entry.part, "count", 1) | some entry in entries]) | some entries in device_claims.choices])
	total > request.parameter("ACC-005", "maxDevices")
	message := sprintf("the claim requests %v devices; at most %v are allowed", [total, request.parameter("ACC-005", "maxDevices")])
}
