"""The package's names: listed once, loaded on use, the same for type checkers."""

from pathlib import Path

import pytest

import sfumato as sf
from public_names import FRONT_PAGE, MODULES, PUBLIC, doc

NAMES = {
    "sf": """
        alternatives samples between below above circular existence expected stddev quantile
        where prune fuse split_invalid
        reorder split_late
        window_aggregate split_missed resample extent_join Rows Range Session Delta
        similarity_join self_join join_streams neighbours asof_join
        impute Imputation discover_dependencies earlier_values
        top_k Top
        union draw_worlds merge_worlds assume_independent
        sql explain
        chart configure
    """,
    "sf.engine_free": """
        Dependency EarlierValues Imputer PoissonBinomial Punctuator Timetable UncertainWindow
        expected_ranks pk_topk prf prfe pt_k rank_probabilities timetable top_k_probabilities
        top_k_streams u_kranks u_topk
    """,
    "sf.errors": "DriftWarning FewRowsWarning InvalidRowsWarning SqlError",
    "sf.ops": """
        ReplaySource checked counters declared newest_revisions rejected run_to_end settings
        upsert_revisions warm_up watch
    """,
}


@pytest.mark.parametrize("called", MODULES)
def test_a_module_has_exactly_these_names(called):
    names = FRONT_PAGE if called == "sf" else MODULES[called].__all__
    assert sorted(names) == sorted(NAMES[called].split())


def test_no_name_is_in_two_modules():
    assert len(PUBLIC) == sum(len(names.split()) for names in NAMES.values())


@pytest.mark.parametrize(("called", "module"), MODULES.items())
def test_a_public_name_is_one_line_that_type_checkers_read_too(called, module):
    stub = Path(module.__file__).with_suffix(".pyi").read_text()
    lines = [line for line in stub.splitlines() if line.startswith("from")]
    homes = module._NAMES.homes
    assert lines == [f"from {homes[name]} import {name} as {name}" for name in homes]
    assert dir(module) == sorted(homes)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_there_and_says_what_it_is(name):
    assert doc(name)


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(AttributeError, match="similarity_join"):
        sf.similarity  # noqa: B018


def test_names_of_the_modules_below_are_found_on_the_front_page_unlisted():
    assert sf.counters is sf.ops.counters
    assert sf.UncertainWindow is sf.engine_free.UncertainWindow
    assert "counters" not in dir(sf)


def test_a_name_of_another_module_is_told_where_it_is():
    with pytest.raises(AttributeError, match="no attribute `reorder`; `sfumato` has it"):
        sf.ops.reorder  # noqa: B018
