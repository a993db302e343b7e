"""Python files: the program of all models, and a model in it that cannot become code."""

import ast
import csv
import inspect
import io
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.cases import (
    HOSTILE_LEVELS,
    HOSTILE_NAMES,
    check_arms,
    example,
    fit_encoder,
    fitted_ensemble,
    two_arms,
)
from tests.export.test_numpy_scorer import check, names_of

from auucmax.estimators.formula import Formula, FormulaError, Part
from auucmax.export import arms_to_python, numpy_scorer, to_python


@pytest.mark.parametrize("bent", [False, True])
def test_a_table_with_everything(bent):
    check(example(bent))


def columns_of(frame):
    """Columns as lists of plain values."""
    plain = frame.astype(object).where(frame.notna(), None)
    return {name: plain[name].tolist() for name in frame}


@pytest.mark.gate
def test_a_fitted_ensemble():
    frame, encoder, model, expected = fitted_ensemble()
    scores = names_of(to_python(encoder, model))["scores"]
    for table in (columns_of(frame), frame):
        found = scores(table)
        assert list(found) == ["score"]
        np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-9)


def test_arms_of_ensembles():
    frame, encoder, model, score = fitted_ensemble()
    arms, uplift = two_arms(encoder, model, score)
    found = names_of(arms_to_python(arms, control="none"))["scores"](frame)
    assert list(found) == ["uplift it's", "uplift b", "arm"]
    check_arms(zip(range(len(score)), *found.values(), strict=True), uplift)


def is_program(text):
    """Whether a file is the program with nothing but one text in it, which is JSON."""
    assert text.isascii()
    own, program = ast.parse(text), ast.parse(inspect.getsource(numpy_scorer))
    (place,) = [k for k, step in enumerate(program.body) if "MODEL" in ast.unparse(step)[:5]]
    (literal,) = own.body[place].value.args
    assert isinstance(literal, ast.Constant)
    json.loads(literal.value)
    own.body[place].value.args = program.body[place].value.args
    return ast.dump(own) == ast.dump(program)


def hostile(name, level):
    encoder = fit_encoder({name: "category"}, {name: [level, "other"] * 2})
    return encoder, Formula((Part(1.0, "identity", 0.0, np.array([1.0, 1.0])),))


CODE = (
    '"""\nimport os\n"""', "'''", "\\", "\\'", "')\nraise SystemExit #", "{}", 'json.loads("{}")',
    "\0", "\r", "\u2028", "\x0c", "# -*- coding: utf-7 -*-", "😀", "%s", "{0}", "\\N{DIGIT ONE}",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(HOSTILE_NAMES + CODE) | st.text(min_size=1, max_size=8),
    level=st.sampled_from(HOSTILE_LEVELS + CODE) | st.text(max_size=8),
)
def test_texts_of_a_trial_stay_texts(name, level):
    if level == "other":
        level = "another"
    encoder, formula = hostile(name, level)
    terms = [term.level for term in encoder.terms_]
    formula = Formula((Part(1.0, "identity", 0.0, np.arange(1.0, 1 + len(terms))),))
    text = to_python(encoder, formula, keep=[name, *CODE])
    assert is_program(text)
    if level in terms:  # none of those that stand for no value
        found = names_of(text)["scores"]({name: [level]})
        assert found["score"].tolist() == [1.0 + terms.index(level)]


def test_labels_of_arms_stay_texts():
    frame, encoder, model, score = fitted_ensemble()
    arms, _ = two_arms(encoder, model, score)
    bad = [arm._replace(label=f"{text}{arm.label}") for arm, text in zip(arms, CODE, strict=False)]
    text = arms_to_python(bad, control=CODE[4])
    assert is_program(text)
    found = names_of(text)["scores"](frame[:50])
    assert set(found["arm"]) <= {CODE[4], *(arm.label for arm in bad)}


def test_what_is_kept_is_not_what_is_added():
    encoder, formula = hostile("town", "Oslo")
    with pytest.raises(ValueError, match="different names, got 'score' twice"):
        to_python(encoder, formula, keep=["score"])
    with pytest.raises(FormulaError, match="got str"):
        to_python(encoder, "a model")


IMPORTED = """
import json, sys, time
import numpy, csv, concurrent.futures.thread, decimal
before = time.process_time()
import scores
print(json.dumps([time.process_time() - before, sorted(sys.modules)]))
"""


def test_it_imports_numpy_alone_and_at_once(tmp_path):
    _, encoder, model, _ = fitted_ensemble()
    (tmp_path / "scores.py").write_text(to_python(encoder, model))
    line = [sys.executable, "-c", IMPORTED]
    shown = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    seconds, modules = json.loads(shown.stdout)
    print(f"importing the file takes {seconds:.3f} s of computing, numpy's own left out")
    assert seconds < 0.3
    tops = {name.partition(".")[0] for name in modules}
    strangers = {name for name in tops if not name.startswith("_")} - sys.stdlib_module_names
    # What a virtual environment itself imports at every start begins with two underscores.
    assert strangers <= {"numpy", "scores"} | strangers_of_every_start(tmp_path)


def strangers_of_every_start(folder):
    """Modules that Python imports by itself here, as editable installations make it do."""
    line = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    found = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in found.split()}


def test_a_csv_file_is_scored(tmp_path, capsys):
    frame, encoder, model, expected = fitted_ensemble()
    text = to_python(encoder, model, keep=["id", "town", "not there"])
    (tmp_path / "scores.py").write_text(text)
    people = frame.assign(id=[f"p{k}" for k in range(len(frame))])
    printed = []
    for separator in (",", ";", "\t"):
        people.to_csv(tmp_path / "people.csv", index=False, sep=separator)
        assert names_of(text)["main"]([str(tmp_path / "people.csv")]) == 0
        printed.append(capsys.readouterr().out)
    line = [sys.executable, "scores.py", "people.csv"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(printed) == {done.stdout}
    names, *rows = csv.reader(io.StringIO(done.stdout))
    assert names == ["id", "town", "score"]
    assert [row[0] for row in rows] == people["id"].tolist()
    np.testing.assert_allclose([float(row[-1]) for row in rows], expected, rtol=0, atol=1e-9)


def test_rows_of_a_csv_file_are_read_some_at_a_time(tmp_path, capsys):
    encoder, formula = hostile("town", "Oslo")
    names = names_of(to_python(encoder, formula, keep=["id"]))
    names["BATCH"] = 2
    (tmp_path / "people.csv").write_text("id,town\n1,Oslo\n2,Rome\n3,Oslo\n")
    assert names["main"]([str(tmp_path / "people.csv")]) == 0
    assert capsys.readouterr().out == "id,score\n1,1.0\n2,0.0\n3,1.0\n"


def test_texts_that_are_no_level_are_counted(tmp_path, capsys):
    encoder, formula = hostile("town", "Oslo")
    names, people = names_of(to_python(encoder, formula)), tmp_path / "people.csv"
    names["BATCH"] = 2
    people.write_text("town\nOslo\nBergen\n\nRome\x1b\nBergen\nother\nNA\n")
    assert names["main"]([str(people)]) == 0
    shown = capsys.readouterr()
    assert shown.out == "score\n1.0\n0.0\n0.0\n0.0\n1.0\n0.0\n"
    assert shown.err == (
        f"{people}: 3 values of column 'town' are no level of the model, such as 'Bergen', and "
        f"count as other texts do.\n"
    )


@pytest.mark.parametrize("is_terminal", [False, True])
def test_texts_of_a_csv_file_steer_no_terminal(tmp_path, capsys, monkeypatch, is_terminal):
    """Another program gets them as they are."""
    encoder, formula = hostile("town", "Oslo")
    main = names_of(to_python(encoder, formula, keep=["a\x1b[2J"]))["main"]
    (tmp_path / "people.csv").write_text("a\x1b[2J,town\n\x1b[31mred\x9b,Oslo\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert main([str(tmp_path / "people.csv")]) == 0
    found = "a\x1b[2J,score\n\x1b[31mred\x9b,1.0\n"
    told = found.replace("\x1b", "\ufffd").replace("\x9b", "\ufffd") if is_terminal else found
    assert capsys.readouterr().out == told
    main([str(tmp_path / "\x1b[2Jnobody.csv")])
    assert "\x1b" not in capsys.readouterr().err


def test_a_csv_file_that_cannot_be_scored(tmp_path, capsys):
    encoder, formula = hostile("town", "Oslo")
    main, people = names_of(to_python(encoder, formula))["main"], tmp_path / "people.csv"

    def shown(*arguments):
        code = main(arguments or [str(people)])
        return (code, *capsys.readouterr())

    for text, message in (
        ("a,b\n1,2\n", "got none named 'town'"),
        ("town,town\nx,y\n", "different names"),
        ("town,b\nOslo,1\nRome\n", "as many fields as the header"),
        ("", "got none named 'town'"),
    ):
        people.write_text(text)
        code, _, errors = shown()
        assert (code, errors.count("\n")) == (2, 1)
        assert message in errors
    code, _, errors = shown("nobody.csv")
    assert (code, errors.count("\n")) == (2, 1)
    assert "nobody.csv: No such file or directory. Check the name" in errors
    assert "Errno" not in errors
    people.write_bytes("town\nTromsø\n".encode("latin-1"))
    code, _, errors = shown()
    assert (code, errors.count("\n")) == (2, 1)
    assert "the file should be text in UTF-8, got another encoding. Save it as UTF-8." in errors
    assert "codec" not in errors
    assert "usage" in shown("one.csv", "two.csv")[2]
    people.write_text("\ufefftown\n")
    assert shown() == (0, "score\n", "")
    people.write_text("town,b\n\nOslo,1\n")
    assert shown() == (0, "score\n1.0\n", "")


@pytest.mark.gate
def test_many_rows_take_little():
    """Computing time of 200,000 rows; a fifth of a million's."""
    frame, encoder, model, expected = fitted_ensemble()
    scores = names_of(to_python(encoder, model))["scores"]
    times = -(-200_000 // len(frame))
    table = {name: own * times for name, own in columns_of(frame).items()}
    before = time.process_time()
    found = scores(table)["score"]
    seconds = time.process_time() - before
    print(f"{len(found):,} rows take {seconds:.2f} s of computing")
    np.testing.assert_allclose(found, np.tile(expected, times), rtol=0, atol=1e-9)
    assert seconds < 10
