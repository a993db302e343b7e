"""Parameters of LightGBM by any of its names for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auucmax._validation import listed

#: Other names that LightGBM has for what is set here. It would prefer ours to a user's alias.
ALIASES = {
    "num_leaves": ("num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"),
    "learning_rate": ("eta", "shrinkage_rate"),
    "metric": ("metrics", "metric_types"),
    "seed": ("random_seed", "random_state"),
    "bin_construct_sample_cnt": ("subsample_for_bin",),
    "num_threads": ("num_thread", "nthread", "nthreads", "n_jobs"),
    "verbosity": ("verbose",),
    "objective": ("objective_type", "app", "application", "loss"),
    "min_data_in_leaf": (
        "min_data", "min_data_per_leaf", "min_child_samples", "min_samples_leaf"
    ),
    "min_sum_hessian_in_leaf": (
        "min_hessian", "min_sum_hessian", "min_sum_hessian_per_leaf", "min_child_weight"
    ),
}  # fmt: skip
#: What LightGBM never gets to see, because trees are grown one by one here.
UNUSED = {
    "n_trees": (
        "num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round",
        "num_rounds", "nrounds", "num_boost_round", "n_estimators", "max_iter",
    ),
    "patience": (
        "early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change"
    ),
}  # fmt: skip


def main_names(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """The user's parameters of LightGBM, by the names that are used here.

    >>> main_names({"max_leaves": 3, "max_depth": 2})
    {'num_leaves': 3, 'max_depth': 2}
    """
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise ValueError(
            f"lightgbm_params should be a dict of parameters of LightGBM, got "
            f"{type(params).__name__}. Pass for example {{'max_depth': 3}}."
        )
    for ours, theirs in UNUSED.items():
        if unused := [name for name in params if name in theirs]:
            raise ValueError(
                f"lightgbm_params should hold what LightGBM decides, got {listed(unused)}. "
                f"Set {ours}=... of the model."
            )
    main = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
    named = {main.get(name, name): value for name, value in params.items()}
    if len(named) < len(params):
        raise ValueError(
            f"lightgbm_params should name each parameter once, got {listed(params)}, of which two "
            f"mean the same. Leave one out."
        )
    return named
