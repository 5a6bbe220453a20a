"""The supervisor: keeps the control plane running and is the local kubelet of the platform's Deployments.

It starts the control plane's programs and starts them again when they die. For each Deployment that carries the label
``trainyard.dev/host-process`` it runs that program on this machine as the Deployment's ServiceAccount, with the
Deployment's arguments and volumes, and marks the Deployment's pods healthy while the program is.
"""
