"""The proof that Trainyard means what Kubeflow Trainer v2.3.0 means, except where the list of differences says so."""
