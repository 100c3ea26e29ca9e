"""Validate arguments, and word the errors.

Every function returns the checked value, or raises ``ValueError`` (a number out of its range, or no number at all) or
``TypeError`` (an object of another kind) whose message reads ``argument: expected …, got …; what to do.``
scikit-learn's ``check_scalar`` is not used: it accepts True as 1 and lets NaN through, and its import would add a
second to ``bd.Beta(1, 1)``.
"""

from .groups import check_folds, check_groups, group_index
from .numeric import (
    MOST,
    MOST_PARTS,
    are_classes,
    check_count,
    check_matrix,
    check_number,
    check_numbers,
    check_random_state,
    check_seed,
    drawn_seed,
    is_column,
    plain_matrix,
)
from .objects import (
    check_choice,
    check_flag,
    check_instance,
    check_names,
    check_path,
    extra,
    listed,
    refuse_masked,
    refuse_scalar,
    refuse_surrogates,
    shown,
    stored_index,
    takes_random_state,
    takes_seed,
)
from .table import as_numbers, is_table, one_per_row, open_table, plain_column, plain_frame, table_names, text_names
from .text_columns import LIMITS, cells_shown, spoilt_cells

__all__ = [
    "LIMITS",
    "MOST",
    "MOST_PARTS",
    "are_classes",
    "as_numbers",
    "cells_shown",
    "check_choice",
    "check_count",
    "check_flag",
    "check_folds",
    "check_groups",
    "check_instance",
    "check_matrix",
    "check_names",
    "check_number",
    "check_numbers",
    "check_path",
    "check_random_state",
    "check_seed",
    "drawn_seed",
    "extra",
    "group_index",
    "is_column",
    "is_table",
    "listed",
    "one_per_row",
    "open_table",
    "plain_column",
    "plain_frame",
    "plain_matrix",
    "refuse_masked",
    "refuse_scalar",
    "refuse_surrogates",
    "shown",
    "spoilt_cells",
    "stored_index",
    "table_names",
    "takes_random_state",
    "takes_seed",
    "text_names",
]
