"""The paper's experiments: on small cuts, and on MNIST where it is at hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

import sketchridge.cli
from sketchridge.data import MissingData, load
from sketchridge.data.paper import PaperCurves, paper_curves, paper_ratio
from sketchridge.experiments import (
    EXACT_SIDE,
    PAPER_PROBLEMS,
    Alternative,
    Curve,
    Setting,
    find_minimum,
    load_problem,
    measure_ratio,
    run,
)
from sketchridge.paper_comparison import checks, compare, explain, fit
from sketchridge.reproduce import read_results, reproduce, save_results, write
from tests.test_cli import run as run_command

GAINS = {  # as printed
    "synthetic-linear": 4.66,
    "synthetic-quadratic": 110,
    "mnist": 3.50,
    "cifar10": 16.0,
    "rcv1": 1.58,
    "real-sim": 2.55,
}


@pytest.fixture(scope="module")
def quick():
    """A quick run on both synthetic problems, and what it told."""
    told = []
    names = ["synthetic-linear", "synthetic-quadratic"]
    return reproduce(names, folder="/nowhere", quick=True, tell=told.append), told


@pytest.fixture(scope="module")
def mnist():
    try:
        return load("mnist")
    except MissingData as missing:
        pytest.skip(str(missing))


# -- the paper's numbers -------------------------------------------------------------------------


def test_the_papers_gains_are_those_that_it_printed():
    for name, gain in GAINS.items():
        assert paper_curves(name).gain == pytest.approx(gain, rel=5e-3)


def test_the_papers_ratios_are_there_where_it_printed_numbers():
    assert paper_ratio("mnist") is None
    for name in ("rcv1", "real-sim"):
        ratio = paper_ratio(name)
        assert ratio.size == 300 and ratio[0] == 1.0 and np.all(np.diff(ratio) > 0)


# -- a quick run ---------------------------------------------------------------------------------


def test_a_quick_run_has_everything_and_the_sketch_gains(quick):
    found, told = quick
    assert [row.outcome.name for row in found.rows] == ["synthetic-linear", "synthetic-quadratic"]
    for row in found.rows:
        outcome = row.outcome
        assert outcome.cut and not outcome.stands_in
        assert row.gain > 1
        assert row.svrg.epochs == row.scsvrg.epochs == 5
        assert outcome.minimum_gap <= 1e-9 * outcome.minimum
        assert outcome.ratio.error < 0.01
        assert all(curve.passes[-1] <= row.scsvrg.passes[-1] for curve in outcome.bolder)
        assert {curve.setting.solver for curve in outcome.relatives} == {"accelerated_svrg", "saga"}
    assert any("F* =" in line for line in told)
    assert checks(found.rows) == []  # a cut problem promises nothing of the paper


def test_the_sketch_counts_in_the_passes(quick):
    found, _ = quick
    row = found.rows[1]
    sketched, plain = row.scsvrg, row.svrg
    assert sketched.passes[0] >= plain.passes[0] + 4  # three blocks, their image, the coordinates
    assert np.allclose(np.diff(sketched.passes), 2)  # a gradient and n steps


def test_the_page_is_written_with_its_pictures_and_can_be_drawn_again(quick, tmp_path):
    found, _ = quick
    page = write(replace(found, skipped=("RCV1 is not at hand",)), tmp_path)
    text = page.read_text()
    for picture in tmp_path.glob("figures/*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert f"(figures/{picture.name})" in text
    assert text.count("![") == 5
    assert "quick rehearsal" in text and "Skipped: RCV1 is not at hand." in text
    again = read_results(tmp_path)
    for before, after in zip(found.rows, again.rows, strict=True):
        assert after.gain == pytest.approx(before.gain, rel=1e-4)
        assert after.svrg.setting == before.svrg.setting
        assert after.fit.offset == pytest.approx(before.fit.offset, rel=1e-4, abs=1e-12)


def test_an_interrupted_run_is_gone_on_with(quick, tmp_path):
    found, _ = quick
    save_results(replace(found, outcomes=found.outcomes[1:], seconds=1000.0), tmp_path)
    told, kept = [], []
    names = ["synthetic-linear", "synthetic-quadratic"]
    again = reproduce(
        names, quick=True, tell=told.append, earlier=read_results(tmp_path), keep=kept.append
    )
    assert [outcome.name for outcome in again.outcomes] == names
    assert sum(line.startswith("  F* =") for line in told) == 1 and len(kept) == 1
    assert again.seconds > 1000
    # What was cut is no part of a full run.
    with pytest.raises(MissingData):
        reproduce(["mnist"], tmp_path, earlier=replace(found, outcomes=()))


def test_results_that_are_missing_or_broken_are_a_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"holds no results .* run sketchridge reproduce"):
        read_results(tmp_path)
    (tmp_path / "reproduction.json").write_text("{}")
    with pytest.raises(ValueError, match="holds no results"):
        read_results(tmp_path)


def test_what_is_missing_is_skipped_with_a_sentence(tmp_path):
    told = []
    found = reproduce(["synthetic-quadratic", "rcv1"], tmp_path, quick=True, tell=told.append)
    assert len(found.outcomes) == 1
    assert found.skipped[0].startswith("RCV1 is not at hand: put rcv1_train.binary.bz2")
    assert any(line.startswith("skipped: RCV1") for line in told)
    with pytest.raises(MissingData, match="nothing to run: RCV1 is not at hand"):
        reproduce(["rcv1"], tmp_path, quick=True)
    with pytest.raises(ValueError, match="'mnist2' is no problem of the paper: choose synthetic-"):
        reproduce(["mnist2"], tmp_path)


def test_the_command_writes_the_page_and_speaks_json(tmp_path):
    out, report = tmp_path / "new" / "folder", tmp_path / "page.html"
    arguments = ("reproduce", "synthetic-quadratic", "--quick", "--out", out, "--report", report)
    result = run_command(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["outcomes"][0]["name"] == "synthetic-quadratic"
    assert (out / "reproduction.md").exists()
    assert report.read_text().count("<svg") == 5
    for wrong in (("mnist3",), ("--redraw",)):
        result = run_command("reproduce", *wrong, "--out", tmp_path)
        assert result.returncode == 1 and result.stderr.startswith("error: ")
    numbers = (out / "reproduction.json").read_bytes()
    result = run_command("reproduce", "--quick", "--out", out)
    assert result.returncode == 1 and "--force" in result.stderr
    assert (out / "reproduction.json").read_bytes() == numbers


# -- the comparison ------------------------------------------------------------------------------


def curve(values, step=1.0, rank=0, **choices):
    count = len(values)
    setting = Setting(rank=rank, step=step, **choices)
    return Curve(setting, tuple(values), tuple(range(count)), tuple(range(count)), "stopped")


def with_curves(outcome, svrg, scsvrg, **changes):
    return replace(outcome, svrg=tuple(svrg), scsvrg=tuple(scsvrg), **changes)


def test_the_fit_finds_the_offset_and_the_steps(quick):
    """Of curves that are the paper's plus a number, and others that are not."""
    epochs = np.arange(21.0)
    truth = {"svrg": 1e-2 / (1 + epochs), "scsvrg": 1e-2 / (1 + epochs) ** 2}
    printed = PaperCurves(truth["svrg"][1:], truth["scsvrg"][1:])
    offset = 8e-6
    outcome = with_curves(
        quick[0].outcomes[0],
        [curve(3 * truth["svrg"], 0.5), curve(truth["svrg"] + offset, 1.0)],
        [curve(truth["scsvrg"] + offset, 1.4, 30), curve(2 * truth["scsvrg"], 2.0, 30)],
    )
    found = fit(outcome, printed)
    assert found.offset == pytest.approx(offset, rel=0.02)
    assert (found.svrg.setting.step, found.scsvrg.setting.step) == (1.0, 1.4)
    assert found.spread == pytest.approx(1, abs=0.01)


def test_the_fit_does_not_excuse_another_curve(quick):
    epochs = np.arange(21.0)
    printed = PaperCurves(1e-2 * 0.9 ** epochs[1:], 1e-2 * 0.8 ** epochs[1:])
    outcome = with_curves(
        quick[0].outcomes[0],
        [curve(5e-2 * 0.9**epochs)],
        [curve(5e-2 * 0.8**epochs)],
    )
    assert fit(outcome, printed).spread > 2


def test_a_broken_promise_is_told(quick):
    outcome = quick[0].outcomes[0]
    length = paper_curves("mnist").svrg.size + 1
    slow = [curve(np.full(length, 1.0))]
    broken = with_curves(outcome, slow, slow, name="mnist", data="mnist", cut=False)
    ratio = replace(outcome.ratio, exact=tuple(2 * np.array(outcome.ratio.sketched)))
    kept = [check.kept for check in checks([compare(replace(broken, ratio=ratio, bolder=()))])]
    assert kept == [False, False]
    bolder = (curve(paper_curves("mnist").scsvrg[-1:] / 2),)
    kept = [check.kept for check in checks([compare(replace(broken, bolder=bolder))])]
    assert kept == [True, False, True]


def test_a_reading_that_is_the_papers_explains_it_and_another_does_not(quick):
    printed = paper_curves("mnist").svrg
    start = np.concatenate([[0.5], printed])
    bent = 0.1 * start[0] * 0.5 ** np.arange(start.size)
    outcome = with_curves(
        quick[0].outcomes[0],
        [curve(bent, 0.5), curve(1.2 * bent, 1.0)],
        [],
        name="mnist",
        alternatives=(Alternative("m = 2n", "svrg", (curve(bent), curve(start + 2e-4, 0.7))),),
    )
    ours, other = explain(outcome)
    assert (ours.choice, other.choice) == ("as in the runs above", "m = 2n")
    assert other.step == 0.7
    assert other.offset == pytest.approx(2e-4, rel=0.02)
    assert other.spread == pytest.approx(1, abs=0.02)
    assert ours.spread > 2


# -- real data -----------------------------------------------------------------------------------


def test_a_stand_in_is_named(tmp_path):
    try:
        load("rcv1-subsets")
    except MissingData as missing:
        pytest.skip(str(missing))
    try:
        load("rcv1")
    except MissingData:
        dataset = load_problem("rcv1", None, quick=True)
        assert dataset.name == "rcv1-subsets"
        assert dataset.X.shape[0] == 1000


def test_every_problem_of_the_paper_has_curves_and_a_place():
    assert set(PAPER_PROBLEMS) == set(GAINS)


def test_on_mnist_the_sketch_gives_the_exact_ratios(mnist):
    assert min(mnist.X.shape) <= EXACT_SIDE
    ratio = measure_ratio(mnist.X, 60)
    assert len(ratio.sketched) == 60
    assert ratio.error < 0.01
    assert np.all(np.array(ratio.low) <= np.array(ratio.exact) * (1 + 1e-9))
    assert np.all(np.array(ratio.exact) <= np.array(ratio.high) * (1 + 1e-9))


def test_on_mnist_our_curves_follow_the_papers(mnist, quick):
    """m = n, averages, η = 1/β̂ for both methods, and one number for the paper's F*."""
    minimum = find_minimum(mnist.X, mnist.y)
    printed = paper_curves("mnist")
    curves = [
        run(mnist, Setting(rank=rank, step=1.0), minimum, epochs=printed.svrg.size)
        for rank in (0, 30)
    ]
    outcome = with_curves(quick[0].outcomes[0], curves[:1], curves[1:])
    found = fit(outcome, printed)
    assert found.spread < 1.25
    assert 2e-5 < found.offset < 2e-4


def test_an_interrupted_command_tells_how_to_go_on(quick, tmp_path, monkeypatch, capsys):
    found, _ = quick
    outcomes = iter(found.outcomes[:1])

    def investigate(*arguments):
        try:
            return next(outcomes)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("sketchridge.reproduce.investigate", investigate)
    names = [outcome.name for outcome in found.outcomes[:2]]
    arguments = ["sketchridge", "reproduce", *names, "--quick", "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        sketchridge.cli.main()
    errors = capsys.readouterr().err
    assert ended.value.code == 130 and "--resume" in errors and "nothing" not in errors
    assert len(read_results(tmp_path / "out").outcomes) == 1
