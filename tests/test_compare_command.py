"""`sketchridge compare`, as a user runs it."""

import json

from tests.test_cli import call, houses  # noqa: F401  fixtures

FEW = ("--method", "direct", "--method", "cg+nystrom", "--method", "svrg+lanczos")
HOUSES = ("compare", "houses.csv", "--target", "price", "--intercept", "--lam", "1e-3")


def test_the_table_names_every_method(call, houses):  # noqa: F811
    code, out, err = call(*HOUSES, *FEW)
    assert code == 0
    assert "80 rows × 4 columns" in out
    for label in ("direct", "cg+nystrom", "svrg+lanczos"):
        assert f"{label} " in out and f"running {label}" in err
    assert out.count("converged") == 3


def test_the_usual_methods_run_where_none_is_named(call, houses):  # noqa: F811
    code, out, _ = call(*HOUSES, "--max-passes", "30")
    assert code == 0 and "accelerated_svrg+lanczos" in out and "saga+lanczos" in out


def test_a_refused_pair_is_a_row(call, houses):  # noqa: F811
    code, out, _ = call(*HOUSES, "--method", "svrg+embedding", "--method", "direct")
    assert code == 0 and "does not go with" in out and "converged" in out


def test_where_no_method_ran_it_says_so_and_fails(call, houses, tmp_path):  # noqa: F811
    picture = tmp_path / "picture.png"
    code, out, err = call(*HOUSES, "--method", "svrg+embedding", "--plot", picture)
    assert code == 1 and "does not go with" in out
    assert "not written, for no method ran" in err and not picture.exists()


def test_json_holds_every_row(call, houses, tmp_path):  # noqa: F811
    code, out, err = call(
        *HOUSES, *FEW, "--method", "svrg+embedding", "--json", "--plot", tmp_path / "picture.png"
    )
    document = json.loads(out)
    assert code == 0 and "written" in err and (tmp_path / "picture.png").stat().st_size > 1000
    assert [row["method"] for row in document["methods"]] == [
        "direct",
        "cg+nystrom",
        "svrg+lanczos",
        "svrg+embedding",
    ]
    assert document["methods"][0]["converged"] and document["methods"][3]["passes"] is None
    assert document["lam"] == 1e-3 and document["rows"] == 80


def test_wrong_names_and_files_are_refused_before_the_data_is_read(call, tmp_path):  # noqa: F811
    missing = ("compare", "missing.csv", "--lam", "1")
    code, _, err = call(*missing, "--method", "newton")
    assert code == 1 and "solver='newton' is unknown" in err
    code, _, err = call(*missing, "--plot", tmp_path)
    assert code == 1 and "is a folder" in err
    code, _, err = call("compare", "missing.csv", "--lam", "x")
    assert code == 2 and "is no penalty" in err
