"""Public data sets: Hillstrom is embedded, others are found on disk or downloaded once."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from platformdirs import user_cache_dir

from auucmax._validation import check_choice, check_whole, listed
from auucmax.data.trial import Trial

ENVIRONMENT = "AUUCMAX_DATA"
RETRIES = 2
SILENCE = 30.0  #: seconds that a server may be silent
Directory = str | os.PathLike[str] | None


class DataNotFoundError(FileNotFoundError):
    """Raised if a data file is found neither on disk nor at its address."""


#: Addresses of the files of each folder, whose names stand for the braces.
ADDRESSES = {
    "criteo": "https://huggingface.co/datasets/criteo/criteo-uplift/resolve/"
    "2424920019e49d52d72c13ac1143ec5d53af276b/{}",
    "social_pressure": "https://dataverse.yale.edu/api/access/datafile/42238",
    "jobs": "https://www.fredjo.com/files/{}",
    "ihdp": "https://raw.githubusercontent.com/AMLab-Amsterdam/CEVAE/"
    "9081f863e24ce21bd34c8d6a41bf0edc7d1b65dd/datasets/IHDP/csv/{}",
}
# Names of a file on disk, the one at the address first. The archive of the mailings also offers the
# same rows as CSV with labels in place of codes; both can be read.
CRITEO = (
    "criteo-research-uplift-v2.1.csv.gz",
    "criteo-uplift-v2.1.csv.gz",
    "criteo-research-uplift-v2.1.csv",
    "criteo-uplift-v2.1.csv",
)
SOCIAL_PRESSURE = (
    "GerberGreenLarimer_APSR_2008_social_pressure.tab",
    "GerberGreenLarimer_APSR_2008_social_pressure.csv",
    "GerberGreenLarimer_APSR_2008_social_pressure.csv.gz",
    "social_pressure.csv.gz",
    "social_pressure.csv",
)
#: sha256 of the files at the addresses. None is known for the training part of the ten splits of
#: jobs, of which only the contents can be checked.
CHECKSUMS = {
    "criteo-research-uplift-v2.1.csv.gz": (
        "2716e1bf0fd157a93b5bf86924d9088419dfbac2022c6cd90030220634f616dc"
    ),
    "GerberGreenLarimer_APSR_2008_social_pressure.tab": (
        "05807bcbedaacf02ec6e6838e1b9c9b2fc99ad9d8c63f80c162991970044c6ce"
    ),
    "jobs_DW_bin.train.npz": "5423b107625a72e956618a2b5c119f2ee0f3c4cee4b68e156d8fb215fece80bd",
    "jobs_DW_bin.test.npz": "613797660e3ca2d2d81267a6776ae754d527cd893c7df7a52de5d4f642663af2",
    "jobs_DW_bin.new.10.test.npz": (
        "11c198167ef322af50e48eb9d48857d6a76d8dea5eadfb2d60d4a82a6357e39f"
    ),
    "ihdp_npci_1.csv": "2bdc8b94fdf2f669b1d3d49325fd9359d88418566545003867841312a1653411",
    "ihdp_npci_2.csv": "36db2f3d002250bc95e5214477718c939fbe7dfe8df573c4050d8b246d314042",
    "ihdp_npci_3.csv": "bd792ce0642468195b2c3f0cd4c521378d7d52d044f153e844d151a87e067518",
    "ihdp_npci_4.csv": "ac04602a2f052af1211347bcaff87f7bab356a4a7f42f8c6a81edede51549006",
    "ihdp_npci_5.csv": "8f9b3ef4b66e8f9dd240c9851233f4fb483c73c25b6d23c6459c666edb9cd691",
    "ihdp_npci_6.csv": "e05192794201c8a8fe1e4a88f12d3367d3d6b568eadb46365557661bff00712e",
    "ihdp_npci_7.csv": "246684bfc9e1258e5bdc59c3d1c13c0694a331d1f13026ff79f6c4605e6d3678",
    "ihdp_npci_8.csv": "6e88b890ee4ed6274b8ea4285500dd0865ab71e17010ee505f7e2a2d507c4511",
    "ihdp_npci_9.csv": "fe959d86a37be9278ef195fbf139b2b8af1b8246b3518208cd00b295d906a98f",
    "ihdp_npci_10.csv": "b9bce7e081f245b7689a3c2b5e4ed37162dca8cd596e0998b73ddc0ac92a4919",
}
CRITEO_FEATURES = [f"f{j}" for j in range(12)]
# In the archive's coded file the mailings are numbered in this order.
MAILINGS = ("Control", "Hawthorne", "Civic Duty", "Neighbors", "Self")
PAST_VOTES = ["g2000", "g2002", "p2000", "p2002", "p2004"]


def fetch_criteo(
    outcome: str = "visit",
    *,
    data_dir: Directory = None,
    download: bool = True,
) -> Trial:
    """Criteo-UPLIFT v2.1: 13,979,592 users of an online advertiser, 85% of them shown ads.

    Parameters
    ----------
    outcome : {"visit", "conversion"}, default "visit"
    data_dir : path, optional
        Where to look first, in this folder or in its folder "criteo"; then come the folder named
        by the environment variable AUUCMAX_DATA and the user's cache.
    download : bool, default True
        Download the file (311 MB) if it is not found; otherwise raise DataNotFoundError.

    Returns
    -------
    Trial
        Features f0..f11 as float32 (670 MB). The file's column exposure is left out: whether an ad
        was shown was settled after the treatment.

    Notes
    -----
    Diemert, Betlei, Renaudin, Amini, "A large scale benchmark for uplift modeling", AdKDD 2018.
    Licence of the data: CC BY-NC-SA 4.0.
    """
    check_choice(outcome, "outcome", ("visit", "conversion"))
    dtypes = dict.fromkeys(CRITEO_FEATURES, np.float32) | {"treatment": np.int8, outcome: np.int8}
    expected = f"columns {listed(dtypes, 14)}"
    with _data_file("criteo", CRITEO, expected, data_dir, download) as path:
        table = pd.read_csv(path, usecols=list(dtypes), dtype=dtypes)
    # Taking the two columns out, rather than selecting the rest, copies no feature.
    treatment, y = table.pop("treatment").to_numpy(), table.pop(outcome).to_numpy()
    return Trial(
        X=table,
        y=y,
        treatment=treatment,
        name="Criteo-UPLIFT v2.1",
        outcome_name=outcome,
    )


def fetch_social_pressure(
    arm: str = "neighbors", *, data_dir: Directory = None, download: bool = True
) -> Trial:
    """Gerber, Green and Larimer's get-out-the-vote mailings: 344,084 voters, August 2006.

    Parameters
    ----------
    arm : {"neighbors", "self", "hawthorne", "civic", "all"}, default "neighbors"
        Which mailing against none; "all" keeps the five labels ("Control" is the control).
    data_dir, download
        As in :func:`fetch_criteo`; the folder is "social_pressure", the file 20 MB.

    Returns
    -------
    Trial
        Outcome: voted in the primary of August 2006. Features, float64: sex (1 is female), yob
        (year of birth), g2000, g2002, p2000, p2002, p2004 (voted in that general or primary
        election) and hh_size (voters in the household). g2004 is left out, for everybody voted
        then. ``id`` is the household, if the file has it.

    Notes
    -----
    Households were randomised, not voters, so intervals that treat rows as independent are a
    little narrow. Before ``check_randomisation`` say so: ``replace(trial, groups=trial.id)``.
    "Social pressure and voter turnout", American Political Science Review, 2008; ISPS Data
    Archive, Yale, doi:10.60600/YU/CGMWNW, CC0 1.0.
    """
    check_choice(arm, "arm", ("neighbors", "self", "hawthorne", "civic", "all"))
    columns = ["sex", "yob", *PAST_VOTES, "hh_size"]
    expected = f"columns {listed([*columns, 'treatment', 'voted'], 10)}"
    with _data_file("social_pressure", SOCIAL_PRESSURE, expected, data_dir, download) as path:
        table = pd.read_csv(path, sep="\t" if path.suffix == ".tab" else ",")
        levels: dict[str, Sequence[str]] = {"sex": ("male", "female"), "treatment": MAILINGS}
        levels |= dict.fromkeys([*PAST_VOTES, "voted"], ("no", "yes"))
        table = table.assign(**{name: _recode(table[name], own) for name, own in levels.items()})
        X, y = table[columns].astype(np.float64), table["voted"].to_numpy()
    trial = Trial(
        X=X,
        y=y,
        treatment=np.array(MAILINGS)[table["treatment"]],
        control="Control",
        id=table["hh_id"].to_numpy() if "hh_id" in table else None,
        name="Social pressure",
        outcome_name="voted",
    )
    if arm == "all":
        return trial
    return trial.select_arm("Civic Duty" if arm == "civic" else arm.title())


def fetch_jobs(
    split: int | None = None,
    part: str = "all",
    *,
    data_dir: Directory = None,
    download: bool = True,
) -> Trial:
    """LaLonde's job training with PSID controls, as prepared by Shalit et al. (2017): 3,212 people.

    Parameters
    ----------
    split : int, optional
        One of the ten published splits, 0 to 9 (2,570 training and 642 test rows). None is the
        older single split (2,891 and 321 rows).
    part : {"all", "train", "test"}, default "all"
    data_dir, download
        As in :func:`fetch_criteo`; the folder is "jobs". For the training part of the ten splits a
        file jobs_train10_rebuilt.npz (the same rows in another order) serves as well.

    Returns
    -------
    Trial
        Outcome: employed afterwards. 17 features, x0..x16, the continuous ones standardised.
        ``randomised`` marks the 722 rows of the experiment proper; treatment and outcome can be
        compared, and policy risk read, on those only.
    """
    check_choice(part, "part", ("all", "train", "test"))
    split = None if split is None else check_whole(split, "split", 0, 9)
    n_splits, k, prefix = (1, 0, "") if split is None else (10, split, "new.10.")
    expected = f"arrays x (rows, 17, {n_splits}) and t, yf, e (rows, {n_splits})"
    loaded = []
    for own in ("train", "test") if part == "all" else (part,):
        names = [f"jobs_DW_bin.{prefix}{own}.npz"]
        if prefix and own == "train":
            names.append("jobs_train10_rebuilt.npz")
        with (
            _data_file("jobs", names, expected, data_dir, download) as path,
            np.load(path, allow_pickle=False) as arrays,
        ):
            loaded.append([arrays[key][..., k] for key in ("x", "t", "yf", "e")])
    x, t, y, e = map(np.concatenate, zip(*loaded, strict=True))
    chosen = "single split" if split is None else f"split {split}"
    return Trial(
        X=x,
        y=y,
        treatment=t,
        randomised=e,
        name=f"Jobs, {chosen}, {part}",
        outcome_name="employed",
        treatment_name="training",
    )


def fetch_ihdp(replication: int = 1, *, data_dir: Directory = None, download: bool = True) -> Trial:
    """The Infant Health and Development Program with simulated outcomes (Hill 2011): 747 children.

    Parameters
    ----------
    replication : int, default 1
        One of the ten published simulations, 1 to 10.
    data_dir, download
        As in :func:`fetch_criteo`; the folder is "ihdp".

    Returns
    -------
    Trial
        Features x1..x25. ``effect`` is the true effect of each row, mu1 - mu0. The treated are not
        a random part: some were removed to unbalance the arms.
    """
    replication = check_whole(replication, "replication", 1, 10)
    names = [f"ihdp_npci_{replication}.csv"]
    expected = "30 columns of numbers (t, yf, ycf, mu0, mu1, x1..x25) and no header"
    with _data_file("ihdp", names, expected, data_dir, download) as path:
        table = pd.read_csv(path, header=None, dtype=np.float64)
        table.columns = ["t", "yf", "ycf", "mu0", "mu1", *(f"x{j}" for j in range(1, 26))]
    return Trial(
        X=table.iloc[:, 5:],
        y=table["yf"].to_numpy(),
        treatment=table["t"].to_numpy(),
        effect=(table["mu1"] - table["mu0"]).to_numpy(),
        name=f"IHDP {replication}",
    )


def _recode(column: pd.Series, levels: Sequence[str]) -> NDArray[np.intp]:
    """Positions of the values among the levels, as which they may also be numbered."""
    if not pd.api.types.is_numeric_dtype(column):
        places = {level.lower(): k for k, level in enumerate(levels)}
        column = column.str.strip().str.lower().map(places)
    return column.to_numpy(dtype=np.intp)


@contextmanager
def _data_file(
    folder: str, names: Sequence[str], expected: str, data_dir: Directory, download: bool
) -> Iterator[Path]:
    """Context manager: the path of a file; an error while it is read names what it should have."""
    path = _locate(folder, names, data_dir, download)
    try:
        yield path
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} should have {expected}; reading it gave: {error}. "
            f"Delete the file and fetch it again."
        ) from error


def _locate(folder: str, names: Sequence[str], data_dir: Directory, download: bool) -> Path:
    """Find the file on disk, or download it to the first place."""
    given = (data_dir, os.environ.get(ENVIRONMENT), user_cache_dir("auucmax", appauthor=False))
    places = [Path(place).expanduser() for place in given if place]
    for place in places:
        for name in names:
            for path in (place / folder / name, place / name):
                if path.is_file():
                    return path
    path = places[0] / folder / names[0]
    url = ADDRESSES[folder].format(path.name)
    why, cause = "it was not to be downloaded", None
    if download:
        import pooch

        # The uncompressed file: a server that compresses it would send other bytes.
        headers = {"User-Agent": "auucmax", "Accept-Encoding": "identity"}
        downloader = pooch.HTTPDownloader(
            progressbar=sys.stderr.isatty(), timeout=SILENCE, headers=headers
        )
        checksum = CHECKSUMS.get(path.name)
        keeper = pooch.create(
            path.parent, base_url="", registry={path.name: checksum}, urls={path.name: url},
            retry_if_failed=RETRIES,
        )  # fmt: skip
        try:  # a file with another checksum is a ValueError, and is not kept
            return Path(keeper.fetch(path.name, downloader=downloader))
        except OSError as error:  # those of the network are among them
            why, cause = f"the download failed ({' '.join(str(error).split())})", error
    raise DataNotFoundError(
        f"{path.name} should be in one of {listed(map(str, places))}, or in their folder "
        f"{folder!r}, but is not; {why.rstrip('.')}. Put it at {path}, or set {ENVIRONMENT} "
        f"to the folder that holds it. It comes from {url}."
    ) from cause


CONTROL = "No E-Mail"
ARMS = {"womens": "Womens E-Mail", "mens": "Mens E-Mail"}
OUTCOMES = ("visit", "conversion", "spend")
RAW = ["recency", "history_segment", "history", "mens", "womens", "zip_code", "newbie", "channel"]
NUMBERS = ("recency", "history", "mens", "womens", "newbie")


def load_hillstrom(
    arm: str = "womens", outcome: str = "visit", encoding: str | int = "22"
) -> Trial:
    """Load Kevin Hillstrom's e-mail trial of 2008: 64,000 customers, three arms.

    Parameters
    ----------
    arm : {"womens", "mens", "any", "all"}, default "womens"
        Which e-mail against none. "any" takes both e-mails as one treatment, "all" keeps the three
        labels ("No E-Mail" is the control).
    outcome : {"visit", "conversion", "spend"}, default "visit"
        Within two weeks: a visit to the site, a purchase, dollars spent.
    encoding : {"22", "18", "raw"}, default "22"
        "22": recency_1..recency_12, zip_Rural, zip_Surburban (as the file spells it), zip_Urban,
        channel_Multichannel, channel_Phone, channel_Web, history, mens, womens, newbie.
        "18": recency, history, mens, womens, newbie, history_segment_1..history_segment_7, and the
        same zip and channel columns. Both are float64 and not scaled (history is in dollars).
        "raw": the eight columns of the file, text as pandas categories.

    Returns
    -------
    Trial

    Examples
    --------
    >>> from auucmax.data.fetch import load_hillstrom
    >>> load_hillstrom()
    Hillstrom, Womens E-Mail: 42,693 rows, 22 features; outcome: visit; treatment: segment.
      No E-Mail                21,306 rows (49.9%), mean 10.62 per 100 people
      Womens E-Mail            21,387 rows (50.1%), mean 15.14 per 100 people
      Effect of Womens E-Mail  +4.5 visits per 100 people (3.9 to 5.2), p < 0.0001
    """
    check_choice(arm, "arm", (*ARMS, "any", "all"))
    check_choice(outcome, "outcome", OUTCOMES)
    check_choice(str(encoding), "encoding", ("22", "18", "raw"))
    table = _table().copy()  # the caller may edit a trial, and the table is kept for the next call
    title = "three arms" if arm == "all" else ARMS.get(arm, "any e-mail")
    if arm in ARMS:
        table = table[table["segment"].isin((CONTROL, ARMS[arm]))].reset_index(drop=True)
    segment = table["segment"].to_numpy(copy=True)
    if arm == "any":
        segment[segment != CONTROL] = "Any E-Mail"
    return Trial(
        X=_features(table, str(encoding)),
        y=table[outcome].to_numpy(dtype=np.float64, copy=True),
        treatment=segment,
        control=CONTROL,
        name=f"Hillstrom, {title}",
        outcome_name=outcome,
        treatment_name="segment",
    )


@cache
def _table() -> pd.DataFrame:
    packed = files("auucmax.data") / "files" / "hillstrom.csv.gz"
    with packed.open("rb") as file:
        return pd.read_csv(file, compression="gzip", dtype={"segment": object})


def _features(table: pd.DataFrame, encoding: str) -> pd.DataFrame:
    if encoding == "raw":
        text = ["history_segment", "zip_code", "channel"]
        return table[RAW].astype(dict.fromkeys(text, "category"))
    # "3) $200 - $350" is segment 3: the number alone makes a name that every library accepts.
    table = table.assign(history_segment=table["history_segment"].str[0])
    first = "recency" if encoding == "22" else "history_segment"
    coded = {first: first, "zip_code": "zip", "channel": "channel"}
    numbers = [name for name in NUMBERS if name != first]
    found = pd.get_dummies(table[[*numbers, *coded]], prefix=coded, columns=list(coded))
    found = found.astype(np.float64)
    return found if encoding == "18" else found[[*found.columns.drop(numbers), *numbers]]
