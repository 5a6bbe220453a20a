package trainyard.rules.ten_010

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

exclusive := "alpha.jobset.sigs.k8s.io/exclusive-topology"

violation contains {"path": sprintf("%s.namespaces", [entry.path]), "message": message} if {
	some entry in terms
	names := request.texts(entry.term, "namespaces")
	count(names) > 0
	message := sprintf("pod affinity must not select namespaces (%s)", [concat(", ", names)])
}

violation contains {"path": sprintf("%s.namespaceSelector", [entry.path]), "message": message} if {
	some entry in terms
	entry.term.namespaceSelector != null
	message := sprintf("pod affinity must not select namespaces by label (%s)", [selected(entry.term.namespaceSelector)])
}

selected(selector) := "all" if {
	count(requirements(selector)) == 0
} else := concat(", ", sort(requirements(selector)))

requirements(selector) := array.concat(
	[sprintf("%s=%v", [key, value]) | some key, value in request.map(selector, "matchLabels")],
	[sprintf("%s %s", [request.text(each, "key"), request.text(each, "operator")]) | some each in request.list(selector, "matchExpressions")],
)

violation contains {"path": sprintf("%s.annotations[%s]", [entry.path, exclusive]), "message": message} if {
	some entry in pod_templates.metadatas
	domain := entry.metadata.annotations[exclusive]
	domain != null
	message := sprintf("a job must not have domains of \"%v\" for itself", [domain])
}

# Terms of pod affinity and anti-affinity: entries {path, term}.
terms contains {"path": path, "term": term} if {
	some pod in pod_templates.pods
	some kind in ["podAffinity", "podAntiAffinity"]
	some i, term in request.list(pod.spec.affinity[kind], "requiredDuringSchedulingIgnoredDuringExecution")
	path := sprintf("%s.affinity.%s.requiredDuringSchedulingIgnoredDuringExecution[%d]", [pod.specPath, kind, i])
}

terms contains {"path": path, "term": term} if {
	some pod in pod_templates.pods
	some kind in ["podAffinity", "podAntiAffinity"]
	some i, each in request.list(pod.spec.affinity[kind], "preferredDuringSchedulingIgnoredDuringExecution")
	term := request.map(each, "podAffinityTerm")
	list := sprintf("%s.affinity.%s.preferredDuringSchedulingIgnoredDuringExecution", [pod.specPath, kind])
	path := sprintf("%s[%d].podAffinityTerm", [list, i])
}
