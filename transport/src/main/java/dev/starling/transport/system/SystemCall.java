package dev.starling.transport.system;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;

/**
 * A function of the C library that returns an {@code int}, and for which Java has no method. A call allocates objects,
 * so this is not for work that recurs.
 */
public final class SystemCall {
    private static final String ERRNO = "errno";
    private static final MemoryLayout STATE = Linker.Option.captureStateLayout();
    private static final VarHandle ERROR = STATE.varHandle(MemoryLayout.PathElement.groupElement(ERRNO));

    private final MethodHandle handle;

    private SystemCall(MethodHandle handle) {
        this.handle = handle;
    }

    /** Returns the function of a name, which must exist. */
    public static SystemCall of(String name, MemoryLayout... parameters) {
        Linker linker = Linker.nativeLinker();
        MethodHandle handle = linker.downcallHandle(linker.defaultLookup().findOrThrow(name),
                FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters), Linker.Option.captureCallState(ERRNO));
        return new SystemCall(handle.asSpreader(1, Object[].class, parameters.length)
                .asType(MethodType.methodType(int.class, MemorySegment.class, Object[].class)));
    }

    /** Returns whether this is Linux and its C library has a function. */
    public static boolean isOnLinux(String name) {
        return System.getProperty("os.name").equals("Linux")
                && Linker.nativeLinker().defaultLookup().find(name).isPresent();
    }

    /** Calls the function; returns the negated {@code errno} where the result is -1. */
    public int call(Object... arguments) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = arena.allocate(STATE);
            int result = (int) handle.invokeExact(state, arguments);
            return result == -1 ? -(int) ERROR.get(state, 0L) : result;
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
