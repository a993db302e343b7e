from auucmax.spark.frame import quoted


def test_names_with_backquotes():
    assert quoted("a`b") == "`a``b`"
