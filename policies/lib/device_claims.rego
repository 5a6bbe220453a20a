package trainyard.lib.device_claims

import data.trainyard.lib.request
import rego.v1

# Requests of a ResourceClaim or its template, and the path of its spec.

base := "spec.spec" if {
	request.kind == "ResourceClaimTemplate"
} else := "spec"

claim := request.map(request.spec, "spec") if {
	request.kind == "ResourceClaimTemplate"
} else := request.spec

# The alternatives of each request: entries {path, part}. In old versions, the request itself has the fields of exactly.
choices := [array.flatten([
	{"path": path, "part": each},
	[{"path": sprintf("%s.exactly", [path]), "part": part} | part := each.exactly],
	[{"path": sprintf("%s.firstAvailable[%d]", [path, k]), "part": part} |
		some k, part in request.list(each, "firstAvailable")
	],
]) |
	some i, each in request.list(request.map(claim, "devices"), "requests")
	path := sprintf("%s.devices.requests[%d]", [base, i])
]

parts := array.flatten(choices)
