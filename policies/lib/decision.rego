package trainyard

import data.trainyard.lib.request
import rego.v1

# The answer about one request. Which rules judge it is said by their rule.yaml, in data.trainyard.catalog: the same
# kinds, namespaces and conditions from which the API server's policies are generated.

decision := verdict if {
	settings_well_formed
} else := unjudged

# The answers about several requests with the same settings, in their order. Each is judged by an input of its own:
# what replaces a part of the whole input copies all of it. A request names its params by their place in a list, and
# brings no settings; nothing of the whole input counts as a request's own, for union would merge the two. There is no
# answer where there are no such params; whoever asks counts them.
decisions := [answer |
	some one in input.requests
	own := object.union(object.filter(one, ["request", "unknown", "mute"]), {"params": input.params[one.params]})
	document := object.union(settings, own)
	answer := verdict with input as document
] if {
	settings_well_formed
}

settings := object.remove(input, ["requests", "request", "params", "unknown", "mute"])

verdict := {
	"allowed": true,
	"violations": [], "warnings": [], "audits": [], "undecided": [], "exempted": [],
} if {
	request_well_formed
	count(findings) == 0
} else := {
	"allowed": count(denials) == 0,
	"violations": denials,
	"warnings": [finding | some finding in decided; finding.state == "warn"],
	"audits": [finding | some finding in decided; finding.state == "audit"],
	"undecided": [finding | some finding in findings; undecidable(finding)],
	"exempted": [finding | some finding in findings; exempted(finding)],
} if {
	request_well_formed
} else := unjudged

unjudged := {
	"allowed": false,
	"violations": [{
		"rule": null, "severity": "error", "state": "deny", "path": "object",
		"message": "the request could not be judged", "fix": "report the object that caused this",
	}],
	"warnings": [], "audits": [], "undecided": [], "exempted": [],
}

# A field that is absent would make conditions undefined, and rules silent.
request_well_formed if {
	input.request.operation in ["CREATE", "UPDATE", "DELETE"]
	is_object(request.object)
	type_name(object.get(input.request, "runtime", null)) in ["object", "null"]
	is_string(input.request.namespace)
	is_object(input.request.namespaceLabels)
	is_string(input.request.user.name)
	is_array(input.request.user.groups)
	type_name(input.params.platform) in ["object", "null"]
	type_name(input.params.tenantPolicy) in ["object", "null"]
	is_array(input.unknown)
	is_object(mute)
}

settings_well_formed if {
	is_object(data.trainyard.index)
	is_object(input.parameters)
	is_object(input.states)
	is_array(input.exemptNamespaces)
	is_array(input.exemptions)
	type_name(input.only) in ["array", "null"]
	is_string(input.now)
}

denials := [finding | some finding in decided; finding.state == "deny"]

decided := [finding |
	some finding in findings
	not undecidable(finding)
	not exempted(finding)
]

findings contains finding_of(id, violation) if {
	some id, name in judging
	some violation in data.trainyard.rules[name].violation
}

# What is created is refused where the object a rule reads does not exist; never an update, and never in a namespace of
# the platform. Pods and Jobs are refused in namespaces labelled as a tenant's only.
findings contains finding_of(id, violation) if {
	request.operation == "CREATE"
	not exempt_namespace
	some id, _ in lacking
	rule := data.trainyard.catalog[id]
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
	rule := data.trainyard.catalog[id]
}

state(id, _) := value if {
	value := input.states[id]
} else := data.trainyard.catalog[id].state

# The rules that concern the request, {id: package}: those that can judge, and those that lack the object that they read.
# The index holds them by what does not change from request to request, so that no other rule is even looked at.
judging := object.remove(object.remove(concerned[readable], silent), mute) if not being_deleted

lacking := object.remove(object.remove(concerned.all, concerned[readable]), silent) if {
	readable != "all"
	not being_deleted
}

concerned := data.trainyard.index[request.api_group][request.kind][request.subresource][request.operation][bound]

# Rules that are switched off, not asked for, or passed by.
silent contains id if {
	some id, value in input.states
	value == "off"
}

silent contains id if {
	some id in data.trainyard.off
	not input.states[id]
}

silent contains id if {
	is_array(input.only)
	some id, _ in concerned.all
	not id in input.only
}

silent contains id if {
	request.operation == "UPDATE"
	some id, _ in concerned.all
	passes_by(data.trainyard.catalog[id])
}

# Rules that have nothing to find in this request, as whoever asks has seen.
default mute := {}

mute := input.mute

# Whom the request concerns: the reaches of rules that bind it.
bound := "tenants and labelled" if {
	not exempt_namespace
	labelled
} else := "tenants" if {
	not exempt_namespace
} else := "everywhere"

# Rules of reach labelled bind what lies in no namespace too.
labelled if request.namespace == ""

labelled if "trainyard.dev/tenant" in object.keys(request.namespace_labels)

exempt_namespace if request.namespace in input.exemptNamespaces

being_deleted if input.request.object.metadata.deletionTimestamp

# An update of neither spec nor labels nor annotations, unless the rule judges these too.
passes_by(rule) if {
	nothing_touched
	not rule.unchanged
}

passes_by(rule) if {
	suspending
	not rule.stopping
}

# An update of none of the parts that the rule judges of this kind.
passes_by(rule) if {
	every part in rule.touching[request.api_group][request.kind] {
		untouched(part)
	}
}

nothing_touched if {
	every part in ["spec", "labels", "annotations"] {
		untouched(part)
	}
}

untouched("spec") if request.object_get(request.object, "spec", null) == request.object_get(request.old_object, "spec", null)

untouched(part) if {
	part != "spec"
	old := object.get(request.old_object, "metadata", {})
	request.object_get(request.metadata, part, null) == request.object_get(old, part, null)
}

suspending if request.spec.suspend == true

# What the rules may read of the objects beside the request.
readable := "all" if {
	is_object(input.params.platform)
	is_object(input.params.tenantPolicy)
} else := "Platform" if {
	is_object(input.params.platform)
} else := "TenantPolicy" if {
	is_object(input.params.tenantPolicy)
} else := "none"

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
	applies(exemption, "name", request.text(request.metadata, "name"))
	exemption.expires > input.now
}

applies(exemption, field, _) if not exemption[field]

applies(exemption, field, value) if exemption[field] == value
