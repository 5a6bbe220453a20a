"""Every place where the platform changes what Pulumi's SDK does, each with a switch (`shortcuts`)."""
