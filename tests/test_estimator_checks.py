"""scikit-learn's own checks of an estimator, all of them, without expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from sketchridge import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV


@parametrize_with_checks([Ridge(), RidgeClassifier(), RidgeCV(), RidgeClassifierCV()])
def test_it_is_an_estimator_in_scikit_learns_sense(estimator, check):
    check(estimator)
