package trainyard.rules.ten_005

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

node_labels := request.parameter("TEN-005", "nodeLabels")

violation contains {"path": sprintf("%s.nodeName", [pod.specPath]), "message": "nodeName is not allowed"} if {
	some pod in pod_templates.pods
	request.object_get(pod.spec, "nodeName", "") != ""
}

violation contains {"path": path, "message": "the node label is not allowed"} if {
	some pod in pod_templates.pods
	some key, _ in request.map(pod.spec, "nodeSelector")
	not key in node_labels
	path := sprintf("%s.nodeSelector[%s]", [pod.specPath, key])
}

violation contains {"path": path, "message": "a node label or field in node affinity is not allowed"} if {
	some pod in pod_templates.pods
	some term in terms(pod.spec.affinity.nodeAffinity)
	some field in ["matchExpressions", "matchFields"]
	some each in request.list(term, field)
	not request.text(each, "key") in node_labels
	path := sprintf("%s.affinity.nodeAffinity", [pod.specPath])
}

violation contains {"path": path, "message": "the taint key is not allowed"} if {
	some pod in pod_templates.pods
	some i, each in request.list(pod.spec, "tolerations")
	not request.object_get(each, "key", "") in request.parameter("TEN-005", "taints")
	path := sprintf("%s.tolerations[%d]", [pod.specPath, i])
}

terms(affinity) := array.concat(
	request.list(request.map(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms"),
	[request.map(each, "preference") | some each in request.list(affinity, "preferredDuringSchedulingIgnoredDuringExecution")],
)
