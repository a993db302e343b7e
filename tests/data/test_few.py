import numpy as np
import pandas as pd

from auucmax.data.balance import differences
from auucmax.data.covariates import encode


def test_means_about_few_people_are_marked():
    n = 400
    frame = pd.DataFrame(
        {
            "flag": np.arange(n) < 30,  # 30 people, 25 of them in the first arm
            "age": np.arange(n) % 50,
            "town": np.where(np.arange(n) == 7, "Zed", np.where(np.arange(n) % 2, "a", "b")),
            "most": np.where(np.arange(n) < 30, "no", "yes"),
        }
    )
    first = np.isin(np.arange(n), np.r_[0:25, 100:250])
    features, _ = encode(frame)
    few = pd.DataFrame(differences(features, first)).set_index("feature")["few"]
    assert few[few].index.sort_values().tolist() == ["flag", "most=no", "most=yes", "town=Zed"]
    even = (np.arange(n) // 2) % 2 == 1  # the flag is of 15 people of each arm
    assert pd.DataFrame(differences(features, even)).set_index("feature")["few"]["flag"]
