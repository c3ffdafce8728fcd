package dev.starling.tensor.host;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;

/**
 * Calls of C functions and of machine code. Arguments and results are {@code long}: pointers, so that a call makes no
 * object, and integers, of which the function reads the lower half. For each combination of types the JDK generates
 * code, which takes milliseconds, and thus all functions share a few. A function with fewer parameters ignores the
 * other arguments, as C's calling conventions allow where the caller removes them.
 */
public final class NativeCall {
    private NativeCall() { }

    /** Returns the C library's function of this name. */
    public static MemorySegment systemFunction(String name) {
        return Linker.nativeLinker().defaultLookup().findOrThrow(name);
    }

    /** Calls a function of at most 13 parameters. */
    public static long call(MemorySegment function, long... arguments) {
        long[] a = Arrays.copyOf(arguments, 13);
        return arguments.length <= 7 ? Linked.seven(function, a[0], a[1], a[2], a[3], a[4], a[5], a[6])
                : Linked.thirteen(function, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                a[12]);
    }

    /** Calls a function of at most four parameters, without an array of arguments. */
    public static long call(MemorySegment function, long a, long b, long c, long d) {
        return Linked.seven(function, a, b, c, d, 0, 0, 0);
    }

    /** Calls a function of at most five parameters that returns soon: the JVM's collectors wait for its end. */
    public static long callBriefly(MemorySegment function, long a, long b, long c, long d, long e) {
        return Linked.brief(function, a, b, c, d, e);
    }

    /** Does the same; the first argument is the address of an array's elements, which do not move meanwhile. */
    public static long callBriefly(MemorySegment function, MemorySegment array, long b, long c, long d, long e) {
        return Linked.briefWithArray(function, array, b, c, d, e);
    }

    /** Converts what a method handle declares but cannot throw; runtime exceptions and errors pass through. */
    public static RuntimeException unexpected(Throwable t) {
        if (t instanceof Error e) {
            throw e;
        }
        return t instanceof RuntimeException e ? e : new IllegalStateException(t);
    }

    /**
     * The calls as the JDK links them. They are in a class of exceptions because HotSpot's compilers do not inline
     * methods of such a class: otherwise they compile the JDK's code for calls again with each caller.
     */
    private static final class Linked extends RuntimeException {
        private static final long serialVersionUID = 1;

        static long seven(MemorySegment function, long a, long b, long c, long d, long e, long f, long g) {
            try {
                return (long) Seven.HANDLE.invokeExact(function, a, b, c, d, e, f, g);
            } catch (Throwable t) {
                throw unexpected(t);
            }
        }

        static long thirteen(MemorySegment function, long a, long b, long c, long d, long e, long f, long g, long h,
                long i, long j, long k, long l, long m) {
            try {
                return (long) Thirteen.HANDLE.invokeExact(function, a, b, c, d, e, f, g, h, i, j, k, l, m);
            } catch (Throwable t) {
                throw unexpected(t);
            }
        }

        static long brief(MemorySegment function, long a, long b, long c, long d, long e) {
            try {
                return (long) Brief.HANDLE.invokeExact(function, a, b, c, d, e);
            } catch (Throwable t) {
                throw unexpected(t);
            }
        }

        static long briefWithArray(MemorySegment function, MemorySegment array, long b, long c, long d, long e) {
            try {
                return (long) BriefWithArray.HANDLE.invokeExact(function, array, b, c, d, e);
            } catch (Throwable t) {
                throw unexpected(t);
            }
        }
    }

    private static FunctionDescriptor longs(int parameters) {
        MemoryLayout[] arguments = new MemoryLayout[parameters];
        Arrays.fill(arguments, JAVA_LONG);
        return FunctionDescriptor.of(JAVA_LONG, arguments);
    }

    private static final class Seven {
        static final MethodHandle HANDLE = Linker.nativeLinker().downcallHandle(longs(7));
    }

    private static final class Thirteen {
        static final MethodHandle HANDLE = Linker.nativeLinker().downcallHandle(longs(13));
    }

    private static final class Brief {
        static final MethodHandle HANDLE = Linker.nativeLinker().downcallHandle(longs(5),
                Linker.Option.critical(false));
    }

    private static final class BriefWithArray {
        static final MethodHandle HANDLE = Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(JAVA_LONG,
                ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG), Linker.Option.critical(true));
    }
}
