"""Tables for operators over tables, and operators fed with tables in micro-batches."""

from itertools import pairwise

import pyarrow as pa

from sfumato.tables.operator import ROW, TIE


def run(config, rows, cuts=(), restart=True, flush=True):
    """Return the operator and its answers as dicts; `restart` restores it after each batch."""
    operator, answers = config.make(), []
    for begin, end in pairwise([0, *sorted(cuts), rows.num_rows]):
        if end > begin:
            answers += operator.process([(0, rows.slice(begin, end - begin))], 0)
        if restart:
            operator = config.restore(operator.snapshot())
    answers += operator.flush() if flush else []
    return operator, [row for part in answers for row in part.to_pylist()]


def table_of(row, tie=None, **columns):
    """Return rows as operators read them; `row` has the fields that they pass on.

    tie : the rows' numbers, by default from 0
    """
    fields = [each if isinstance(each, pa.Array) else pa.array(each) for each in row.values()]
    struct = pa.StructArray.from_arrays(fields, list(row))
    return pa.table({ROW: struct, **columns, TIE: range(len(struct)) if tie is None else tie})


def with_column(table, name, column):
    """Return the table with other values in a column."""
    column = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    return table.set_column(table.column_names.index(name), name, column)


def waiting_rows(sides):
    """Return the number of rows that wait in two aligned sides."""
    return sum(piece.time.size for side in sides.sides for piece in side.pieces)
