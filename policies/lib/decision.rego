package trainyard

import data.trainyard.lib.request
import rego.v1

# The answer about one request. Which rules judge it is said by their rule.yaml, in data.trainyard.catalogue: the same
# kinds, namespaces and conditions from which the API server's policies are generated.

default decision := {
	"allowed": false,
	"violations": [{
		"rule": null, "severity": "error", "state": "deny", "path": "object",
		"message": "the request could not be judged", "fix": "report the object that caused this",
	}],
	"warnings": [], "audits": [], "undecided": [], "exempted": [],
}

decision := {
	"allowed": count(denials) == 0,
	"violations": denials,
	"warnings": [finding | some finding in decided; finding.state == "warn"],
	"audits": [finding | some finding in decided; finding.state == "audit"],
	"undecided": [finding | some finding in findings; undecidable(finding)],
	"exempted": [finding | some finding in findings; exempted(finding)],
} if {
	well_formed
}

# A field that is absent would make conditions undefined, and rules silent.
well_formed if {
	input.request.operation in ["CREATE", "UPDATE", "DELETE"]
	is_object(request.object)
	is_object(data.trainyard.index)
	type_name(object.get(input.request, "runtime", null)) in ["object", "null"]
	is_string(input.request.namespace)
	is_object(input.request.namespaceLabels)
	is_string(input.request.user.name)
	is_array(input.request.user.groups)
	every name in ["platform", "tenantPolicy"] {
		type_name(input.params[name]) in ["object", "null"]
	}
	every name in ["parameters", "states"] {
		is_object(input[name])
	}
	every name in ["exemptNamespaces", "exemptions", "unknown"] {
		is_array(input[name])
	}
	type_name(input.only) in ["array", "null"]
	is_string(input.now)
}

# The answers about several requests with the same settings, in their order. Each is judged by an input of its own:
# what replaces a part of the whole input copies all of it.
decisions := [answer |
	some one in input.requests
	document := object.union(settings, one)
	answer := decision with input as document
]

settings := object.remove(input, ["requests"])

denials := [finding | some finding in decided; finding.state == "deny"]

decided := [finding |
	some finding in findings
	not undecidable(finding)
	not exempted(finding)
]

findings contains finding_of(id, violation) if {
	some id in judging
	rule := data.trainyard.catalogue[id]
	rule.source in readable
	some violation in data.trainyard.rules[rule.package].violation
}

# What is created is refused where the object a rule reads does not exist; never an update, and never in a namespace of
# the platform. Pods and Jobs are refused in namespaces labelled as a tenant's only.
findings contains finding_of(id, violation) if {
	request.operation == "CREATE"
	not exempt_namespace
	some id in judging
	rule := data.trainyard.catalogue[id]
	not rule.source in readable
	not ordinary(rule)
	state(id, rule) == "deny"
	violation := {"path": "parameters", "message": sprintf("there is no %s to judge by", [rule.source])}
}

finding_of(id, violation) := {
	"rule": id,
	"severity": rule.severity,
	"state": state(id, rule),
	"path": violation.path,
	"message": violation.message,
	"fix": rule.fix,
} if {
	rule := data.trainyard.catalogue[id]
}

state(id, _) := value if {
	value := input.states[id]
} else := data.trainyard.catalogue[id].state

judging contains id if {
	not being_deleted
	some id in candidates
	rule := data.trainyard.catalogue[id]
	rule.reach in reaches
	state(id, rule) != "off"
	not passes_by(rule)
}

candidates := indexed if input.only == null

candidates := [id | some id in indexed; id in input.only] if is_array(input.only)

indexed := data.trainyard.index[request.api_group][request.kind][request.operation]

# Whom the request concerns, in the words of the rules. What is asked of a request is asked once and not for every rule.
reaches contains "everywhere"

reaches contains "tenants" if not exempt_namespace

# Rules of this reach bind what lies in no namespace too.
reaches contains "labelled" if request.namespace == ""

reaches contains "labelled" if {
	not exempt_namespace
	"trainyard.dev/tenant" in object.keys(request.namespace_labels)
}

exempt_namespace if request.namespace in input.exemptNamespaces

being_deleted if {
	is_object(input.request.object)
	input.request.object.metadata.deletionTimestamp
}

# An update of neither spec nor labels nor annotations, unless the rule judges these too.
passes_by(rule) if {
	nothing_touched
	not rule.unchanged
}

passes_by(rule) if {
	suspending
	not rule.stopping
}

nothing_touched if {
	request.operation == "UPDATE"
	old := request.old_object
	request.object_get(request.object, "spec", null) == request.object_get(old, "spec", null)
	every part in ["labels", "annotations"] {
		request.object_get(request.metadata, part, null) == request.object_get(object.get(old, "metadata", {}), part, null)
	}
}

suspending if {
	request.operation == "UPDATE"
	request.spec.suspend == true
}

readable contains "none"

readable contains "Platform" if is_object(input.params.platform)

readable contains "TenantPolicy" if is_object(input.params.tenantPolicy)

ordinary(rule) if {
	rule.source == "TenantPolicy"
	not contains(request.api_group, ".")
	not request.namespace_labels["trainyard.dev/tenant"]
}

# A value that is not known yet decides nothing.
undecidable(finding) if {
	some path in input.unknown
	within(finding.path, path)
}

undecidable(finding) if {
	some path in input.unknown
	within(path, finding.path)
}

within(path, outer) if path == outer

within(path, outer) if {
	some step in [".", "["]
	startswith(path, concat("", [outer, step]))
}

exempted(finding) if {
	some exemption in input.exemptions
	exemption.rule == finding.rule
	finding.path != "parameters"
	applies(exemption, "namespace", request.namespace)
	applies(exemption, "kind", request.kind)
	applies(exemption, "name", request.object_get(request.metadata, "name", ""))
	exemption.expires > input.now
}

applies(exemption, field, _) if not exemption[field]

applies(exemption, field, value) if exemption[field] == value
