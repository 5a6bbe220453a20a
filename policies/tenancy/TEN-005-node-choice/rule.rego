package trainyard.rules.ten_005

import data.trainyard.lib.node_terms
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

node_labels := request.parameter("TEN-005", "nodeLabels")

violation contains {"path": sprintf("%s.nodeName", [pod.specPath]), "message": sprintf("nodeName \"%s\" is not allowed", [name])} if {
	some pod in pod_templates.pods
	name := request.text(pod.spec, "nodeName")
	name != ""
}

violation contains {"path": "kind", "message": "a DaemonSet has a pod on every node, chosen by its name"} if {
	request.kind == "DaemonSet"
	count(pod_templates.pods) > 0
	not "metadata.name" in node_labels
}

violation contains {"path": path, "message": sprintf("the node label \"%s=%v\" is not allowed", [key, value])} if {
	some pod in pod_templates.pods
	some key, value in request.map(pod.spec, "nodeSelector")
	not key in node_labels
	path := sprintf("%s.nodeSelector[%s]", [pod.specPath, key])
}

violation contains {"path": path, "message": message} if {
	some pod in pod_templates.pods
	foreign := [node_terms.text(each) |
		some term in node_terms.all(pod.spec.affinity.nodeAffinity)
		some field in ["matchExpressions", "matchFields"]
		some each in request.list(term, field)
		key := request.text(each, "key")
		not key in node_labels
		not avoiding(key, each)
	]
	count(foreign) > 0
	path := sprintf("%s.affinity.nodeAffinity", [pod.specPath])
	message := sprintf("node affinity by %s is not allowed", [concat(", ", foreign)])
}

violation contains {"path": path, "message": sprintf("the taint key %s is not allowed", [node_terms.taint(each)])} if {
	some pod in pod_templates.pods
	some i, each in request.list(pod.spec, "tolerations")
	key := request.text(each, "key")
	not key in request.parameter("TEN-005", "taints")
	path := sprintf("%s.tolerations[%d]", [pod.specPath, i])
}

# A term that only excludes nodes, by a label that does not reserve them.
avoiding(key, term) if {
	key in request.parameter("TEN-005", "avoidedLabels")
	term.operator == "NotIn"
}
