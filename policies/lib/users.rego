package trainyard.lib.users

import data.trainyard.lib.request
import rego.v1

# Users that may write what tenants must not: the platform's service accounts, users in a rule's parameter, and users
# that may change admission policies. Outside a cluster, no user is known to be one of them.

is_platform(id) if request.user.name in request.parameter(id, "users")

is_platform(_) if {
	some name in input.exemptNamespaces
	sprintf("system:serviceaccounts:%s", [name]) in request.user.groups
}

is_platform(_) if request.user.administrator == true

is_platform(_) if "system:masters" in request.user.groups

# Controllers of Kubernetes create objects with the values of a user's template.

from_template if {
	request.operation == "CREATE"
	request.user.name == "system:kube-controller-manager"
}

from_template if {
	request.operation == "CREATE"
	startswith(request.user.name, "system:serviceaccount:kube-system:")
}
