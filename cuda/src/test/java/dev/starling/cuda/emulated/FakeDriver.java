package dev.starling.cuda.emulated;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** Controls the fake driver (device.h), which has no device until a test adds some. */
public final class FakeDriver {
    private FakeDriver() { }

    private static MethodHandle function(String name, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(FakeLibraries.find(name), type);
    }

    /** Sets the number of devices, 0 to 2, with unlimited memory. */
    public static void devices(int count) {
        try {
            function("fake_devices", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT)).invokeExact(count);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Limits the remaining memory, below 2^62, for blocks, pinned memory, and a MiB for each module and each graph. */
    public static void limitMemory(long bytes) {
        try {
            function("fake_limit_memory", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG)).invokeExact(bytes);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Makes the next calls of a function fail with an error. */
    public static void fail(String call, int error, int times) {
        try (Arena arena = Arena.ofConfined()) {
            function("fake_fail", FunctionDescriptor.ofVoid(ValueLayout.ADDRESS, ValueLayout.JAVA_INT,
                    ValueLayout.JAVA_INT)).invokeExact(arena.allocateFrom(call), error, times);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Returns a count: of existing objects for pinned, registered, events, graphs, executables, modules; of calls so
     * far for launches and runs (of graphs).
     */
    public static long count(String kind) {
        try (Arena arena = Arena.ofConfined()) {
            return (long) function("fake_count", FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS))
                    .invokeExact(arena.allocateFrom(kind));
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
