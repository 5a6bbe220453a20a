"""Policy analyzer for ``policies/pack``: serves the rules over the Pulumi engine's protocol.

The engine starts ``pulumi-analyzer-policy-<runtime>`` from PATH, reads the port that it prints, and sends it every
resource and, at the end, the whole stack. Serving the protocol directly allows a level for each finding and access to
unknown values; the SDK for policy packs raises an error when one is read.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc, plugin_pb2

from trainyard.checks.finding import Severity
from trainyard.errors import TrainyardError
from trainyard.policy.pack.review_pack import WHOLE, PackReport, PolicyPack
from trainyard.policy.pack.stack_resources import StackResource
from trainyard.policy.pack.stack_values import properties
from trainyard.policy.rules.admission_rule import AdmissionRule
from trainyard.settings.platform import PolicyState
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack, parse_stack

_NAME: Final = "trainyard"
_PREFIX: Final = "trainyard:"
_UNLIMITED: Final = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_LEVELS: Final = {
    PolicyState.OFF: analyzer_pb2.DISABLED,
    PolicyState.AUDIT: analyzer_pb2.DISABLED,
    PolicyState.WARN: analyzer_pb2.ADVISORY,
    PolicyState.DENY: analyzer_pb2.MANDATORY,
}
_STATES: Final = {
    analyzer_pb2.DISABLED: PolicyState.OFF,
    analyzer_pb2.ADVISORY: PolicyState.WARN,
    analyzer_pb2.MANDATORY: PolicyState.DENY,
}
_SCHEMA: Final = {
    "settings": {"type": "string"},
    "exemptNamespaces": {"type": "array", "items": {"type": "string"}},
}
_TITLE: Final = "Every resource can be reviewed"


class Analyzer(analyzer_pb2_grpc.AnalyzerServicer):
    """The rules as an analyzer plug-in of Pulumi's engine.

    Parameters
    ----------
    program
        Returns the ``opa`` program.
    """

    def __init__(self, program: Callable[[], Path]) -> None:
        self.ended = threading.Event()
        self._program = program
        self._version = metadata.version("trainyard-platform")
        self._stack: Mapping[str, str] = {}
        self._source = "the stack's configuration"
        self._overrides: dict[str, PolicyState] = {}
        self._options: dict[str, Any] = {}
        self._pack: PolicyPack | None = None
        self._warming: threading.Thread | None = None
        self._lock = threading.RLock()

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Handle the handshake."""
        return analyzer_pb2.AnalyzerHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the version."""
        return plugin_pb2.PluginInfo(version=self._version)

    def ConfigureStack(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Set the stack's configuration."""
        self._stack, self._source = dict(request.config), f"Pulumi.{request.stack}.yaml"
        self._reset()
        return analyzer_pb2.AnalyzerStackConfigureResponse()

    def GetAnalyzerInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the rules."""
        schema = analyzer_pb2.PolicyConfigSchema()
        schema.properties.update(_SCHEMA)
        whole = analyzer_pb2.PolicyInfo(
            name=WHOLE,
            displayName=_TITLE,
            description=_TITLE,
            enforcementLevel=analyzer_pb2.MANDATORY,
            configSchema=schema,
            policy_type=analyzer_pb2.POLICY_TYPE_STACK,
        )
        # Errors are reported by AnalyzeStack.
        with contextlib.suppress(TrainyardError):
            rules = [self._info(rule) for rule in self._ready().rules]
            return self._described([whole, *rules])
        return self._described([whole])

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Set ``--policy-pack-config``; the engine sends the level of every rule, changed or not."""
        declared = {policy.name: policy.enforcementLevel for policy in self.GetAnalyzerInfo(None, None).policies}
        overrides, options = dict(self._overrides), dict(self._options)
        for name, config in request.policyConfig.items():
            if name == WHOLE:
                options = json_format.MessageToDict(config.properties)
            elif config.enforcementLevel != declared.get(name):
                overrides[name] = _STATES[config.enforcementLevel]
        if (overrides, options) != (self._overrides, self._options):
            self._overrides, self._options = overrides, options
            self._reset()
        return empty_pb2.Empty()

    def Analyze(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return no findings, but start the policy server: resources are reviewed with the whole stack at the end."""
        if request.type.startswith("kubernetes:"):
            self._start_in_background()
        return analyzer_pb2.AnalyzeResponse()

    def Remediate(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Change nothing; rules have no remediation."""
        return analyzer_pb2.RemediateResponse()

    def AnalyzeStack(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Review the stack."""
        try:
            pack = self._ready()
        except TrainyardError as error:
            return self._response([PackReport(WHOLE, "", True, str(error))], {})
        resources = [_resource(each) for each in request.resources if _matters(each, pack)]
        titles = {rule.id: rule.title for rule in pack.rules}
        return self._response(pack.evaluate(resources), titles)

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Stop serving."""
        self.ended.set()
        return empty_pb2.Empty()

    def close(self) -> None:
        """Stop the policy server."""
        warming = self._warming
        if warming is not None:
            warming.join()
        self._reset()

    def _ready(self) -> PolicyPack:
        with self._lock:
            if self._pack is None:
                exempt = self._options.get("exemptNamespaces", ())
                self._pack = PolicyPack(
                    self._program, self._settings(), states=self._overrides, exempt_namespaces=exempt
                )
            return self._pack

    def _reset(self) -> None:
        with self._lock:
            pack, self._pack, self._warming = self._pack, None, None
        if pack is not None:
            pack.stop()

    def _start_in_background(self) -> None:
        with self._lock:
            if self._warming is None:
                self._warming = threading.Thread(target=self._start, daemon=True)
                self._warming.start()

    def _start(self) -> None:
        # Errors are reported by AnalyzeStack.
        with contextlib.suppress(Exception):
            self._ready().start()

    def _settings(self) -> StackSettings | None:
        """Return the platform's settings: from the configured file, else from the stack if it is a platform."""
        if file := self._options.get("settings"):
            return load_stack(Path(file))
        own = {key.removeprefix(_PREFIX): _value(text) for key, text in self._stack.items() if key.startswith(_PREFIX)}
        return parse_stack(own, source=self._source) if "cluster" in own else None

    def _info(self, rule: AdmissionRule) -> Any:
        severe = rule.severity is Severity.ERROR
        return analyzer_pb2.PolicyInfo(
            name=rule.id,
            displayName=rule.title,
            description=rule.title,
            message=" ".join(rule.description.split()),
            enforcementLevel=_LEVELS[self._ready().state(rule)],
            policy_type=analyzer_pb2.POLICY_TYPE_STACK,
            severity=analyzer_pb2.POLICY_SEVERITY_HIGH if severe else analyzer_pb2.POLICY_SEVERITY_LOW,
            remediation_steps=rule.fix,
            tags=[rule.family],
            url=next(iter(rule.references), ""),
        )

    def _described(self, policies: Iterable[Any]) -> Any:
        return analyzer_pb2.AnalyzerInfo(
            name=_NAME,
            displayName="Trainyard",
            version=self._version,
            description="The admission rules of the platform, checked before anything is created",
            supportsConfig=True,
            policies=policies,
        )

    def _response(self, reports: Iterable[PackReport], titles: Mapping[str, str]) -> Any:
        return analyzer_pb2.AnalyzeResponse(
            diagnostics=[
                analyzer_pb2.AnalyzeDiagnostic(
                    policyName=report.policy,
                    policyPackName=_NAME,
                    policyPackVersion=self._version,
                    description=(title := titles.get(report.policy, _TITLE)),
                    message=f"{title}\n{report.message}",
                    enforcementLevel=analyzer_pb2.MANDATORY if report.mandatory else analyzer_pb2.ADVISORY,
                    urn=report.urn,
                )
                for report in reports
            ]
        )


def main() -> None:
    """Serve until the engine exits; print the port, which the engine reads."""
    from trainyard.local.cluster.toolchain import built_program

    analyzer = Analyzer(lambda: built_program("opa"))
    server = grpc.server(ThreadPoolExecutor(max_workers=8), options=_UNLIMITED)
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(analyzer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: analyzer.ended.set())
    engine = os.getppid()
    print(port, flush=True)
    try:
        while not analyzer.ended.wait(0.5) and os.getppid() == engine:
            pass
    finally:
        server.stop(None)
        analyzer.close()
    sys.stdout.flush()


def _matters(resource: Any, pack: PolicyPack) -> bool:
    if not resource.type.startswith("kubernetes:"):
        return False
    kind = resource.properties.fields.get("kind")
    return kind is None or pack.reads(kind.string_value)


def _resource(resource: Any) -> StackResource:
    return StackResource(resource.urn, resource.type, properties(json_format.MessageToDict(resource.properties)))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
