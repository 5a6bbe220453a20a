package trainyard.rules.ten_004

import data.trainyard.lib.places
import data.trainyard.lib.request
import rego.v1

accounts := request.texts(request.tenant_policy, "serviceAccounts")

violation contains {"path": sprintf("%s.serviceAccountName", [pod.specPath]), "message": message} if {
	some pod in places.pods
	name := account(pod.spec)
	name != ""
	not name in accounts
	message := sprintf("service account \"%v\" is not one of this namespace's (%s)", [name, listed])
}

violation contains {"path": sprintf("metadata.annotations[%s]", [annotation]), "message": message} if {
	request.kind == "Secret"
	request.object.type == "kubernetes.io/service-account-token"
	name := request.object_get(request.map(request.metadata, "annotations"), annotation, "")
	name != ""
	not name in accounts
	message := sprintf("service account \"%v\" is not one of this namespace's (%s)", [name, listed])
}

annotation := "kubernetes.io/service-account.name"

account(spec) := spec.serviceAccountName if {
	not request.object_get(spec, "serviceAccountName", "") == ""
} else := spec.serviceAccount if {
	not request.object_get(spec, "serviceAccount", "") == ""
} else := assumed

# The account of a pod that names none; empty where somebody else decides.
assumed := "" if endswith(request.kind, "Runtime")

assumed := "" if request.kind == "TrainJob"

assumed := "default" if {
	not endswith(request.kind, "Runtime")
	request.kind != "TrainJob"
}

listed := "none" if count(accounts) == 0

listed := concat(", ", accounts) if count(accounts) > 0
