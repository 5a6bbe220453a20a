"""The tests that show the rows of docs/compatibility.md that are not in the generated tables.

By heading of the section and first column of the row; a row has one test or several, each as file::function below
tests/. Entries of the list of what is unchanged count as rows; their first column is their first clause. The rows of
the generated tables have a predicate each, in tests/compatibility/differences.
"""

from __future__ import annotations

from typing import Final

_Rows = dict[str, tuple[str, ...]]

_FEATURES: Final[_Rows] = {
    "TrainJob": (
        "api/test_upstream.py::test_schemas_equal_those_of_v2_3_except_where_we_say_so",
        "api/test_upstream.py::test_what_a_release_accepted_is_accepted",
        "api/test_upstream.py::test_the_table_of_releases_is_true",
    ),
    "Runtime: `mlPolicy.torch`, `mpi` (OpenMPI), `jax`, `xgboost`, `flux`, and no framework (plain)": (
        "compatibility/test_upstream.py::test_nothing_differs_but_what_is_on_the_list",
        "compatibility/test_corpus.py::test_the_corpus_covers_every_framework_gang_and_kind_of_change",
    ),
    "torchtune (`command: [tune, run]`)": ("render/test_torchtune.py::test_recipe_and_configuration",),
    "Runtime: `torch.elasticPolicy`": (
        "render/test_torch_elastic.py::test_nodes_meet_at_the_first_one",
        "render/test_torch_elastic.py::test_there_are_as_many_pods_as_may_train",
        "api/test_upstream.py::test_the_table_of_releases_is_true",
    ),
    "Runtime: `mpi` with Intel MPI and MPICH (#1807), `tensorflow`, `paddle`, `ray`, `horovod`": (
        "render/test_mpi.py::test_every_implementation_gets_its_own_variables_and_host_file",
        "render/test_tensorflow.py::test_every_role_gets_its_task",
        "render/test_paddle.py::test_launchers_meet_at_the_first_node_which_knows_itself_by_its_host_name",
        "render/test_ray.py::test_nodes_alone_are_the_cluster_and_the_first_is_head_and_driver",
        "render/test_horovod.py::test_horovodrun_finds_its_arguments_in_variables",
    ),
    "`podGroupPolicy.volcano`, `podGroupPolicy.coscheduling`": (
        "compatibility/test_upstream.py::test_nothing_differs_but_what_is_on_the_list",
        "render/test_gang.py::test_every_pod_goes_to_volcano_and_only_members_name_the_group",
        "render/test_coscheduling.py::test_the_pod_group_has_members_resources_and_timeout",
    ),
    "`podGroupPolicy.volcano.subGroupPolicy` and `minTaskMember`": (
        "render/test_gang_subgroups.py::test_consecutive_pods_form_groups",
        "render/test_gang_subgroups.py::test_minimums_of_replicated_jobs_become_those_of_tasks",
    ),
    "`podGroupPolicy` or `mlPolicy` in a TrainJob or its `runtimePatches`": (
        "render/test_gang_subgroups.py::test_a_train_job_cannot_set_groups_and_minimums",
        "api/test_upstream.py::test_schemas_equal_those_of_v2_3_except_where_we_say_so",
    ),
    "`podGroupPolicy.kai`": (
        "render/test_kai.py::test_pods_name_scheduler_and_queue_and_no_pod_group_is_made",
        "render/test_kai.py::test_a_placement_in_no_topology_is_refused",
    ),
    "`status.trainerStatus` and its server (upstream's alpha gate `TrainJobStatus`, off)": (
        "policy/test_stack.py::test_the_platform_takes_reports_where_the_trainer_is_ours",
        "controller/trainer_status/test_server.py::test_a_report_is_stored_and_echoed",
        "controller/trainer_status/test_server.py::test_where_the_platform_takes_no_reports_there_is_no_server",
    ),
    "Runtime snapshot `<job>-runtime-snapshot`": (
        "render/test_snapshot.py::test_a_snapshot_is_json_that_is_yaml_too",
        "render/test_snapshot.py::test_a_snapshot_in_yaml_is_read",
        "compatibility/test_hand_over.py::test_running_and_held_jobs_go_on_from_upstream_to_ours_and_back",
    ),
    "Fields that only v2.0 to v2.2 had (`spec.labels`, `podSpecOverrides`, `podTemplateOverrides`, "
    "`torch.numProcPerNode`, …)": (
        "api/test_upstream.py::test_what_a_release_accepted_is_accepted",
        "render/test_overrides.py::test_fields_of_pods_are_merged_the_way_kubernetes_does",
        "render/test_overrides.py::test_generations_apply_in_the_order_of_their_versions",
        "render/test_overrides.py::test_labels_of_the_job_set_are_the_runtimes_then_the_jobs_then_the_patches",
        "render/test_torch.py::test_processes_of_the_job_win_over_the_runtimes_which_win_over_auto",
    ),
}

_SCHEMA: Final[_Rows] = {
    "`spec.trainer.numProcPerNode: auto`, `cpu` or `gpu`": (
        "render/test_defaults.py::test_words_become_the_number_they_mean",
        "controller/test_webhooks.py::test_a_word_for_the_processes_is_replaced_by_what_the_runtime_offers",
        "cluster/test_frameworks.py::test_processes_asked_for_by_word_are_stored_as_a_number",
    ),
    "… sent again in an update": (
        "render/test_defaults.py::test_a_word_sent_again_means_what_is_stored",
        "controller/test_webhooks.py::test_a_word_for_the_processes_is_replaced_by_what_the_runtime_offers",
    ),
    "… `auto` while the runtime does not exist": (
        "controller/test_webhooks.py::test_a_word_without_a_runtime_is_left_to_validation",
    ),
    "… `gpu` without accelerators, a word for an MPI runtime": (
        "render/test_defaults.py::test_words_become_the_number_they_mean",
        "api/test_crds_installed.py::test_every_rule",
    ),
    "`mlPolicy.torch.numProcPerNode`": (
        "api/test_upstream.py::test_schemas_equal_those_of_v2_3_except_where_we_say_so",
        "api/test_models.py::test_a_runtime_without_processes_stays_as_it_is",
        "render/test_torch.py::test_processes_of_the_job_win_over_the_runtimes_which_win_over_auto",
    ),
    "`storageUri` without a scheme": ("api/test_crds_installed.py::test_every_rule",),
    "sizes of lists and texts (`command`, `env`, `image`, …)": (
        "api/test_upstream.py::test_schemas_equal_those_of_v2_3_except_where_we_say_so",
        "api/test_upstream.py::test_what_a_release_accepted_is_accepted",
        "render/test_overrides.py::test_more_changes_than_are_merged_are_one_error",
    ),
    "`networkTopology.highestTierAllowed` beside `highestTierName`": (
        "render/test_gang_topology.py::test_a_limit_becomes_the_pod_groups",
        "api/test_crds_installed.py::test_every_rule",
        "api/test_crds_installed.py::test_defaults",
    ),
    "`elasticPolicy.metrics[]`": (
        "api/test_crds_installed.py::test_unknown_fields_are_dropped_everywhere",
        "api/test_crds_installed.py::test_bounds",
    ),
}

_SITUATIONS: Final[_Rows] = {
    "Requests to the webhooks that the API server did not send": (
        "controller/test_webhook_strangers.py::test_only_the_client_certificate_of_the_api_server_gets_an_answer",
        "controller/test_webhook_strangers.py::test_an_answer_to_a_stranger_quotes_no_runtime_of_a_namespace",
        "controller/test_webhook_strangers.py::test_what_no_api_server_sends_gets_400_without_a_trace",
    ),
    "Runtime is deprecated": (
        "render/test_runtimes.py::test_a_deprecated_runtime_is_warned_about",
        "render/test_admission.py::test_a_deprecated_runtime_of_either_scope_is_warned_about",
    ),
    "Runtime rejected, then used": (
        "render/test_documents.py::test_a_runtime_that_is_refused_rejects_its_jobs_with_its_own_errors",
    ),
    "`spec.trainer` without a container that uses it; initializer whose step has no label; "
    "`value` beside `valueFrom`": (
        "render/test_admission.py::test_a_trainer_that_no_container_takes_is_warned_about",
        "render/test_admission.py::test_an_initializer_whose_step_is_not_labelled_is_warned_about",
        "render/test_admission.py::test_a_value_beside_a_source_is_warned_about",
    ),
    "Pod-level resources, and the overhead of a pod whose init containers request most": (
        "queues/test_pod_requests.py::test_the_requests_of_generated_pods_are_those_that_kubernetes_counts",
        "queues/test_pod_requests.py::test_the_requests_of_generated_pods_are_those_that_volcano_counts",
        "queues/test_pod_requests.py::test_where_volcano_counts_less",
        "queues/test_equal_numbers.py::test_one_recorded_cluster_has_the_same_numbers_everywhere",
    ),
    "`priorityClassName` of the PodGroup": (
        "render/test_gang.py::test_the_last_priority_class_of_the_gang_counts_and_others_are_warned_about",
    ),
    "InPlaceRestart, RestartJob and RestartJobAndIgnoreMaxRestarts without JobSet's alpha gate": (
        "render/test_runtimes.py::test_a_gate_that_is_not_declared_is_a_warning",
        "render/test_runtimes.py::test_what_jobset_rejects_with_a_declared_gate_is_rejected",
    ),
    "`managedBy: kueue.x-k8s.io/multikueue`": (
        "render/test_documents.py::test_a_job_of_another_controller_has_no_objects_and_is_validated_as_by_the_webhook",
    ),
    'Two resource names with "gpu"': ("render/test_devices.py::test_devices_of_several_names_are_added",),
    "An update that only suspends the job, or changes only metadata": (
        "render/test_immutability.py::test_holding_a_job_back_and_editing_its_metadata_never_depend_on_the_runtime",
        "controller/test_webhooks.py::test_a_suspended_job_that_joins_a_queue_of_kueue_is_validated",
    ),
    'An update writes an unchanged value in another notation (`8` as `"8"`)': (
        "render/test_typed_clients.py::test_a_job_stored_before_is_not_changed_by_an_update",
        "controller/test_webhooks.py::test_quantities_are_stored_as_go_clients_write_them",
    ),
    "An update by an older client lacks fields that it does not know": (
        "render/test_typed_clients.py::test_fields_that_a_client_does_not_know_are_kept",
        "controller/test_webhooks.py::test_a_field_that_an_older_client_drops_is_kept_with_a_warning",
    ),
    "A replicatedJob named twice in `podSpecOverrides`": (
        "render/test_overrides.py::test_a_job_named_twice_takes_the_later_entry",
    ),
    "Ancestor label on the pod template only": (
        "render/test_runtimes.py::test_the_label_of_the_pod_template_counts_where_the_job_template_has_none",
        "render/test_precedence.py::test_the_label_of_the_pod_template_decides_what_the_trainer_configures",
    ),
    "A patch changes affinity, volumes or other fields that JobSet freezes": (
        "render/test_immutability.py::test_what_job_set_keeps_in_a_job_set_that_exists_is_warned_about",
        "controller/test_recreation.py::test_a_frozen_field_that_changed_recreates_the_job_set_with_a_recorded_reason",
        "controller/test_recreation.py::test_a_frozen_field_that_changed_waits_while_pods_are_active",
    ),
    "Hard network topology that cannot be enforced (plug-in off, tier outside the fabric)": (
        "render/test_gang_topology.py::test_a_limit_that_volcano_would_drop_is_refused",
        "render/test_gang_topology.py::test_an_ignored_soft_topology_is_warned_about",
    ),
    'A command in one element with spaces (`["torchrun train.py"]`)': (
        "render/test_admission.py::test_a_whole_command_line_in_one_element_is_warned_about",
        "render/test_flux.py::test_the_entrypoint_gets_the_command",
    ),
    "`trainer.image` of an MPI job, of another repository than the runtime's": (
        "render/test_mpi.py::test_an_image_that_may_lack_an_ssh_server_is_warned_about",
    ),
    "`trainer.env` of an Open MPI job whose mpirun has no `-x NAME`": (
        "render/test_mpi.py::test_variables_that_mpirun_does_not_pass_to_other_hosts_are_warned_about",
    ),
    "`hostNetwork` without dnsPolicy `ClusterFirstWithHostNet`, or dnsPolicy `Default`": (
        "render/test_hosts.py::test_pods_that_do_not_resolve_names_of_the_cluster_are_warned_about",
    ),
    "`network.enableDNSHostnames: false`, or completionMode `NonIndexed`, in a runtime with a framework": (
        "render/test_hosts.py::test_pods_without_the_names_that_their_framework_uses_are_warned_about",
    ),
    "`network.subdomain` in a runtime": ("render/test_runtimes.py::test_a_subdomain_is_a_service_of_one_train_job",),
    "`ttlSecondsAfterFinished` in the Job template of a replicatedJob": (
        "render/test_runtimes.py::test_a_job_that_is_deleted_after_its_end_runs_again",
    ),
    "MPI launcher whose container is named `launcher`": (
        "render/test_mpi.py::test_a_launcher_container_that_the_sdk_does_not_find_is_warned_about",
    ),
    "Launcher and nodes of Intel MPI with different numbers of GPUs (`runLauncherAsNode`)": (
        "render/test_mpi.py::test_different_slots_are_warned_about_where_the_implementation_has_one_number",
    ),
    "torchtune: the model": ("render/test_torchtune.py::test_the_model_comes_from_the_annotation_or_the_name",),
    "`sshAuthMountPath: /etc/mpi`, or with a colon": (
        "render/test_mpi.py::test_paths_that_no_pod_can_have_are_refused",
    ),
    "Keys of MPI jobs": (
        "controller/test_keys.py::test_keys_and_host_file_are_made_once_before_the_job_set",
        "controller/test_keys.py::test_keys_stay_while_a_job_is_suspended_and_resumed_and_no_secret_is_read_in_full",
        "controller/test_keys.py::test_a_foreign_object_is_left_unchanged_and_named",
        "controller/test_keys.py::test_what_was_deleted_is_recreated_when_the_job_resumes",
    ),
    "PodGroup kind that the cluster does not serve": (
        "controller/test_gangs.py::test_a_pod_group_that_is_not_served_is_reported_and_retried",
    ),
    "Snapshot of a job that v2.0 to v2.2 started, which has none": (
        "controller/test_missing_snapshots.py::test_a_suspended_job_resumes_with_the_runtime_of_the_takeover",
    ),
    "Condition `Suspended` after a resume": (
        "controller/test_status.py::test_a_resumed_job_is_running_for_kubectl_and_the_sdk",
    ),
    "Deletion of a runtime that TrainJobs reference": (
        "controller/test_webhooks.py::test_the_deletion_of_a_runtime_that_jobs_reference_is_a_warning",
    ),
    "`runtimePatches` that change while a job is suspended": (
        "controller/test_removed_parts.py::test_a_job_set_is_kept_if_something_was_added_or_changed",
    ),
    "A label, node selector, toleration or gate that is removed from a suspended job": (
        "controller/test_removed_parts.py::test_a_job_set_is_recreated_if_a_node_selector_was_removed",
    ),
    "Suspending": (
        "controller/test_lifecycle.py::test_a_running_job_set_of_a_suspended_job_is_always_suspended",
        "controller/test_lifecycle.py::test_nothing_is_rendered_for_a_job_that_runs_or_is_held_back",
        "controller/test_policy.py::test_a_job_can_be_suspended_without_being_rendered",
    ),
    "A TrainJob is deleted, and a finalizer of a user keeps it": (
        "controller/test_lifecycle.py::test_a_deleted_job_that_a_finalizer_keeps_stops",
    ),
    "A JobSet is deleted while its job runs or is suspended": (
        "controller/test_lifecycle.py"
        "::test_a_recorded_job_set_that_is_gone_for_certain_fails_the_job_and_never_before_that",
        "controller/test_reconcile.py"
        "::test_a_job_set_that_is_deleted_before_it_is_recorded_is_missing_and_not_created_again",
        "controller/test_status.py::test_a_job_set_is_recorded_and_one_that_is_lost_fails_the_job",
    ),
    "A JobSet of a finished TrainJob that has not ended: created by a request that arrives late, or again by v2.1"
    " after its TTL": (
        "controller/test_second_runs.py::test_a_create_that_arrives_after_the_end_is_deleted_and_the_record_stays",
        "controller/test_second_runs.py::test_a_job_set_of_a_finished_job_that_runs_when_a_leader_starts_is_deleted",
    ),
    "`runtimeRef` of an unknown kind, such as one of a newer version after a roll-back": (
        "controller/test_status.py::test_a_job_with_a_job_set_does_not_fail_by_a_runtime_of_an_unknown_kind",
    ),
    "More than 100 replicatedJobs": (
        "render/test_runtimes.py::test_a_runtime_has_at_most_as_many_jobs_as_the_status_of_a_train_job",
        "controller/test_status.py::test_the_counts_of_more_jobs_than_the_schema_admits_are_cut",
        "controller/test_blocked.py::test_a_status_that_is_rejected_is_reported",
    ),
    "`ttlSecondsAfterFinished` of the runtime's template": (
        "controller/test_lifecycle.py::test_the_time_to_live_waits_in_an_annotation_until_the_end_is_recorded",
        "controller/test_adoption.py::test_a_running_job_of_another_version_goes_on_and_its_end_is_recorded",
    ),
    "Label `trainyard.dev/train-job`": (
        "controller/test_reconcile.py::test_a_train_job_becomes_snapshot_pod_group_and_job_set_and_is_recorded",
        "controller/test_adoption.py::test_objects_of_others_are_listed_as_metadata_and_left_alone",
    ),
    "A JobSet that cannot be created: a rejected Job, a foreign object of its name, a quota, a missing runtime": (
        "controller/test_job_dry_run.py::test_invalid_jobs_are_an_event_and_a_condition_and_are_not_tried_again_until_something_changes",
        "controller/test_job_dry_run.py::test_a_job_whose_job_set_is_refused_is_not_dry_run_again",
        "controller/test_reconcile.py::test_a_foreign_object_is_rejected_until_it_is_deleted",
        "controller/test_reconcile.py::test_a_missing_runtime_is_reported_and_waited_for",
    ),
    "Jobs that the API server rejects, such as a mount without its volume or a GPU in requests alone": (
        "controller/test_job_dry_run.py::test_invalid_jobs_are_an_event_and_a_condition_and_are_not_tried_again_until_something_changes",
        "policy/test_api_validator.py::test_what_the_api_server_rejects_is_an_error",
        "policy/test_api_validator_verdicts.py::test_the_program_and_the_api_server_agree",
    ),
    "A JobSet or PodGroup with a field that the installed CustomResourceDefinition lacks, such as `dependsOn`": (
        "controller/test_blocked.py::test_a_field_that_an_old_definition_lacks_is_not_dropped",
    ),
    "A foreign object of the same name": (
        "controller/test_reconcile.py::test_a_foreign_object_is_rejected_until_it_is_deleted",
        "controller/test_blocked.py::test_the_retry_delay_grows_to_a_minute",
    ),
    "PodGroup of a finished TrainJob": (
        "controller/test_reconcile.py::test_the_end_of_the_job_set_is_the_end_of_the_job_and_nothing_runs_again",
    ),
    "`activeDeadlineSeconds` beyond the calendar (up to int64's maximum)": (
        "controller/test_status.py::test_a_deadline_beyond_all_calendars_is_none",
    ),
    "Validation of an updated TrainJob": (
        "controller/test_webhooks.py::test_a_job_whose_runtime_was_deleted_can_still_be_resumed",
        "controller/test_webhooks.py::test_a_job_is_resumed_with_its_snapshot_else_with_the_live_runtime",
    ),
    "Keys of MPI and Flux jobs: access to Secrets": (
        "components/test_trainer.py::test_the_controller_may_touch_secrets_by_name_or_where_a_tenant_grants_it",
        "controller/test_keys.py::test_a_namespace_that_does_not_grant_its_secrets_gets_the_command",
    ),
    "Watches": (
        "kube/test_silence.py::test_a_watch_is_renewed_about_every_33_seconds",
        "kube/test_silence.py::test_a_silent_watch_is_found_within_45_seconds",
        "kube/test_silence.py::test_a_watch_that_fell_silent_is_cut_and_resumed_on_another_connection",
    ),
    "Flow control": (
        "components/test_trainer.py"
        "::test_the_lease_has_a_priority_level_of_its_own_and_no_burst_of_others_delays_the_controller",
    ),
    "Progress reports: token": (
        "controller/trainer_status/test_tokens.py"
        "::test_a_token_that_is_not_bound_to_a_pod_or_has_another_audience_is_rejected",
        "controller/trainer_status/test_server.py::test_a_token_of_another_pod_is_rejected",
        "controller/trainer_status/test_server.py::test_every_pod_of_the_job_may_report",
    ),
    "Progress reports: writes": (
        "controller/trainer_status/test_writer.py::test_a_thousand_reports_are_two_writes_and_the_last_one_counts",
        "controller/trainer_status/test_writer.py::test_a_job_is_written_once_a_second",
        "controller/trainer_status/test_server.py::test_a_job_that_reports_without_end_is_slowed_down",
    ),
    "Metrics": (
        "controller/test_metrics_access.py::test_a_user_reads_the_paths_that_the_api_server_allows",
        "cluster/test_metrics.py::test_metrics_are_for_those_whom_the_api_server_allows",
    ),
}

_STORED: Final[_Rows] = {
    "quantity": (
        "api/test_go_types.py::test_what_is_stored",
        "api/test_go_quantity.py::test_a_quantity_is_written_as_by_go",
        "compatibility/test_typed_clients.py::test_quantities_are_written_as_by_go",
    ),
    "time": ("api/test_go_types.py::test_what_is_stored",),
    "empty list, map, text, zero or `false` where Go omits it": ("api/test_go_types.py::test_what_is_stored",),
    "… where the schema gives its absence another meaning (a default, a bound)": (
        "api/test_go_types.py::test_what_is_stored",
    ),
    "`trainer.command: []`, `trainer.args: []`": (
        "api/test_go_types.py::test_what_is_stored",
        "render/test_precedence.py::test_the_trainer_replaces_image_command_and_arguments",
    ),
    'empty struct that Go always writes (`resources: {}`), `divisor: "0"`': (
        "api/test_go_types.py::test_what_is_stored",
        "api/test_go_types.py::test_equal_values_in_other_notations",
    ),
    "spec of a released runtime (`trainyard.dev/released`)": (
        "render/test_typed_clients.py::test_released_runtimes_are_stored_as_they_were_released",
        "controller/test_webhooks.py::test_a_runtime_is_stored_as_go_clients_write_it",
    ),
}

_REJECTED_FOR_KUEUE: Final = "render/test_kueue.py::test_pods_that_kueue_would_count_in_another_way_are_rejected"
_COUNTED: Final = "compatibility/test_kueue.py::test_the_pods_are_those_of_the_library_that_kueue_uses"
_RENDERED: Final = "compatibility/test_kueue.py::test_every_rendered_job_has_the_pods_that_kueue_counts"

_KUEUE: Final[_Rows] = {
    "one node with `mpi.runLauncherAsNode` (`deepspeed`, `mlx`)": (
        "render/test_kueue.py::test_a_launcher_that_is_a_node_has_a_node_beside_it_because_kueue_counts_one",
        _COUNTED,
    ),
    "`resourcesPerNode` of an MPI job whose launcher is not a node": (
        "render/test_kueue.py::test_resources_are_where_kueue_counts_them",
        _COUNTED,
    ),
    "`resourcesPerNode` that lacks a resource of the runtime's container": (_REJECTED_FOR_KUEUE, _COUNTED),
    "`resourcesPerNode.claims`": (_REJECTED_FOR_KUEUE, _COUNTED),
    "MPI with `mlPolicy.numNodes` above one": (_REJECTED_FOR_KUEUE, _COUNTED),
    "MPI launcher whose container is named `launcher`, with `resourcesPerNode`": (_REJECTED_FOR_KUEUE, _COUNTED),
    "Intel MPI, MPICH": (_REJECTED_FOR_KUEUE, _COUNTED),
    "`torch.elasticPolicy`": (
        _REJECTED_FOR_KUEUE,
        "render/test_kueue.py::test_an_elastic_job_that_names_its_nodes_is_counted",
        _COUNTED,
    ),
    "a framework that upstream lacks (`horovod`, `ray`, …)": (
        _REJECTED_FOR_KUEUE,
        "render/test_kueue.py::test_a_framework_that_kueue_does_not_know_is_accepted_where_the_pods_are_the_same",
        _COUNTED,
    ),
    "ancestor label on the pod template only, or set by a patch": (_REJECTED_FOR_KUEUE, _COUNTED),
    "`runtimePatches`, `podSpecOverrides`, `activeDeadlineSeconds`": (
        "render/test_kueue.py::test_fields_that_kueue_does_not_know_are_warned_about",
        _REJECTED_FOR_KUEUE,
    ),
    "`mlPolicy.jax`, `xgboost`, `flux`, `torch.envInjection`": (
        "render/test_kueue.py::test_the_list_of_fields_that_kueue_does_not_know_is_complete",
        "render/test_kueue.py::test_a_framework_that_kueue_does_not_know_is_accepted_where_the_pods_are_the_same",
        _RENDERED,
    ),
    "`nodeSelector` of `runtimePatches`": (
        "render/test_kueue.py::test_a_patch_does_not_select_other_nodes_than_kueue_charges",
    ),
    "tolerations, where the flavor has some too": (
        "render/test_kueue.py::test_tolerations_of_a_flavor_are_added_to_those_of_the_job",
    ),
    "a runtime that was changed or deleted after the job was created": (
        "render/test_kueue.py::test_a_runtime_that_was_changed_since_is_compared_because_kueue_counts_it",
        "controller/test_webhooks.py::test_a_job_with_a_runtime_that_kueue_counts_differently_is_not_resumed",
        "controller/test_reconcile.py::test_a_job_whose_pods_kueue_counts_of_a_changed_runtime_is_not_resumed",
    ),
}

_UNCHANGED: Final[_Rows] = {
    "Patches change only while the job is suspended before or after the update and no pods are active": (
        "render/test_immutability.py::test_overrides_change_only_while_suspended_and_inactive",
        "render/test_immutability.py::test_another_order_is_a_change",
    ),
    "Patches may change the label `trainer.kubeflow.org/trainjob-ancestor-step`, with a warning": (
        "render/test_overrides.py::test_a_patch_that_attaches_the_trainer_is_warned_about_and_works",
        "render/test_overrides.py::test_a_patch_that_detaches_the_trainer_is_warned_about_and_works",
        "render/test_overrides.py::test_a_patch_cannot_attach_the_trainer_to_what_cannot_train",
    ),
    "A suspended job keeps its PodGroup": ("controller/test_reconcile.py::test_a_suspended_job_keeps_its_pod_group",),
    "`replicas: 0` of a replicatedJob that is no ancestor step is unset: one Job runs, with a warning": (
        "render/test_runtimes.py::test_zero_replicas_are_unset_as_for_kubeflow_trainer_and_kueue",
    ),
    "QLoRA of a small model without a GPU is rejected unless `numProcPerNode` is 1": (
        "render/test_torchtune.py::test_qlora_without_a_gpu_is_rejected_unless_one_process_is_asked_for",
    ),
    "`PET_*` variables in `spec.trainer.env` are rejected for torch": (
        "render/test_admission.py::test_reserved_variables_are_refused",
    ),
    "The order of merged lists is that of Kubernetes' strategic merge patch": (
        "render/test_merge.py::test_lists_of_named_items_keep_kubernetes_order",
        "render/test_overrides.py::test_variables_and_mounts_of_containers_are_merged_in_kubernetes_order",
        "compatibility/test_upstream.py::test_nothing_differs_but_what_is_on_the_list",
    ),
}

UNCHANGED: Final = "Unchanged from upstream"
"""Line above the list of what is as upstream."""

CLAIMS: Final[dict[str, _Rows]] = {
    "Supported features": _FEATURES,
    "Schema": _SCHEMA,
    "Outside the comparison": _SITUATIONS,
    UNCHANGED: _UNCHANGED,
    "Clients with upstream's Go types": _STORED,
    "Kueue": _KUEUE,
}
"""Tests of the rows, by heading of their section, or the line above the list, and by their first column."""
