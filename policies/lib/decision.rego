package trainyard

import data.trainyard.lib.listed_controllers
import data.trainyard.lib.request
import rego.v1

# Decision about one request. data.trainyard.catalog, from the rule.yaml files, determines the rules to evaluate, by the
# same kinds, namespaces and conditions from which the API server's policies are generated.

decision := verdict if {
	settings_well_formed
} else := malformed

# Decisions about several requests with the same settings, in order. Each is evaluated with its own input: replacing a
# part of the whole input would copy all of it. A request references its params by their index in a list, and has no
# settings; request fields of the whole input are dropped, because union would merge them with the request's own. If the
# params do not exist, the decision is undefined; the client compares the number of decisions.
decisions := [answer |
	some one in input.requests
	own := object.union(object.filter(one, ["request", "unknown", "prefiltered"]), {"params": input.params[one.params]})
	document := object.union(settings, own)
	answer := verdict with input as document
] if {
	settings_well_formed
}

settings := object.remove(input, ["requests", "request", "params", "unknown", "prefiltered"])

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
} else := malformed

malformed := {
	"allowed": false,
	"violations": [{
		"rule": null, "severity": "error", "state": "deny", "path": "object",
		"message": "the request is malformed", "fix": "report the object that caused it",
	}],
	"warnings": [], "audits": [], "undecided": [], "exempted": [],
}

# A missing field would make conditions undefined, and disable rules without an error.
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
	is_object(prefiltered)
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
	some id, name in evaluated_rules
	some violation in data.trainyard.rules[name].violation
}

# Creations are rejected if the parameter object of a rule does not exist; updates and the platform's namespaces are
# exempt. Pods and Jobs are rejected only in namespaces labeled as a tenant's.
findings contains object.union(finding_of(id, violation), {"fix": data.trainyard.missingParameters[rule.source]}) if {
	request.operation == "CREATE"
	not exempt_namespace
	some id, _ in without_parameters
	rule := data.trainyard.catalog[id]
	not parameters_optional(rule)
	state(id, rule) == "deny"
	violation := {"path": "parameters", "message": sprintf("%s is missing", [rule.source])}
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

# Rules to evaluate for the request, {id: package}: those with all parameters, and those whose parameters are missing.
# The index contains them by the static properties of requests, so that no other rule is visited.
evaluated_rules := object.remove(object.remove(matching_rules[available_parameters], excluded_rules), prefiltered)

without_parameters := object.remove(object.remove(matching_rules.all, matching_rules[available_parameters]), excluded_rules) if {
	available_parameters != "all"
}

matching_rules := data.trainyard.index[request.api_group][request.kind][request.subresource][request.operation][reach]

# Rules that are off, not selected, or whose conditions exclude the request.
excluded_rules contains id if {
	some id, value in input.states
	value == "off"
}

excluded_rules contains id if {
	some id in data.trainyard.off
	not input.states[id]
}

excluded_rules contains id if {
	is_array(input.only)
	some id, _ in matching_rules.all
	not id in input.only
}

excluded_rules contains id if {
	request.operation == "UPDATE"
	some id, _ in matching_rules.all
	unaffected(data.trainyard.catalog[id])
}

# The finalizers of an object that is being deleted can be removed, whatever it contains.
excluded_rules contains id if {
	released
	some id, _ in matching_rules.all
	not data.trainyard.catalog[id].deleting
}

# The cluster's controllers continue what a user has written, which was evaluated then.
excluded_rules contains id if {
	request.pod_controller
	of_the_cluster
	some id, _ in matching_rules.all
}

of_the_cluster if request.user.name == "system:kube-controller-manager"

of_the_cluster if "system:serviceaccounts:kube-system" in request.user.groups

# Rules that the client's prefilter excludes for this request.
default prefiltered := {}

prefiltered := input.prefiltered

# Reaches that apply to the request.
reach := "tenants and labelled" if {
	not exempt_namespace
	labelled
} else := "tenants" if {
	not exempt_namespace
} else := "everywhere"

# Rules of reach labelled also apply to cluster-scoped objects.
labelled if request.namespace == ""

labelled if "trainyard.dev/tenant" in object.keys(request.namespace_labels)

exempt_namespace if request.namespace in input.exemptNamespaces

# An update of an object that is being deleted which only removes finalizers and owner references.
released if {
	request.operation == "UPDATE"
	request.object.metadata.deletionTimestamp
	part_unchanged("labels")
	part_unchanged("annotations")
	object.remove(request.object, ["metadata"]) == object.remove(request.old_object, ["metadata"])
	owners_remain
}

owners_remain if owner_references(request.object) == owner_references(request.old_object)

# The API server compares each with each, so of many none may go.
owners_remain if {
	count(owner_references(request.object)) <= 64
	count(owner_references(request.old_object)) <= 64
	former := {owner_identity(owner) | some owner in owner_references(request.old_object)}
	every owner in owner_references(request.object) {
		owner_identity(owner) in former
	}
}

owner_references(subject) := request.list(request.map(subject, "metadata"), "ownerReferences")

owner_identity(owner) := [request.text(owner, "uid"), request.text(owner, "kind"), request.object_get(owner, "controller", false)]

# An update of neither spec nor labels nor annotations, unless the rule evaluates these too.
unaffected(rule) if {
	no_part_changed
	not rule.unchanged
}

unaffected(rule) if {
	suspending
	not rule.stopping
}

# An update of none of the parts that the rule evaluates for this kind.
unaffected(rule) if {
	every part in rule.touching[request.api_group][request.kind] {
		part_unchanged(part)
	}
}

no_part_changed if {
	every part in ["spec", "labels", "annotations"] {
		part_unchanged(part)
	}
}

part_unchanged("spec") if request.object_get(request.object, "spec", null) == request.object_get(request.old_object, "spec", null)

part_unchanged(part) if {
	part != "spec"
	old := object.get(request.old_object, "metadata", {})
	request.object_get(object.get(request.object, "metadata", {}), part, null) == request.object_get(old, part, null)
}

# In other kinds, also in those that a stack lists, suspend means nothing, or something else.
suspending if {
	request.spec.suspend == true
	request.api_group in ["batch", "jobset.x-k8s.io", "trainer.kubeflow.org"]
}

# Parameter objects that rules may read.
available_parameters := "all" if {
	is_object(input.params.platform)
	is_object(input.params.tenantPolicy)
} else := "Platform" if {
	is_object(input.params.platform)
} else := "TenantPolicy" if {
	is_object(input.params.tenantPolicy)
} else := "none"

parameters_optional(rule) if {
	rule.source == "TenantPolicy"
	built_in
	not request.namespace_labels["trainyard.dev/tenant"]
}

built_in if not contains(request.api_group, ".")

built_in if endswith(request.api_group, ".k8s.io")

built_in if count(listed_controllers.templates) > 0

# Findings about unknown values are undecided.
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
	applies(exemption, "group", request.api_group)
	applies(exemption, "name", request.text(request.metadata, "name"))
	exemption.expires > input.now
}

applies(exemption, field, _) if not exemption[field]

applies(exemption, field, value) if exemption[field] == value
