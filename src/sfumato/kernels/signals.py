"""Let signals, such as Ctrl-C, reach compiled functions that run for long.

Python runs its signal handlers between two of its own instructions, so not while a compiled
function runs. A function whose work one row can make long counts its steps and hands the count to
`after_signals`: now and then that lets Python handle the signals that have come. What a handler
raises, a KeyboardInterrupt for example, then leaves the compiled function like any other exception.
What the function was changing is left half done: its owner must not be used any more.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

STEPS_PER_LOOK = 1 << 25  # between two looks at the signals: some 10 ms


@intrinsic
def _handle_signals(typingctx):
    """Run the handlers of signals that have come; return to the caller with what they raise."""

    def code(context, builder, signature, arguments):
        api = context.get_python_api(builder)
        lock = api.gil_ensure()  # compiled functions run without Python's lock
        kind = ir.FunctionType(ir.IntType(32), [])
        check = cgutils.get_or_insert_function(builder.module, kind, "PyErr_CheckSignals")
        raised = builder.call(check, [])
        api.gil_release(lock)
        with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, raised)):
            context.call_conv.return_exc(builder)
        return context.get_dummy_value()

    return types.void(), code


def after_signals(steps):
    """Return `steps`, or handle the signals that have come and return 0 if these are many.

    steps : int64, done since the last look at the signals, one for each addition or comparison
    Raises what a signal's handler raises.
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
