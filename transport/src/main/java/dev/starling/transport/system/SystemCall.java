package dev.starling.transport.system;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/**
 * A function of the C library that returns an {@code int}, and for which Java has no method. A call allocates objects,
 * so this is not for work that recurs.
 */
public final class SystemCall {
    private final MethodHandle handle;

    private SystemCall(MethodHandle handle) {
        this.handle = handle;
    }

    /** Returns the function of a name, which must exist. */
    public static SystemCall of(String name, MemoryLayout... parameters) {
        Linker linker = Linker.nativeLinker();
        return new SystemCall(linker.downcallHandle(linker.defaultLookup().findOrThrow(name),
                FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters)));
    }

    /** Returns whether this is Linux and its C library has a function. */
    public static boolean isOnLinux(String name) {
        return System.getProperty("os.name").equals("Linux")
                && Linker.nativeLinker().defaultLookup().find(name).isPresent();
    }

    /** Calls the function. */
    public int call(Object... arguments) {
        try {
            return (int) handle.invokeWithArguments(arguments);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }
}
