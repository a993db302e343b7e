import gc
import os
import sys

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

os.environ.setdefault("MPLBACKEND", "Agg")
# Two tests run at a time: a second OpenMP thread in each waits more than it works, in small boosted
# models a hundred times so. Set before anything loads OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Compiled code is kept, whatever the shell says of it: each worker, and each of some hundred
# processes, would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The same examples in every run: a failure can be repeated, and a pass means the same everywhere,
# however busy the machine is.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")


#: What only the gate runs, beside tests that are marked one by one: simulations, damaged files,
#: tables and figures of experiments, pages of the site, networks, which wait for torch, whole
#: commands in processes of their own, examples that fit whole models, and the further cases of
#: tests that take seconds each. The doctests of the networks, and the tests of all estimators, stay
#: in the inner loop; scikit-learn's checks those of one estimator of each family.
GATE = (
    "src/auucmax/bounds/betting.py",
    "src/auucmax/bounds/certify.py",
    "src/auucmax/bounds/fixed_bets.py",
    "src/auucmax/bounds/progressive.py",
    "src/auucmax/estimators/multi_arm.py",
    "src/auucmax/evaluation/budget.py",
    "src/auucmax/report/summary.py",
    "src/auucmax/trial_model/",
    "tests/benchmarks/test_harness.py::test_certificates_can_be_measured",
    "tests/benchmarks/test_harness.py::test_fits_at_scale_can_be_measured",
    "tests/benchmarks/test_harness.py::test_records_have_the_fields",
    "tests/benchmarks/test_house.py::test_the_line_of_a_command",
    "tests/benchmarks/test_house.py::test_the_source_has_no_cycle_and_no_long_function",
    "tests/bounds/test_betting.py::test_close_to_the_normal_limit",
    "tests/bounds/test_betting.py::test_clusters_are_dealt_whole",
    "tests/bounds/test_betting.py::test_exact_probability_of_a_miss",
    "tests/bounds/test_betting.py::test_gains_on_hillstrom_are_certified",
    "tests/bounds/test_certify.py::test_a_ranking_that_is_not_better_than_random",
    "tests/bounds/test_certify.py::test_a_search_pays_for_its_candidates_on_the_rows_that_it_compared_them_on",
    "tests/bounds/test_certify.py::test_thresholds_hold_together",
    "tests/bounds/test_certify.py::test_training_rows_are_not_certified[each",
    "tests/bounds/test_certify.py::test_two_models_are_compared",
    "tests/bounds/test_certify.py::test_upper_bounds_of_a_histogram",
    "tests/bounds/test_classical.py::test_one_row_moves_the_estimate",
    "tests/bounds/test_classical.py::test_unbiased_over_all_samples_of_a_small_population",
    "tests/bounds/test_fixed_bets.py::test_a_histogram_is_certified",
    "tests/bounds/test_fixed_bets.py::test_counts_say_what_the_rows_say[0]",
    "tests/bounds/test_fixed_bets.py::test_counts_say_what_the_rows_say[1]",
    "tests/bounds/test_fixed_bets.py::test_many_rows_are_drawn_in_batches",
    "tests/bounds/test_known_chances.py::test_a_useless_score_is_not_certified_and_a_good_one_is",
    "tests/bounds/test_known_chances.py::test_chunks_are_certified_by_their_chances",
    "tests/bounds/test_paper.py::test_it_does_not_hold",
    "tests/bounds/test_progressive.py::test_bounds_are_below_the_truth",
    "tests/bounds/test_progressive.py::test_exact_probability_of_a_miss",
    "tests/bounds/test_progressive.py::test_words",
    "tests/cli/test_arms.py::test_evaluate_shows_what_was_found_and_judges_new_rows",
    "tests/cli/test_arms.py::test_export_gives_every_uplift_and_the_arm[duckdb]",
    "tests/cli/test_arms.py::test_export_gives_every_uplift_and_the_arm[postgres]",
    "tests/cli/test_arms.py::test_numbers_of_the_command_are_those_of_the_file",
    "tests/cli/test_arms.py::test_rivals_are_compared_arm_by_arm",
    "tests/cli/test_arms.py::test_rows_that_are_left_out_or_stand_twice_are_told",
    "tests/cli/test_arms.py::test_target_keeps_to_limits",
    "tests/cli/test_assign.py::test_people_are_added_and_nobody_moves",
    "tests/cli/test_bad_input.py::test_a_full_disk_leaves_the_old_file",
    "tests/cli/test_bad_input.py::test_an_interrupted_command_leaves_the_old_file",
    "tests/cli/test_bad_input.py::test_the_seed_of_the_model_reaches_the_rivals",
    "tests/cli/test_demo.py::test_demo_goes_from_the_check_to_the_page",
    "tests/cli/test_demo.py::test_json_has_the_numbers",
    "tests/cli/test_evaluate.py::test_a_hold_out_is_judged_by_the_model_itself",
    "tests/cli/test_evaluate.py::test_a_model_that_forgets_its_rows_does_not_know_its_file",
    "tests/cli/test_evaluate.py::test_ids_that_are_written_in_another_way",
    "tests/cli/test_evaluate.py::test_nothing_is_certified_where_it_cannot_be_told_which_rows_are_new",
    "tests/cli/test_evaluate.py::test_the_file_of_the_fit_shows_what_was_found_then[model_without_id]",
    "tests/cli/test_failures.py::test_a_reader_who_goes_away_is_no_failed_check",
    "tests/cli/test_failures.py::test_an_interrupt_is_one_line_from_the_start",
    "tests/cli/test_fit.py::test_candidates_of_the_command",
    "tests/cli/test_large.py::test_other_commands_tell_the_same_in_pieces",
    "tests/cli/test_large.py::test_report_of_pieces",
    "tests/cli/test_money.py",
    "tests/cli/test_monitor.py::test_rows_that_do_not_fit_into_memory_give_the_same_bounds",
    "tests/cli/test_newcomer.py::test_from_the_raw_file_to_the_list",
    "tests/cli/test_output.py::test_ids_that_a_spreadsheet_would_run_are_said",
    "tests/cli/test_output.py::test_machines_and_the_page_are_told_options",
    "tests/cli/test_output.py::test_nothing_from_a_file_steers_the_terminal",
    "tests/cli/test_plan.py::test_the_screen_tells_rows_power_and_width",
    "tests/cli/test_reading.py::test_every_command_takes_them",
    "tests/cli/test_reading.py::test_later_files_need_no_option",
    "tests/cli/test_reading.py::test_numbers_that_are_texts_in_a_list_of_few_people",
    "tests/cli/test_reading.py::test_the_screen_tells_codes_and_how_to_change_it",
    "tests/cli/test_reading.py::test_what_was_decided_of_a_column_is_told",
    "tests/cli/test_report.py::test_the_page_of_several_arms",
    "tests/cli/test_rows.py::test_every_command_takes_groups",
    "tests/cli/test_rows.py::test_rivals_are_drawn_on_the_rows_of_the_fit",
    "tests/cli/test_rows.py::test_without_groups_a_command_asks",
    "tests/cli/test_screen.py::test_json_is_one_document_with_the_numbers_of_the_screen",
    "tests/cli/test_screen.py::test_report_and_target_wait_only_for_what_they_use",
    "tests/cli/test_sound_trial.py::test_a_column_that_predicts_the_outcome_too_well_is_asked_about",
    "tests/cli/test_sound_trial.py::test_fit_stops_with_the_reason",
    "tests/cli/test_sound_trial.py::test_lower_is_better",
    "tests/cli/test_sound_trial.py::test_new_rows_may_have_outcomes_that_are_missing",
    "tests/cli/test_sound_trial.py::test_new_rows_of_a_sound_trial_judge_the_model_and_it_is_still_said",
    "tests/cli/test_sound_trial.py::test_nothing_is_compared_on_rows_that_are_no_trial",
    "tests/cli/test_sound_trial.py::test_outcomes_that_are_missing_are_counted_by_arm",
    "tests/cli/test_sound_trial.py::test_rows_whose_outcome_is_not_known_yet_are_left_out",
    "tests/cli/test_sound_trial.py::test_scores_of_a_table_that_is_no_trial_get_no_certificate",
    "tests/cli/test_sound_trial.py::test_treatment_that_follows_the_id_or_the_group_is_found",
    "tests/cli/test_sound_trial.py::test_what_machines_read_says_it_too",
    "tests/cli/test_target.py::test_a_header_alone_means_that_nobody_opted_out",
    "tests/cli/test_target.py::test_ids_to_leave_out_that_cannot_be_used",
    "tests/cli/test_trials.py::test_a_column_without_values_gets_a_note",
    "tests/cli/test_trials.py::test_a_model_is_judged_on_new_categories_where_they_are_let_in",
    "tests/cli/test_trials.py::test_blanks_around_a_label_are_forgiven",
    "tests/cli/test_trials.py::test_names_with_commas",
    "tests/cli/test_unequal_chances.py::test_models_are_compared_by_the_chances",
    "tests/cli/test_unequal_chances.py::test_new_rows_may_have_chances_of_their_own",
    "tests/cli/test_unequal_chances.py::test_other_mistakes_are_told_in_one_line",
    "tests/cli/test_unequal_chances.py::test_scores_of_any_origin_are_judged_by_the_chances",
    "tests/cli/test_verify.py::test_a_column_and_a_list_say_the_same",
    "tests/cli/test_verify.py::test_pieces_tell_what_the_whole_does",
    "tests/compare/test_comparison.py::test_a_model_that_failed_is_never_the_one_to_compare_with",
    "tests/compare/test_comparison.py::test_printed_and_drawn",
    "tests/compare/test_run.py::test_results_depend_neither_on_processes",
    "tests/compare/test_run.py::test_warnings_of_workers_reach_the_caller",
    "tests/data/test_chances.py::test_false_alarms_are_rare_of_few_and_of_many_chances",
    "tests/data/test_fetch.py::test_social_pressure_as_published",
    "tests/data/test_pieces.py::test_pieces_are_the_whole",
    "tests/data/test_pieces.py::test_the_size_is_that_of_rows_from_all_over_the_table",
    "tests/data/test_randomisation.py::test_a_noisy_leak_of_the_outcome_is_asked_about[True]",
    "tests/data/test_randomisation.py::test_one_row_of_each_cluster_is_drawn_at_random",
    "tests/data/test_randomisation.py::test_rows_that_left_one_arm_are_found",
    "tests/data/test_randomisation.py::test_same_seed_same_report",
    "tests/data/test_randomisation.py::test_treatment_must_not_depend_on_ids_or_groups_that_have_an_order",
    "tests/data/test_randomisation.py::test_what_became_of_the_outcome_differs_between_the_arms_and_stops",
    "tests/data/test_randomisation_report.py::test_a_trace_in_many_rows_is_called_small",
    "tests/data/test_reading.py::test_a_few_texts_that_stand_for_no_number_are_missing_and_told",
    "tests/data/test_seen.py::test_new_trials_are_refused_rarely",
    "tests/data/test_synthetic.py::test_auuc_is_right_to_1e_4",
    "tests/data/test_synthetic.py::test_no_linear_score_beats_chance_when_all_is_nonlinear",
    "tests/data/test_synthetic.py::test_sample_auuc_agrees_with_the_population[0.6]",
    "tests/data/test_synthetic.py::test_tolerance_sets_the_error_and_too_small_a_one_warns",
    "tests/encoding/test_kinds.py::test_one_alternative_matches_and_the_number_stays_the_same",
    "tests/estimators/networks/test_models.py",
    "tests/estimators/networks/test_network.py",
    "tests/estimators/networks/test_training.py",
    "tests/estimators/test_all.py::test_before_fit_and_wrong_columns[UpliftEnsemble]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[BoostedEffect]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[ClassTransformation]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[DependentDataRepresentation]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[ResponseModel]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[SharedDataRepresentation]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[ShrunkInteractions]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[TransformedOutcome]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[UpliftEnsemble]",
    "tests/estimators/test_all.py::test_inside_scikit_learn[UpliftLambdaMART]",
    "tests/estimators/test_all.py::test_it_learns[UpliftEnsemble]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[BoostedEffect]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[ClassTransformation]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[DependentDataRepresentation]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[GANITE]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[ResponseModel]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[SharedDataRepresentation]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[ShrunkInteractions]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[TransformedOutcome]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[UpliftEnsemble]",
    "tests/estimators/test_all.py::test_same_scores_from_arrays_frames_labels_and_row_order[UpliftLambdaMART]",
    "tests/estimators/test_all.py::test_scikit_learn_check[BoostedEffect",
    "tests/estimators/test_all.py::test_scikit_learn_check[CFRNet",
    "tests/estimators/test_all.py::test_scikit_learn_check[ClassTransformation",
    "tests/estimators/test_all.py::test_scikit_learn_check[DependentDataRepresentation",
    "tests/estimators/test_all.py::test_scikit_learn_check[GANITE",
    "tests/estimators/test_all.py::test_scikit_learn_check[ResponseModel",
    "tests/estimators/test_all.py::test_scikit_learn_check[SharedDataRepresentation",
    "tests/estimators/test_all.py::test_scikit_learn_check[ShrunkInteractions",
    "tests/estimators/test_all.py::test_scikit_learn_check[TransformedOutcome",
    "tests/estimators/test_all.py::test_scikit_learn_check[UpliftEnsemble",
    "tests/estimators/test_all.py::test_scikit_learn_check[UpliftLambdaMART",
    "tests/estimators/test_auucmax.py::test_a_trial_that_teaches_nothing",
    "tests/estimators/test_auucmax.py::test_all_that_fits_responses_fits_money",
    "tests/estimators/test_auucmax.py::test_units_of_the_outcome_do_not_matter",
    "tests/estimators/test_boosted.py::test_missing_values_are_learnt_from",
    "tests/estimators/test_boosted.py::test_where_effects_do_not_differ_few_trees_are_kept",
    "tests/estimators/test_ensemble.py::test_a_stream_gives_the_model_of_the_rows_in_memory",
    "tests/estimators/test_ensemble.py::test_missing_values_are_taken_by_the_default_members",
    "tests/estimators/test_lambdamart.py::test_same_seed_same_scores_for_any_number_of_threads",
    "tests/estimators/test_learning_rows.py::test_a_norm_is_searched_on_a_part_and_fitted_on_all",
    "tests/estimators/test_learning_rows.py::test_certificate_of_a_stream",
    "tests/estimators/test_learning_rows.py::test_choice_by_folds_of_a_stream",
    "tests/estimators/test_learning_rows.py::test_coefficients_equal_those_of_the_rows_in_memory",
    "tests/estimators/test_learning_rows.py::test_columns_far_from_zero",
    "tests/estimators/test_learning_rows.py::test_memory_and_streams_deal_the_same_folds",
    "tests/estimators/test_learning_rows.py::test_money_is_learnt_from_a_stream_as_in_memory",
    "tests/estimators/test_meta.py::test_regret_falls_with_the_rows_where_the_model_is_right",
    "tests/estimators/test_multi_arm.py::test_a_seed_makes_all_of_it_deterministic",
    "tests/estimators/test_multi_arm.py::test_arrays_polars_numbers_seeds_and_clones",
    "tests/estimators/test_multi_arm.py::test_hillstrom_with_both_mails",
    "tests/estimators/test_multi_arm.py::test_weights_are_copies",
    "tests/estimators/test_norm_search.py::test_adam_comes_near_the_exact_solution",
    "tests/estimators/test_shrunk.py::test_few_rows_of_an_outcome",
    "tests/estimators/test_shrunk.py::test_where_effects_do_not_differ_strong_shrinkage_has_most_of_the_weight",
    "tests/estimators/test_svm_dp.py::test_hillstrom_in_few_steps",
    "tests/estimators/test_targets.py::test_a_stream_of_money_gives_the_model_of_the_rows_in_memory[UpliftEnsemble]",
    "tests/estimators/test_targets.py::test_effects_on_numbers_are_found[UpliftEnsemble]",
    "tests/estimators/test_targets.py::test_whether_times_a_constant_amount_ranks_as_whether[BoostedEffect]",
    "tests/estimators/test_targets.py::test_whether_times_a_constant_amount_ranks_as_whether[UpliftEnsemble]",
    "tests/evaluation/test_budget.py::test_errors_are_those_of_the_bootstrap",
    "tests/evaluation/test_budget.py::test_policies_are_compared_row_by_row",
    "tests/evaluation/test_inference.py::test_standard_errors_agree_with_the_bootstrap",
    "tests/evaluation/test_inference.py::test_standard_errors_agree_with_the_jackknife",
    "tests/evaluation/test_risk.py::test_standard_errors_agree_with_the_bootstrap",
    "tests/evaluation/test_risk.py::test_standard_errors_agree_with_the_jackknife",
    "tests/experiments/",
    "tests/export/test_onnx_model.py::test_a_fitted_ensemble",
    "tests/export/test_onnx_model.py::test_fitted_estimators[CFRNet",
    "tests/export/test_onnx_model.py::test_fitted_estimators[GANITE]",
    "tests/export/test_onnx_model.py::test_fitted_estimators[TARNet]",
    "tests/export/test_onnx_model.py::test_models_that_were_saved_and_loaded",
    "tests/export/test_onnx_model.py::test_onnxruntime_bends_and_branches_as_python_does",
    "tests/export/test_raw_formula.py::test_a_fitted_ensemble",
    "tests/export/test_raw_formula.py::test_features_are_those_of_the_encoder",
    "tests/export/test_raw_formula.py::test_the_program_of_the_page_bends_and_branches_as_python_does",
    "tests/export/test_raw_formula.py::test_the_program_of_the_page_scores_as_python_does",
    "tests/export/test_sql.py::test_a_column_that_is_called_as_the_score_is_not_calibrated",
    "tests/export/test_sql.py::test_a_fitted_ensemble[duckdb]",
    "tests/export/test_sql.py::test_all_columns_pass[duckdb-True]",
    "tests/export/test_sql.py::test_arms_of_ensembles",
    "tests/export/test_sql.py::test_duckdb_bends_and_branches_as_python_does",
    "tests/export/test_sql.py::test_other_dialects_translated_bend_and_branch_as_python_does",
    "tests/export/test_sql.py::test_other_dialects_translated_score_as_python_does",
    "tests/fuzz/",
    "tests/pairs/test_field.py::test_a_length_that_is_not_its_own",
    "tests/pairs/test_field.py::test_s_poly_on_smooth_scores_with_a_thousand_bins",
    "tests/pairs/test_linear.py::test_more_rows_than_the_compiler_waits_for",
    "tests/pairs/test_passes.py::test_a_disk_that_fails_while_the_code_is_stored",
    "tests/pairs/test_passes.py::test_kernels_equal_their_numpy_twins",
    "tests/pairs/test_passes.py::test_small_problems_compile_nothing",
    "tests/report/test_arms.py::test_by_people_there_is_no_money",
    "tests/report/test_arms.py::test_costs_of_the_same_ratios_and_others",
    "tests/report/test_arms.py::test_hostile_labels_stay_text",
    "tests/report/test_arms.py::test_what_is_not_shown_is_said",
    "tests/statistical/",
    "tests/targeting/test_planning.py::test_a_plan_that_certifies_its_shares",
    "tests/test_architecture.py::test_examples_of_the_models_page_run",
    "tests/test_architecture.py::test_readme_example_runs",
    "tests/test_architecture.py::test_submodules_are_attributes",
    "tests/test_docs_site.py",
    "tests/test_progress.py::test_nothing_without_a_terminal_but_a_line_of_what_takes_long",
    "tests/test_progress.py::test_one_bar_for_all_parts_with_the_time_that_is_left",
    "tests/trial/test_assignment.py::test_everybody_of_a_short_block_has_each_arm_by_its_share",
    "tests/trial/test_assignment.py::test_shares_are_those_of_chance",
    "tests/trial/test_monitoring.py::test_another_model_is_refused",
    "tests/trial_model/test_arm_evidence.py::test_between_any_two_numbers_are_rows_enough_of_each_arm",
    "tests/trial_model/test_arm_evidence.py::test_numbers_of_two_costs_and_of_arms_alone_tell_of_nobody",
    "tests/trial_model/test_arm_fitting.py::test_a_failed_check_is_said_and_nothing_certified",
    "tests/trial_model/test_arm_fitting.py::test_a_fit_within_some_minutes",
    "tests/trial_model/test_arm_fitting.py::test_arms_of_equal_effect_share",
    "tests/trial_model/test_arm_fitting.py::test_arms_that_cost_nothing",
    "tests/trial_model/test_arm_fitting.py::test_labels_of_few_rows_are_left_out_and_said",
    "tests/trial_model/test_arm_fitting.py::test_rows_of_a_household_are_judged_together",
    "tests/trial_model/test_arms.py::test_own_rows_show_what_was_found_and_new_rows_are_judged",
    "tests/trial_model/test_arms.py::test_rows_that_were_learnt_from_are_left_out",
    "tests/trial_model/test_choosing.py::test_nothing_is_certified_of_few_rows_or_groups",
    "tests/trial_model/test_choosing.py::test_uplifts_of_the_own_people_add_up_to_the_gain[0.1]",
    "tests/trial_model/test_choosing.py::test_uplifts_of_the_own_people_add_up_to_the_gain[0.77]",
    "tests/trial_model/test_crossfit.py::test_a_table_in_pieces_gives_the_rows_and_models_of_a_frame[None]",
    "tests/trial_model/test_file.py::test_a_shared_file_cannot_be_asked_who_was_in_the_trial",
    "tests/trial_model/test_file.py::test_arrays_of_an_ensemble_that_no_model_wrote",
    "tests/trial_model/test_file.py::test_between_two_numbers_lie_twenty_rows_of_each_arm",
    "tests/trial_model/test_file.py::test_files_are_small",
    "tests/trial_model/test_file.py::test_models_of_scikit_learn_with_other_shapes[cvt]",
    "tests/trial_model/test_file.py::test_round_trip[",
    "tests/trial_model/test_file.py::test_round_trip_of_other_ways_to_fit",
    "tests/trial_model/test_file.py::test_the_same_seed_gives_the_same_numbers_and_another_key",
    "tests/trial_model/test_file.py::test_trees_of_an_ensemble_are_kept_and_score_the_same",
    "tests/trial_model/test_file.py::test_values_of_an_ensemble_that_no_model_wrote",
    "tests/trial_model/test_fitting.py::test_a_chance_far_beyond_the_others_leaves_no_certificate",
    "tests/trial_model/test_fitting.py::test_a_hold_out_and_new_rows_by_group",
    "tests/trial_model/test_fitting.py::test_a_range_of_money_makes_a_certificate",
    "tests/trial_model/test_fitting.py::test_a_rival_has_the_numbers_of_its_own_fit",
    "tests/trial_model/test_fitting.py::test_a_table_in_pieces_is_judged_by_its_chances",
    "tests/trial_model/test_fitting.py::test_a_trial_that_looks_odd_is_warned_of_and_fitted",
    "tests/trial_model/test_fitting.py::test_an_outcome_of_yes_and_no",
    "tests/trial_model/test_fitting.py::test_arms_of_numbers_are_the_same_as_arms_of_texts",
    "tests/trial_model/test_fitting.py::test_candidates_are_paid_for",
    "tests/trial_model/test_fitting.py::test_every_model_by_name",
    "tests/trial_model/test_fitting.py::test_groups_with_both_arms_have_intervals_and_no_certificate",
    "tests/trial_model/test_fitting.py::test_index_of_the_frame_does_not_matter",
    "tests/trial_model/test_fitting.py::test_left_out_rows_may_lack_an_outcome",
    "tests/trial_model/test_fitting.py::test_lost_outcomes_are_tested_by_the_chances",
    "tests/trial_model/test_fitting.py::test_lower_is_better_turns_the_outcome_round",
    "tests/trial_model/test_fitting.py::test_money_is_fitted_as_it_comes",
    "tests/trial_model/test_fitting.py::test_names_of_columns_are_made_texts",
    "tests/trial_model/test_fitting.py::test_one_chance_for_all_is_no_news",
    "tests/trial_model/test_fitting.py::test_order_of_rows_does_not_matter_with_ids",
    "tests/trial_model/test_fitting.py::test_outcomes_that_are_missing_in_one_arm_fail_the_check",
    "tests/trial_model/test_fitting.py::test_outcomes_that_are_not_binary",
    "tests/trial_model/test_fitting.py::test_people_who_happen_to_be_alike_are_no_copies",
    "tests/trial_model/test_fitting.py::test_rivals_are_ranked_on_the_same_folds",
    "tests/trial_model/test_fitting.py::test_rivals_of_a_hold_out_are_paired_on_its_rows",
    "tests/trial_model/test_fitting.py::test_rows_that_stand_several_times_are_refused[0.3]",
    "tests/trial_model/test_fitting.py::test_same_seed_same_model_other_seed_other_folds",
    "tests/trial_model/test_fitting.py::test_strata_of_coarse_features_are_no_copies",
    "tests/trial_model/test_fitting.py::test_warnings_are_given_and_kept",
    "tests/trial_model/test_model.py::test_a_hold_out_file_with_ids_is_judged_on_what_was_set_aside",
    "tests/trial_model/test_model.py::test_a_model_that_forgets_its_rows",
    "tests/trial_model/test_model.py::test_new_rows_with_a_chance_far_beyond_the_others_are_not_certified",
    "tests/trial_model/test_model.py::test_rows_that_cannot_be_told_apart_get_no_certificate",
    "tests/trial_model/test_timing.py::test_a_fit_within_minutes_is_saved",
    "tests/trial_model/test_timing.py::test_all_models_learn_from_so_many_rows_and_all_rows_are_judged",
    "tests/trial_model/test_timing.py::test_the_pace_of_small_fits",
    "tests/trial_model/test_timing.py::test_trees_of_many_rows_learn_from_a_part_and_it_is_printed",
)
#: The quick test of each that the inner loop keeps.
KEPT = (
    "tests/bounds/test_classical.py::test_unbiased_over_all_samples_of_a_small_population[block-bernstein",
    "tests/bounds/test_fixed_bets.py::test_many_rows_are_drawn_in_batches[8000]",
    "tests/cli/test_bad_input.py::test_a_full_disk_leaves_the_old_file[fit]",
    "tests/cli/test_bad_input.py::test_an_interrupted_command_leaves_the_old_file[target]",
    "tests/cli/test_evaluate.py::test_nothing_is_certified_where_it_cannot_be_told_which_rows_are_new[]",
    "tests/cli/test_large.py::test_other_commands_tell_the_same_in_pieces[check",
    "tests/cli/test_money.py::test_fit_says_what_it_saw_and_speaks_of_100_people",
    "tests/cli/test_output.py::test_nothing_from_a_file_steers_the_terminal[check]",
    "tests/cli/test_reading.py::test_every_command_takes_them[evaluate",
    "tests/cli/test_screen.py::test_json_is_one_document_with_the_numbers_of_the_screen[evaluate",
    "tests/cli/test_sound_trial.py::test_fit_stops_with_the_reason[opened",
    "tests/data/test_pieces.py::test_pieces_are_the_whole[csv]",
    "tests/data/test_randomisation.py::test_treatment_must_not_depend_on_ids_or_groups_that_have_an_order[False-id]",
    "tests/data/test_randomisation.py::test_what_became_of_the_outcome_differs_between_the_arms_and_stops[0.12-clicks]",
    "tests/data/test_synthetic.py::test_auuc_is_right_to_1e_4[tied-0.5]",
    "tests/data/test_synthetic.py::test_auuc_is_right_to_1e_4_where_it_is_an_integral[population1",
    "tests/estimators/test_auucmax.py::test_all_that_fits_responses_fits_money[{'weights':",
    "tests/estimators/test_learning_rows.py::test_a_norm_is_searched_on_a_part_and_fitted_on_all[bound",
    "tests/estimators/test_learning_rows.py::test_money_is_learnt_from_a_stream_as_in_memory[norm-money]",
    "tests/evaluation/test_inference.py::test_standard_errors_agree_with_the_bootstrap[True-joint]",
    "tests/evaluation/test_inference.py::test_standard_errors_agree_with_the_jackknife[both-joint",
    "tests/evaluation/test_risk.py::test_standard_errors_agree_with_the_bootstrap[clustered-0.5]",
    "tests/evaluation/test_risk.py::test_standard_errors_agree_with_the_jackknife[weighted-None",
    "tests/export/test_sql.py::test_a_column_that_is_called_as_the_score_is_not_calibrated[score-duckdb]",
    "tests/fuzz/test_feeding.py",
    "tests/pairs/test_passes.py::test_kernels_equal_their_numpy_twins[True-binary-gram",
    "tests/pairs/test_passes.py::test_kernels_equal_their_numpy_twins[True-binary-moments-float32-C",
    "tests/pairs/test_passes.py::test_kernels_equal_their_numpy_twins[True-binary-rows",
    "tests/pairs/test_passes.py::test_kernels_equal_their_numpy_twins[True-binary-sum-float32",
    "tests/pairs/test_passes.py::test_kernels_equal_their_numpy_twins[True-binary-vectors",
    "tests/trial_model/test_file.py::test_round_trip[tm]",
    "tests/trial_model/test_fitting.py::test_every_model_by_name[tm]",
)
#: Folders whose tests share models, a session or compiled code, which one process makes once.
TOGETHER = (
    "tests/spark/",
    "tests/cli/",
    "tests/trial_model/",
    "tests/trial/",
    "tests/report/",
    "tests/bounds/",
    "tests/pairs/",
)
#: Files whose tests take minutes and share nothing; those of any other file stay together.
APART = ("tests/fuzz/test_commands.py", "tests/fuzz/test_readers.py")
#: What takes long is begun first, so that no process is left with it at the end.
FIRST = (*TOGETHER[:3], "tests/fuzz/", "tests/test_docs_site.py", "tests/statistical/",
         "tests/experiments/", *TOGETHER[3:])  # fmt: skip


def pytest_ignore_collect(collection_path, config):
    """The inner loop does not import what only the gate runs: each worker would import it all.

    A file that is named on the command line is looked into all the same.
    """
    name = collection_path.relative_to(config.rootpath).as_posix()
    is_slow = name.startswith(GATE) and not any(test.startswith(name) for test in KEPT)
    return (config.option.markexpr == "not gate" and is_slow) or None


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config, items):
    """Choose the tier of each test; properties are in both, in the gate with all their examples.

    Those that have all of them in the inner loop already are not repeated.
    """
    items.sort(key=lambda item: [not item.nodeid.startswith(name) for name in FIRST])
    tier = config.option.markexpr
    properties = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
    properties = [item for item in properties if _fewer_examples(item.obj) is not None]
    slow = [i for i in items if i.nodeid.startswith(GATE) and not i.nodeid.startswith(KEPT)]
    for item in slow + (properties if tier == "gate" else []):
        item.add_marker(pytest.mark.gate)
    if tier == "not gate":
        for test in {item.obj for item in properties}:
            test._hypothesis_internal_use_settings = _fewer_examples(test)


def _fewer_examples(test):
    """Settings with a fifth of the examples, but ten of those that have more; None if few do."""
    own = test._hypothesis_internal_use_settings  # a second @settings would be refused
    few = max(10, own.max_examples // 5)
    return settings(own, max_examples=few) if own.max_examples > few else None


def pytest_collection_finish():
    """What is imported by now stays, so the garbage collector need not look at it again."""
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()  # libraries look for what was not freed


@pytest.hookimpl(optionalhook=True)  # there is no such hook without xdist
def pytest_xdist_make_scheduler(config, log):
    """All tests of a file, and of a folder of TOGETHER, go to one worker, in the order they have.

    By their path: from pytest 9.2 on, xdist 3.8 loses the marks that it has for this.
    """
    from xdist.scheduler import LoadScopeScheduling

    class FilesOnOneWorker(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            folder = next((name for name in TOGETHER if nodeid.startswith(name)), None)
            return folder or (nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0])

    config.option.loadscopereorder = False  # by the number of tests, which says little
    return FilesOnOneWorker(config, log) if config.getvalue("dist") == "loadscope" else None
