"""Progress reports: variables of training containers, if a server takes reports."""

from __future__ import annotations

from tests.render.builders import container, environment, initializer, node, objects, pods, torch, train_job, trainer
from trainyard.api import Body, Platform
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.platform_facts import context_of
from trainyard.jobs.render.result import RenderContext, Rendered, StatusServerAddress

SERVER = StatusServerAddress("kubeflow-trainer-controller-manager", "kubeflow-system", authority="PEM")
AUDIENCE = "trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"
MOUNT = {"name": "kubeflow-trainer-token", "mountPath": "/var/run/secrets/kubeflow/trainer", "readOnly": True}


def config_maps(server: StatusServerAddress | None) -> dict[str, Body]:
    result = render(train_job(uid="1"), torch(), RenderContext(status_server=server))
    assert isinstance(result, Rendered)
    return {body["metadata"]["name"]: body for body in result.objects if body["kind"] == "ConfigMap"}


def test_every_training_container_gets_the_address_of_the_server() -> None:
    jobs = initializer(), trainer(containers=[container(), container("sidecar")])
    templates = pods(train_job(), torch(*jobs), status_server=SERVER)
    for entry in templates["node"]["spec"]["containers"]:
        variables = environment(entry)
        assert variables["KUBEFLOW_TRAINER_SERVER_URL"] == (
            f"https://kubeflow-trainer-controller-manager.kubeflow-system.svc:10443/apis/{AUDIENCE}"
        )
        assert variables["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == "/var/run/secrets/kubeflow/trainer/ca.crt"
        assert variables["KUBEFLOW_TRAINER_SERVER_TOKEN"] == "/var/run/secrets/kubeflow/trainer/token"
        assert entry["volumeMounts"] == [MOUNT]
    assert "KUBEFLOW" not in str(templates["dataset-initializer"])


def test_the_token_is_for_this_job_only_and_comes_with_the_authority() -> None:
    (volume,) = pods(train_job(), torch(), status_server=SERVER)["node"]["spec"]["volumes"]
    token = {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}
    authority = {"name": "job-tls-config", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    assert volume == {
        "name": "kubeflow-trainer-token",
        "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": authority}]},
    }


def test_the_authority_is_a_config_map_of_the_job() -> None:
    authority = config_maps(SERVER)["job-tls-config"]
    assert authority["data"] == {"ca.crt": "PEM"}
    assert authority["metadata"]["ownerReferences"][0]["uid"] == "1"
    assert config_maps(StatusServerAddress("s", "n"))["job-tls-config"]["data"]["ca.crt"].startswith("<ca.crt")


def test_a_variable_of_the_train_job_wins() -> None:
    job = train_job(trainer={"env": [{"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://mine"}]})
    assert environment(node(job, torch(), status_server=SERVER))["KUBEFLOW_TRAINER_SERVER_URL"] == "https://mine"


def test_without_a_server_nothing_is_set() -> None:
    assert list(config_maps(None)) == ["job-runtime-snapshot"]
    assert "kubeflow-trainer-token" not in str(objects(train_job(), torch())["JobSet"])


def test_the_platform_says_where_to_report() -> None:
    body = {"metadata": {"name": "platform"}, "spec": {"statusServer": {"service": "s", "namespace": "n", "port": 1}}}
    assert context_of(Platform.from_body(body), RenderContext()).status_server == StatusServerAddress("s", "n", 1)
    assert context_of(Platform.from_body({**body, "spec": {}}), RenderContext()).status_server is None
