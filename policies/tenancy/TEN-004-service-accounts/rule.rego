package trainyard.rules.ten_004

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

accounts := request.texts(request.tenant_policy, "serviceAccounts")

violation contains {"path": sprintf("%s.serviceAccountName", [pod.specPath]), "message": message} if {
	some pod in pod_templates.pods
	name := account(pod.spec)
	not name in accounts
	message := sprintf("service account \"%v\" is not one of this namespace's service accounts (%s)", [name, listed])
}

violation contains {"path": sprintf("metadata.annotations[%s]", [annotation]), "message": message} if {
	request.object.type == "kubernetes.io/service-account-token"
	name := request.map(request.metadata, "annotations")[annotation]
	not name in accounts
	message := sprintf("service account \"%v\" is not one of this namespace's service accounts (%s)", [name, listed])
}

violation contains {"path": "metadata.name", "message": message} if {
	request.kind == "TokenRequest"
	not trusted
	name := request.text(request.metadata, "name")
	not name in accounts
	message := sprintf("service account \"%v\" is not one of this namespace's service accounts (%s)", [name, listed])
}

# The kubelet gets the tokens of the pods on its node.
trusted if "system:nodes" in request.user.groups

trusted if users.is_platform("TEN-004")

annotation := "kubernetes.io/service-account.name"

account(spec) := spec.serviceAccountName if {
	not spec.serviceAccountName in ["", null]
} else := spec.serviceAccount if {
	not spec.serviceAccount in ["", null]
} else := assumed

# Default service account of a pod; undefined if it is set elsewhere.
assumed := "default" if not request.kind in ["TrainingRuntime", "TrainJob"]

listed := "none" if count(accounts) == 0

listed := concat(", ", accounts) if count(accounts) > 0
