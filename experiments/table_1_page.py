"""The page of the appendix for table-1: Table 1, Table 6, and the other trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments import page, table_1
from experiments.harness import Line
from experiments.models import SHARES
from experiments.summaries import Paired, mean_ranks, paired

TM = "TM"
PAPERS_OWN = "AUUC-max s_poly, bound"
DEFAULT = "AUUCMax()"
FEW = 5  # splits, below which an interval over them says nothing
OVERLAP = table_1.TEST_SIZE / (1 - table_1.TEST_SIZE)


class Printed(NamedTuple):
    """A row of the paper's Table 1; it prints two standard deviations."""

    mean: float
    two_sd: float | None
    n_parameters: str
    time: str


PAPER = {
    "TM": Printed(0.03019, 0.00652, "46", "1.00"),
    "CVT": Printed(0.03035, 0.00599, "23", "0.53"),
    "SVM-DP": Printed(0.03047, 0.00606, "23", "0.49"),
    "DDR": Printed(0.03042, 0.00611, "47", "1.31"),
    "SDR": Printed(0.03079, 0.00633, "67", "1.10"),
    "MML": Printed(0.02222, 0.00869, "46", "> 10"),
    "TARNet": Printed(0.03044, 0.00626, "22,402", "6.00"),
    "GANITE": Printed(0.02916, 0.00818, "7,045", "> 10"),
    "PCG": Printed(0.03063, None, "about 5,000", ""),
    "NDCG": Printed(0.02954, None, "about 5,000", ""),
    "AUUC-max s_poly, cv": Printed(0.03071, 0.00608, "23", "0.66"),
    "AUUC-max s_poly, bound": Printed(0.03065, 0.00612, "23", "0.17"),
    "AUUC-max s_log, cv": Printed(0.03023, 0.00619, "23", "0.69"),
    "AUUC-max s_log, bound": Printed(0.03024, 0.00614, "23", "0.18"),
}
PAPERS_SPLITS = 100

#: "Significantly lower than AUUC-max (s_poly) by binomial test at 95%", says the paper.
MARKED = {
    "TM", "CVT", "SVM-DP", "DDR", "MML", "TARNet", "GANITE", "AUUC-max s_log, cv",
    "AUUC-max s_log, bound",
}  # fmt: skip
#: The paper's Table 6: policy risk on Hillstrom at shares .1 to .9.
PAPER_RISK = {
    "TM": (0.8841, 0.8768, 0.8689, 0.8610, 0.8560, 0.8541, 0.8524, 0.8514, 0.8504),
    "SDR": (0.8839, 0.8762, 0.8684, 0.8603, 0.8551, 0.8534, 0.8516, 0.8507, 0.8498),
    PAPERS_OWN: (0.8832, 0.8759, 0.8684, 0.8607, 0.8559, 0.8544, 0.8522, 0.8512, 0.8501),
}


class Scores:
    """The lines of one trial by model and split."""

    def __init__(self, lines: Sequence[Line], trial: str) -> None:
        found: dict[str, dict[int, Line]] = {}
        for line in lines:
            if line["trial"] == trial:
                found.setdefault(line["model"], {})[line["split"]] = line
        self.lines = {model: found[model] for model in table_1.MODELS if model in found}
        self.models = list(self.lines)
        self.common = sorted(set.intersection(*map(set, self.lines.values()))) if found else []

    def splits(self, *models: str) -> list[int]:
        """Those that all of these models have."""
        return sorted(set.intersection(*(set(self.lines[model]) for model in models)))

    def values(
        self, model: str, name: str = "auuc", splits: Sequence[int] | None = None
    ) -> list[float]:
        chosen = self.splits(model) if splits is None else splits
        return [self.lines[model][split][name] for split in chosen]

    def mean(self, model: str, name: str = "auuc", splits: Sequence[int] | None = None) -> float:
        return float(np.mean(self.values(model, name, splits)))

    def spread(self, model: str, name: str = "auuc") -> float:
        values = self.values(model, name)
        return 2 * float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    def difference(
        self, model: str, other: str, *, overlap: float = 0.0, splits: Sequence[int] | None = None
    ) -> Paired:
        splits = self.splits(model, other) if splits is None else splits
        return paired(
            self.values(model, splits=splits), self.values(other, splits=splits), overlap=overlap
        )

    def size(self, model: str) -> int:
        """Parameters of the middle one of the fitted models."""
        return round(float(np.median(self.values(model, "n_parameters", self.common))))

    def time(self, model: str) -> float:
        """Seconds of a core, as a multiple of TM's on the same splits."""
        splits = self.splits(model, TM)
        return self.mean(model, "cpu_seconds", splits) / self.mean(TM, "cpu_seconds", splits)


def render_section(lines: list[Line]) -> str:
    """The section, a pure function of the lines."""
    main = Scores(lines, table_1.MAIN)
    parts = [
        "# table-1: every model of the paper's Table 1\n",
        page.made_by(table_1.NAME, lines),
        _protocol(main),
        "## Table 1: Hillstrom, women's e-mail, visits\n",
        _main_table(main),
        f"{_within_text(main)} Splits share their rows, so the intervals and the binomial test "
        "take them for more than they are; the widened interval allows for it. "
        "Times are seconds of one core for the whole search, as multiples of TM's.\n",
        "![Test AUUC against number of parameters](../images/parameters.png)\n",
        f"Means over the {len(main.common)} splits of all models; bars are the 95% interval of the "
        "difference to TM on these splits.\n",
        "## Table 6: policy risk on Hillstrom\n",
        *_policy_risk(main),
    ]
    others = {trial: Scores(lines, trial) for trial in table_1.OTHERS}
    by_trial = {table_1.MAIN: main} | {t: s for t, s in others.items() if TM in s.models}
    if len(by_trial) > 1:
        parts += ["## The same table on other trials\n", *_other_trials(by_trial)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def summary(lines: Sequence[Line]) -> str:
    """How near the paper's means are, and the picture; for the first page."""
    main = Scores(lines, table_1.MAIN)
    _, wide, *_ = _against(main, PAPERS_OWN, TM)
    return (
        f"{_within_text(main)} AUUC-max as the paper has it, minus TM: {wide} (widened). "
        f"All models, parameters and times: [{table_1.NAME}]({page.address(table_1.NAME)}).\n\n"
        "![Test AUUC against number of parameters](images/parameters.png)\n"
    )


def claims(lines: Sequence[Line]) -> list[page.Claim]:
    main = Scores(lines, table_1.MAIN)
    against, wide = (
        main.difference(PAPERS_OWN, TM),
        main.difference(PAPERS_OWN, TM, overlap=OVERLAP),
    )
    by_cv = main.difference(PAPERS_OWN, "AUUC-max s_poly, cv")
    printed = PAPER[PAPERS_OWN].mean - PAPER[TM].mean
    risks = {m: _risks(main, m, main.splits(*PAPER_RISK)).mean(axis=0) for m in PAPER_RISK}
    holds = _lowest_as_in_the_paper(risks)
    apart = max(float(np.abs(risk - risks[TM]).max()) for risk in risks.values())
    half = 1.96 * float(np.mean([main.values(TM, "policy_risk_error")]))
    return [
        page.Claim(
            f"Table 1: AUUC-max (s_poly, by the bound) is {printed:.5f} above TM",
            f"{page.signed(against.mean)}, widened {page.signed(wide.low)} to "
            f"{page.signed(wide.high)}",
            "no" if against.high < 0 else "yes" if against.low > 0 else "not clear",
        ),
        page.Claim(
            "Choosing Lambda by the bound is as good as by cross-validation",
            f"bound minus CV {page.signed(by_cv.mean)}: on these features the grid constrains "
            "nothing, so there is nothing to choose"
            if abs(by_cv.mean) < 1e-5
            else f"bound minus CV {page.interval(by_cv)}",
            "yes" if by_cv.high >= 0 else "no",
        ),
        page.Claim(
            f"AUUC-max trains in {PAPER[PAPERS_OWN].time} of TM's time, with 23 parameters",
            f"{main.time(PAPERS_OWN):.2f} of TM's {main.mean(TM, 'cpu_seconds'):.2f} s, both "
            "solved exactly",
            "yes" if main.time(PAPERS_OWN) < 1 else "no",
        ),
        page.Claim(
            "Table 6: AUUC-max has the lowest policy risk up to a share of .3, SDR from .4 on",
            f"{'So it is here' if holds else 'Not so here'}: risks of the three differ by at most "
            f"{apart:.4f}, and the error of one split is ± {half:.4f}",
            "yes" if holds else "no",
        ),
    ]


def _protocol(main: Scores) -> str:
    n_linear, n_common = len(main.splits(TM)), len(main.common)
    return (
        f"{n_linear} splits for linear models, {n_common} of them for all models (seeds from 0); "
        f"{page.share(table_1.TEST_SIZE)} test rows, stratified by treatment alone. The paper does "
        f"not state the share; with this one TM's spread is {page.auuc(main.spread(TM))}, the "
        f"paper's {page.auuc(PAPER[TM].two_sd or 0)}. Grids are the paper's, by "
        "5-fold CV on AUUC: l2 in 0, 1e-6, 1e-4 (TM, CVT, DDR, SDR); C in .1, 1, 10; TARNet: "
        "learning rate in .001, .005 and the same l2, batches of 1,000, at most 200 epochs, early "
        "stopping; GANITE: h in 30, 50, 100, "
        "alpha in 1, 100, 1,000, one validation part in place of 5 folds, 20 epochs of its first "
        "stage. The paper copies PCG and NDCG from their authors and has no grid for them: here "
        "LightGBM grows them, the number of trees by 5-fold CV. MML has the regularisation of its "
        "authors' code and half of the labels each, as the method supposes. All but the networks, "
        "the trees and the rows by Adam are solved exactly, so that learning rates fall away; by "
        "Adam: the paper's batches, learning rates (searched too) and early stopping. Features of "
        "all linear models are scaled to 0 to 1 (the paper does not say; column-l2 features are "
        "on the page hillstrom-linear), networks standardise theirs. AUUC-max as in the paper: mu "
        "= .1, Lambda in .5, .8, 1, uniform weights. SDR has no treatment column on Hillstrom, "
        "whose one-hot columns do without (67 parameters, as in the paper), and one on social "
        "pressure. "
        f'`{DEFAULT}` is our default, `selection="certificate"` keeps half of the training rows '
        "to choose and certify. ± is two standard deviations over splits, as in the paper. A "
        f"random ranking has {page.auuc(main.mean(TM, 'random'))} on average.\n"
    )


# Table 1.


def _main_table(main: Scores) -> str:
    header = [
        "model", "splits", "AUUC (joint)", "separate", "paper", "within 1 sd of it",
        "ours - paper", "parameters", "paper", "time / TM", "paper",
        f"minus {PAPERS_OWN} (95% interval)", "widened", "splits above it", "binomial p",
        "paper's mark", "minus TM (95% interval)",
    ]  # fmt: skip
    return page.table(header, [_main_row(main, model) for model in main.models])


def _main_row(main: Scores, model: str) -> list[str]:
    printed = PAPER.get(model)
    return [
        f"**{model}**" if model in (PAPERS_OWN, DEFAULT) else model,
        str(len(main.splits(model))),
        f"{page.auuc(main.mean(model))} ± {page.auuc(main.spread(model))}",
        f"{page.auuc(main.mean(model, 'auuc_separate'))} ± "
        f"{page.auuc(main.spread(model, 'auuc_separate'))}",
        _printed(printed),
        "" if printed is None or printed.two_sd is None else _yes(is_within(main, model)),
        _to_paper(main, model),
        _count(main, model),
        printed.n_parameters if printed else "",
        f"{main.time(model):.2f}",
        printed.time if printed else "",
        *_against(main, model, PAPERS_OWN),
        ("lower" if model in MARKED else "none") if printed else "",
        _against(main, model, TM)[0],
    ]


def from_paper(main: Scores, model: str) -> tuple[float, float] | None:
    """Our mean minus the paper's, and twice its standard error were all splits independent."""
    printed = PAPER.get(model)
    if printed is None or printed.two_sd is None:
        return None
    error = main.spread(model) ** 2 / len(main.splits(model)) + printed.two_sd**2 / PAPERS_SPLITS
    return main.mean(model) - printed.mean, float(np.sqrt(error))


def _to_paper(main: Scores, model: str) -> str:
    found = from_paper(main, model)
    return "" if found is None else f"{page.signed(found[0])} ± {page.auuc(found[1])}"


def _printed(row: Printed | None) -> str:
    if row is None:
        return ""
    return page.auuc(row.mean) + (f" ± {page.auuc(row.two_sd)}" if row.two_sd else "")


def _count(main: Scores, model: str) -> str:
    counts = main.values(model, "n_parameters")
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _against(scores: Scores, model: str, other: str) -> list[str]:
    if model == other:
        return [""] * 4
    difference = scores.difference(model, other)
    wide = scores.difference(model, other, overlap=OVERLAP)
    return [
        page.interval(difference), f"{page.signed(wide.low)} to {page.signed(wide.high)}",
        page.share(difference.share_above), page.p_value(difference.p_value),
    ]  # fmt: skip


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def is_within(main: Scores, model: str) -> bool:
    """Whether the mean is within one standard deviation of the paper's."""
    printed = PAPER[model]
    return printed.two_sd is not None and abs(main.mean(model) - printed.mean) <= printed.two_sd / 2


def _within_text(main: Scores) -> str:
    judged = [m for m in PAPER if m in main.models and PAPER[m].two_sd is not None]
    outside = [m for m in judged if not is_within(main, m)]
    return (
        f"{len(judged) - len(outside)} of {len(judged)} means lie within one standard deviation "
        f"(of a split) of the paper's; not so: {', '.join(outside) or 'none'}."
    )


# Table 6.


def _policy_risk(main: Scores) -> list[str]:
    models = [*PAPER_RISK, DEFAULT]
    splits = main.splits(*models)
    means = {m: _risks(main, m, splits).mean(axis=0) for m in models}
    lowest = np.min([means[m] for m in PAPER_RISK], axis=0)
    header = ["model", *(f"{share:g}" for share in SHARES)]
    rows = [
        [m, *(_marked(r, m in PAPER_RISK and r == low)
              for r, low in zip(means[m], lowest, strict=True))]
        for m in models
    ]  # fmt: skip
    rows += [[f"{m}, paper", *(f"{risk:.4f}" for risk in risks)] for m, risks in PAPER_RISK.items()]
    errors = _risks(main, TM, splits, "policy_risk_error").mean(axis=0)
    rows.append(["95% half-width, one split", *(f"{1.96 * e:.4f}" for e in errors)])
    differences = page.table(
        ["minus TM (95% interval)", *(f"{share:g}" for share in SHARES)],
        [[m, *_risk_differences(main, m, splits)] for m in models if m != TM],
    )
    return [
        f"1 minus the mean outcome when the top share is treated and the others are not; lower is "
        f"better. Means over {len(splits)} splits; the lowest of the paper's three is bold.\n",
        page.table(header, rows),
        "Differences on the same splits:\n",
        differences,
    ]


def _risks(
    main: Scores, model: str, splits: Sequence[int], name: str = "policy_risk"
) -> np.ndarray:
    return np.array([main.lines[model][split][name] for split in splits])


def _marked(value: float, bold: bool) -> str:
    return f"**{value:.4f}**" if bold else f"{value:.4f}"


def _risk_differences(main: Scores, model: str, splits: Sequence[int]) -> list[str]:
    ours, theirs = _risks(main, model, splits).T, _risks(main, TM, splits).T
    found = [paired(a, b) for a, b in zip(ours, theirs, strict=True)]
    return [f"{d.mean:+.4f} ({d.low:+.4f} to {d.high:+.4f})" for d in found]


def _lowest_as_in_the_paper(means: dict[str, np.ndarray]) -> bool:
    """Whether AUUC-max has the lowest risk up to a share of .3, and SDR from .4 on."""
    lowest = [min(PAPER_RISK, key=lambda m: means[m][k]) for k in range(len(SHARES))]
    return lowest == [PAPERS_OWN] * 3 + ["SDR"] * 6


# Other trials.


def _other_trials(by_trial: dict[str, Scores]) -> list[str]:
    present = [m for m in table_1.MODELS if all(m in s.models for s in by_trial.values())]
    models = [m for m in present if _fewest(by_trial, m) >= table_1.SPLITS]
    common = {
        trial: sorted(set.intersection(*(set(s.lines[m]) for m in models)))
        for trial, s in by_trial.items()
    }
    ranks = {
        trial: dict(zip(models, mean_ranks(_blocks(s, models, common[trial])), strict=True))
        for trial, s in by_trial.items()
    }
    by_mean = mean_ranks(
        [[s.mean(m, splits=common[t]) for m in models] for t, s in by_trial.items()]
    )
    order = sorted(range(len(models)), key=lambda k: by_mean[k])
    header = ["model", *by_trial, "mean rank of the trials' means", "mean rank over splits"]
    rows = []
    for k in order:
        m = models[k]
        cells = [page.auuc(s.mean(m, splits=common[t])) for t, s in by_trial.items()]
        over = float(np.mean([ranks[t][m] for t in by_trial]))
        rows.append([m, *cells, f"{by_mean[k]:.1f}", f"{over:.1f}"])
    random = [page.auuc(s.mean(TM, "random", common[t])) for t, s in by_trial.items()]
    rows.append(["random", *random, "", ""])
    said = ", ".join(f"{t} {len(common[t])}" for t in by_trial)
    return [
        "Test AUUC (joint), means over the splits that all models have: "
        f"{said}. Networks learn from at most {table_1.NETWORK_ROWS:,} training rows. Rank 1 is "
        "the best. Trials of one source share rows: three share Hillstrom's control group, two "
        "that of social pressure, and conversions are the buyers among the same visitors.\n",
        page.table(header, rows),
        "Minus TM on the same splits, in units of .00001, with 95% interval over splits:\n",
        page.table(
            ["model", *by_trial],
            [
                [m, *(page.units(s.difference(m, TM)) for s in by_trial.values())]
                for m in [models[k] for k in order] + [m for m in present if m not in models]
                if m != TM and _fewest(by_trial, m) >= FEW
            ],
        ),
    ]


def _fewest(by_trial: dict[str, Scores], model: str) -> int:
    return min(len(s.splits(model)) for s in by_trial.values())


def _blocks(s: Scores, models: Sequence[str], splits: Sequence[int]) -> list[list[float]]:
    return [[s.lines[m][split]["auuc"] for m in models] for split in splits]
