"""Delivery of signals, such as Ctrl-C, to long-running compiled functions.

Python runs signal handlers only between Python instructions. A function with long work per row
counts its steps and passes the count to `after_signals`, which handles pending signals at
intervals. An exception of a handler propagates out of the compiled function. The data that the
function was modifying are then inconsistent, so the object that owns them must not be used again.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

STEPS_PER_LOOK = 1 << 25  # steps between two checks for signals: about 10 ms


@intrinsic
def _handle_signals(typingctx):
    """Run the handlers of pending signals; propagate their exceptions to the caller."""

    def code(context, builder, signature, arguments):
        api = context.get_python_api(builder)
        lock = api.gil_ensure()  # compiled functions run without the GIL
        kind = ir.FunctionType(ir.IntType(32), [])
        check = cgutils.get_or_insert_function(builder.module, kind, "PyErr_CheckSignals")
        raised = builder.call(check, [])
        api.gil_release(lock)
        with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, raised)):
            context.call_conv.return_exc(builder)
        return context.get_dummy_value()

    return types.void(), code


def after_signals(steps):
    """Return `steps`, or handle pending signals and return 0 once STEPS_PER_LOOK is reached.

    steps : int64, additions or comparisons since the last check for signals
    Raises the exception of a signal handler.
    """
    return steps if steps < STEPS_PER_LOOK else 0


@overload(after_signals)
def _after_signals(steps):
    def compiled(steps):
        if steps < STEPS_PER_LOOK:
            return steps
        _handle_signals()
        return steps - steps

    return compiled
