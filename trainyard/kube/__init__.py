"""Asynchronous Kubernetes client, informers, work queue and leader election; independent of training."""

from trainyard.kube.api_errors import ApiError, CredentialsError, FencedError, TransportError, WatchBrokenError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.collection_page import Listing
from trainyard.kube.credentials import Connection
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.informer import Informer
from trainyard.kube.leader import LeaderElector, LeadershipLostError
from trainyard.kube.resource import Key, Object, Resource, controller_of, key_of, uid_of, version_of
from trainyard.kube.response import Response
from trainyard.kube.store import Change, Store
from trainyard.kube.work_queue import QueueClosedError, WorkQueue

__all__ = [
    "ApiError",
    "Backoff",
    "Change",
    "Client",
    "Connection",
    "CredentialsError",
    "EventRecorder",
    "FencedError",
    "Informer",
    "Key",
    "LeaderElector",
    "LeadershipLostError",
    "Listing",
    "Object",
    "QueueClosedError",
    "Resource",
    "Response",
    "Store",
    "TransportError",
    "WatchBrokenError",
    "WorkQueue",
    "controller_of",
    "key_of",
    "uid_of",
    "version_of",
]
