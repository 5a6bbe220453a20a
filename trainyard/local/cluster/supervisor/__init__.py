"""The supervisor: keeps the control plane running and is the local kubelet of the platform's Deployments.

It starts the control plane's programs and restarts them after a crash. For each pod of a Deployment with the label
``trainyard.dev/host-process`` it runs the pod's programs as host processes, as the pod's ServiceAccount and with its
arguments and volumes, and marks the pod healthy while the programs are.
"""
