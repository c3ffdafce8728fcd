package dev.starling.cuda.emulated;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** What tests ask of the played driver (device.h), which has no device until one of them wants some. */
public final class PlayedDriver {
    private PlayedDriver() { }

    private static MethodHandle function(String name, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(PlayedLibraries.find(name), type);
    }

    /** Lets there be so many devices, 0 to 2, with all the memory that anybody may want. */
    public static void devices(int count) {
        try {
            function("played_devices", FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT)).invokeExact(count);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Leaves so much memory, below 2^62, for blocks, pinned memory, and a MiB for each module and each graph. */
    public static void leave(long bytes) {
        try {
            function("played_leave", FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG)).invokeExact(bytes);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Lets the next calls of a function fail with an error. */
    public static void fail(String call, int error, int times) {
        try (Arena arena = Arena.ofConfined()) {
            function("played_fail", FunctionDescriptor.ofVoid(ValueLayout.ADDRESS, ValueLayout.JAVA_INT,
                    ValueLayout.JAVA_INT)).invokeExact(arena.allocateFrom(call), error, times);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Returns how many there are: pinned, registered, events, graphs, executables, modules; or were: launches, runs of
     * graphs.
     */
    public static long count(String kind) {
        try (Arena arena = Arena.ofConfined()) {
            return (long) function("played_count", FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS))
                    .invokeExact(arena.allocateFrom(kind));
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
