"""Decorators of compiled functions, and the cache of compiled code on disk.

Every compiled function of the library has one of eight decorators:

    compiled        the default; a division by zero raises ZeroDivisionError
    compiled_ieee   a division by zero gives inf or nan, so loops with divisions can use SIMD
    lean            compiled_ieee for small functions called per row, which neither allocate nor
                    return arrays
    lean_inline     lean, inlined into the callers
    lean_fused      lean; a product and a sum may be fused into one instruction with one rounding
    lean_sum        lean; sums may be reordered, and the sign of zero is ignored
    lean_dot        lean; sums of products may be both reordered and fused
    inlined         for functions with one call: compiled as a part of its caller, with its options

All release the GIL. Error bounds in a docstring hold for every rewriting that the
function's decorator permits. Compiled functions must be at module level, because the content of
their file identifies their code.

A kernel is translated into machine code only if Python calls it. Compiled callers link the LLVM
code of a kernel, which is compiled once per type of its arguments, but not stored on disk.

Three conventions keep compilation short. A function that is called in one place is `inlined`,
unless the call has `*` or its caller has other options. LLVM would otherwise optimize its code
twice, as a function and in its caller. (For functions with two calls, inlining takes longer than it
saves.) Copy arrays with `arrays.write_at`, because a slice assignment also compiles its error
message. Sort with the functions of `arrays`, because Numba's sort functions take seconds to
compile.

Numba stores compiled code in a folder whose name is a hash of the sources, versions and settings
(see `compile_store`). An edit or an upgrade changes the folder, so no stale code is read.
"""

import contextlib
import logging
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from numba import config, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from sfumato.kernels import compile_store

# Numba's defaults, fixed here. Numba would otherwise use the settings of the first caller, so a
# `lean` caller could disable allocation and the order of calls could change the rounding.
_DEFAULTS = {
    "nopython": True,
    "nogil": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": True,
    "error_model": "python",
    "fastmath": False,
    "forceinline": False,
}


class CompileCounts(NamedTuple):
    """Names of the kernels compiled and loaded by this process, one per signature, in order."""

    compiled: tuple[str, ...]
    loaded: tuple[str, ...]


_compiled_here: list[str] = []
_loaded_here: list[str] = []


def compile_counts() -> CompileCounts:
    """Return the names of the kernels that this process compiled and loaded."""
    return CompileCounts(tuple(_compiled_here), tuple(_loaded_here))


class _KernelLocator(_CacheLocator):
    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._function, self._py_file = function, file  # Numba names the file in a warning
        self._stamp = compile_store.hash_of(file)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Any:
        return cls(py_func, py_file)

    def ensure_cache_path(self) -> None:
        """Do nothing: the folder already exists."""

    def get_cache_path(self) -> str:
        return str(compile_store.folder())

    def get_source_stamp(self) -> str:
        return self._stamp  # a hash, so it also changes with an edit within the same clock tick

    def get_disambiguator(self) -> str:
        return f"{self._function.__module__}-{self._function.__code__.co_firstlineno}"


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = (_KernelLocator,)

    def reduce(self, cres: Any) -> Any:
        *code, environments = super().reduce(cres)
        return (*code, tuple(map(_without_module, environments)))


def _without_module(environment: Any) -> Any:
    """Copy a called function's environment without its module; compiled code reads no globals.

    Loading the original would import the function's module. `numba.np.arraymath` (for `sum`) alone
    imports SciPy and takes as long as NumPy and pandas together.
    """
    copy = Environment({"__name__": "numba"})
    copy.env_name = environment.env_name
    copy.consts[:] = environment.consts
    return copy


class _KernelCache(FunctionCache):
    """Numba's cache of one function; counts kernels, tolerates damaged files and full disks."""

    _impl_class = _KernelCacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._name = f"{function.__module__}.{function.__qualname__}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if compile_store.folder() is None:
            return None
        try:
            # Numba's own `load_overload` also imports what compilation needs, such as SciPy. These
            # imports take longer than all others. Loaded code needs only the allocator.
            rtsys.initialize(target_context)
            found = self._load_overload(sig, target_context)
            # Two concurrent processes may have used one file name for two signatures.
            if found is not None and tuple(found.signature.args) != tuple(sig):
                found = None
        except Exception:  # a truncated file can raise any exception
            with contextlib.suppress(OSError):
                self.flush()
            return None
        if found is not None:
            _loaded_here.append(self._name)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _compiled_here and compile_store.create_marker("compiling"):
            logging.getLogger("sfumato").warning(
                "sfumato is compiling the kernels of this query, once per machine; this takes "
                "seconds to minutes. Compiled kernels are kept in %s. `sfumato warm-up` or "
                "sf.ops.warm_up() compiles all kernels ahead of time.",
                compile_store.folder(),
            )
        _compiled_here.append(self._name)
        if compile_store.folder() is None:
            return
        try:
            with compile_store.lock_folder():  # Numba reads and rewrites the function's index
                super().save_overload(sig, data)
        except OSError:
            compile_store.warn_that_none_is_kept()


class _LinkedLibrary(JITCodeLibrary):
    """Optimized LLVM code that callers link; it is not translated into machine code.

    Numba would optimize it three times: by function, cheaply, and fully.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _EntryLibrary(JITCodeLibrary):
    """An entry point for Python with the linked code of its kernel, which is optimized already."""

    def _optimize_final_module(self) -> None:
        pass


class _LinkedCompiler(Compiler):
    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.targetctx.get_executable = lambda *_: object()  # the key of the linked function
        return super().define_pipelines()


class _LinkedKernel(CPUDispatcher):
    """A kernel for compiled callers. It is compiled once per type, not per literal argument."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        named = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(types.unliteral, args)), named)

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres


class _Kernel(CPUDispatcher):
    """A kernel for Python. Only kernels that Python calls have machine code."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options)
        self.linked = _LinkedKernel(function, targetoptions=options, pipeline_class=_LinkedCompiler)
        self._cache = _KernelCache(function)
        self._compiler.compile = self._compile_entry

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self.linked)

    def compile(self, sig: Any) -> Any:
        with contextlib.ExitStack() as stack:
            if compile_store.folder() is not None:
                # Another process that needs this kernel waits, and then reads it.
                with contextlib.suppress(OSError):  # a folder that this process can only read
                    name = f"{self.__module__}.{self.__qualname__}.lock"
                    stack.enter_context(compile_store.lock(name))
            return super().compile(sig)

    def _compile_entry(self, args: Any, _: Any) -> Any:
        self.linked.compile(args)
        linked, context = self.linked.overloads[args], self.targetctx
        # The entry point adds constants to its environment. Compiled callers that were stored
        # earlier would restore the environment without them, so it gets a separate environment.
        description = copy(linked.fndesc)
        description.env_name += ".entry"
        environment = Environment.from_fndesc(description)
        library = _EntryLibrary(context.codegen(), description.qualname)
        library.enable_object_caching()
        library.add_linking_library(linked.library)
        linked.target_context.create_cpython_wrapper(
            library, description, environment, linked.call_helper, release_gil=True
        )
        entry = context.get_executable(library, description, environment)
        for other in linked._find_referenced_environments():
            library.codegen.set_env(other.env_name, other)
        return linked._replace(
            library=library,
            entry_point=entry,
            fndesc=description,
            environment=environment,
            metadata=None,
        )


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    if "<locals>" in function.__qualname__:
        raise TypeError(
            f"{function.__qualname__} must be at the top level of a module to be compiled, "
            "because the source of its file identifies the compiled function on disk"
        )
    if config.DISABLE_JIT:
        return function
    return _Kernel(function, {**_DEFAULTS, **options})


compiled = _compiled
compiled_ieee = partial(_compiled, error_model="numpy")
# Numba counts references to array arguments with two atomic operations each, even where nothing can
# be freed. Counting takes a third of the time of small functions; `_nrt=False` disables it.
lean = partial(compiled_ieee, _nrt=False)
# Passing a tuple of many arrays costs as much as processing one cell.
lean_inline = partial(lean, forceinline=True)
lean_fused = partial(lean, fastmath={"contract"})
lean_sum = partial(lean, fastmath={"reassoc", "nsz"})
lean_dot = partial(lean, fastmath={"reassoc", "contract"})
inlined = partial(_compiled, inline="always")
