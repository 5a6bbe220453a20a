package trainyard.lib.users

import data.trainyard.lib.request
import rego.v1

# Who writes what tenants must not: the platform's service accounts, users a rule names, and those who may change
# admission policies anyway; outside a cluster nobody is known to be one of these.

of_the_platform(id) if request.user.name in request.parameter(id, "users")

of_the_platform(_) if {
	some name in input.exemptNamespaces
	sprintf("system:serviceaccounts:%s", [name]) in request.user.groups
}

of_the_platform(_) if request.user.administrator == true

of_the_platform(_) if "system:masters" in request.user.groups
