"""The machine operations that NumPy and Numba lack, for kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

COLUMN_ROWS = 128  # of `float_column`: few enough for a stack, enough for vectors
_CACHE_LINE = 64  # bytes


def _machine(
    _result: type[Result],
) -> Callable[[Callable[Concatenate[Any, Parameters], Any]], Callable[Parameters, Result]]:
    """Make a code generator callable from kernels; callers do not pass its first parameter, the typing context."""
    return cast(Callable[[Callable[Concatenate[Any, Parameters], Any]], Callable[Parameters, Result]], intrinsic)


@_machine(np.uint64)
def load_word(typingctx: Any, data: Any, start: Any) -> Any:
    """Return the 8 bytes of `data`: uint8[m] from `start` on as one uint64, aligned or not, unchecked. O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        address = builder.gep(array.data, [args[1]])
        word = builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(data, types.int64), codegen


@_machine(np.uint64)
def fold_multiply(typingctx: Any, left: Any, right: Any) -> Any:
    """Return the high half of the 128-bit product of two uint64 xor its low half. O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return builder.xor(high, builder.trunc(product, ir.IntType(64)))

    return types.uint64(types.uint64, types.uint64), codegen


@_machine(type(None))
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Prefetch ``array[index]`` (one-dimensional, contiguous) into the processor's cache. O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _emit_prefetches(context, builder, signature, args, 1)
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


@_machine(type(None))
def prefetch_whole(typingctx: Any, array: Any, index: Any) -> Any:
    """Prefetch all of ``array[index]`` (one-dimensional, contiguous), a record of some hundred bytes. O(its bytes)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _emit_prefetches(context, builder, signature, args, -(-signature.args[0].dtype.size // _CACHE_LINE))
        return context.get_dummy_value()

    return types.none(array, types.int64), codegen


@_machine(type(None))
def prefetch_field(typingctx: Any, array: Any, index: Any, offset: Any) -> Any:
    """Prefetch the cache line of the byte at `offset` of ``array[index]`` (one-dimensional, contiguous). O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _byte_address(context, builder, signature, args)
        _emit_prefetch(builder, builder.gep(address, [args[2]]))
        return context.get_dummy_value()

    return types.none(array, types.int64, types.int64), codegen


def _emit_prefetches(context: Any, builder: Any, signature: Any, args: Any, lines: int) -> None:
    """Emit prefetches of the first cache lines of ``args[0][args[1]]``."""
    address = _byte_address(context, builder, signature, args)
    for line in range(lines):
        _emit_prefetch(builder, builder.gep(address, [ir.Constant(ir.IntType(32), _CACHE_LINE * line)]))


def _byte_address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return the address of ``args[0][args[1]]``."""
    view = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.bitcast(builder.gep(view.data, [args[1]]), ir.IntType(8).as_pointer())


def _emit_prefetch(builder: Any, place: Any) -> None:
    """Emit a prefetch of the cache line at the address `place`, for reading, into all levels."""
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    hint = builder.module.declare_intrinsic(
        "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    )
    builder.call(hint, [place, ir.Constant(word, 0), ir.Constant(word, 3), ir.Constant(word, 1)])


@_machine(type(None))
def call(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Call the kernel at an `address_of`, which must take the types of the tuple `arguments` and return nothing."""
    return types.none(types.int64, arguments), _emit_call


@_machine(int)
def call_for_int(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Return the result of the kernel at an `address_of`, an int; see `call`."""
    return types.int64(types.int64, arguments), _emit_call


@_machine(float)
def call_for_float(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Return the result of the kernel at an `address_of`, a float; see `call`."""
    return types.float64(types.int64, arguments), _emit_call


def _emit_call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Emit a call of the kernel at ``args[0]`` with the elements of the tuple ``args[1]``."""
    result, argument_types = signature.return_type, tuple(signature.args[1])
    function_type = context.call_conv.get_function_type(result, argument_types)
    function = builder.inttoptr(args[0], function_type.as_pointer())
    with cgutils.if_unlikely(builder, cgutils.is_null(builder, function)):  # type: ignore[no-untyped-call]
        context.call_conv.return_user_exc(builder, AssertionError, ("the kernel to call was not compiled",))
    values = [builder.extract_value(args[1], i) for i in range(len(argument_types))]
    status, returned = context.call_conv.call_function(builder, function, result, argument_types, values)
    with cgutils.if_unlikely(builder, status.is_error):  # type: ignore[no-untyped-call]
        context.call_conv.return_status_propagate(builder, status)
    return returned


@_machine(type(None))
def widen_vectors(typingctx: Any) -> Any:
    """Compile the function that calls this for the widest vectors there are, and not into those that call it.

    Compilers hold back from 512 bits, for the sake of the code around; loops of nothing but arithmetic gain by half.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # The attribute that `inlined_kernel` sets spreads to the functions it calls.
        builder.function.attributes.discard("alwaysinline")
        builder.function.attributes.add("noinline")
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # `add` does not know this name
        return context.get_dummy_value()

    return types.none(), codegen


@_machine(np.ndarray)
def float_column(typingctx: Any) -> Any:
    """Return float64[COLUMN_ROWS] on the stack, not initialised: for the function that calls this, while it runs."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), COLUMN_ROWS))  # type: ignore[no-untyped-call]
        column = context.make_array(signature.return_type)(context, builder)
        size, width = context.get_constant(types.intp, COLUMN_ROWS), context.get_constant(types.intp, 8)
        data = builder.bitcast(memory, ir.DoubleType().as_pointer())
        layout = {"shape": [size], "strides": [width], "itemsize": width, "meminfo": None}
        populate_array(column, data, **layout)  # type: ignore[no-untyped-call]
        return column._getvalue()  # noqa: SLF001  Numba has no other way

    return types.Array(types.float64, 1, "C")(), codegen


@_machine(int)
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Return the position of the lowest set bit of a uint64, 64 if no bit is set. O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


@_machine(int)
def count_ones(typingctx: Any, word: Any) -> Any:
    """Return the number of set bits of a uint64. O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@_machine(int)
def load_acquired(typingctx: Any, array: Any, index: Any) -> Any:
    """Return ``array[index]`` of an int64 array; what another thread wrote before it released that is visible. O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.load_atomic(builder.gep(view.data, [args[1]]), "acquire", 8)

    return types.int64(array, types.int64), codegen


@_machine(type(None))
def store_released(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Store `value` as ``array[index]`` of an int64 array, after everything that was written before. O(1)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        builder.store_atomic(args[2], builder.gep(view.data, [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.none(array, types.int64, types.int64), codegen
