package dev.starling.tensor.cpu.onednn;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;

/**
 * The functions of oneDNN's C interface that this package calls. Handles and data are plain addresses: pointers are
 * declared as {@code long}, so that a call makes no object. So are integers, of which functions read the lower half:
 * the JDK generates code for each combination of types, which takes milliseconds, and thus functions share it. Not
 * loaded unless {@link OneDnn#available()}.
 */
final class Dnnl {
    static final int FORWARD_TRAINING = 64;
    static final int FORWARD_INFERENCE = 96;
    static final long CONVOLUTION_DIRECT = 1;

    static final int ARG_SRC = 1;
    static final int ARG_DST = 17;
    static final int ARG_WEIGHTS = 33;
    static final int ARG_BIAS = 41;
    static final int ARG_SCRATCHPAD = 80;
    static final int ARG_DIFF_SRC = 129;
    static final int ARG_DIFF_DST = 145;
    static final int ARG_DIFF_WEIGHTS = 161;
    static final int ARG_DIFF_BIAS = 169;

    static final int QUERY_WEIGHTS = 131;
    static final int QUERY_DIFF_WEIGHTS = 132;
    static final int QUERY_SCRATCHPAD = 136;

    private static final long CPU = 1;
    private static final int OUT_OF_MEMORY = 1;
    private static final int RUNTIME_ERROR = 5;
    private static final long QUERY_IMPLEMENTATION = 8;
    private static final long SCRATCHPAD_USER = 1;
    private static final long FORMAT_ANY = 1;

    private static final Linker LINKER = Linker.nativeLinker();
    private static final Linker.Option[] SHORT = {Linker.Option.critical(false)};
    private static final Linker.Option[] LONG = {};

    private static final MethodHandle EXECUTE = bind("dnnl_primitive_execute", LONG, 4);
    private static final MethodHandle SET_DATA = bind("dnnl_memory_set_data_handle", SHORT, 2);
    private static final MethodHandle OMP_GET = bind("omp_get_max_threads", SHORT, 0);
    private static final MethodHandle OMP_SET = bind("omp_set_num_threads", SHORT, 1);

    private static final MethodHandle ENGINE_CREATE = bind("dnnl_engine_create", LONG, 3);
    private static final MethodHandle STREAM_CREATE = bind("dnnl_stream_create", LONG, 3);
    private static final MethodHandle DESC_STRIDED = bind("dnnl_memory_desc_create_with_strides", LONG, 5);
    private static final MethodHandle DESC_TAGGED = bind("dnnl_memory_desc_create_with_tag", LONG, 5);
    private static final MethodHandle DESC_BLOB = bind("dnnl_memory_desc_get_blob", LONG, 3);
    private static final MethodHandle DESC_SIZE = bind("dnnl_memory_desc_get_size", LONG, 1);
    private static final MethodHandle EQUAL = bind("dnnl_memory_desc_equal", LONG, 2);
    private static final MethodHandle MEMORY_CREATE = bind("dnnl_memory_create", LONG, 4);
    private static final MethodHandle PRIMITIVE_CREATE = bind("dnnl_primitive_create", LONG, 2);
    private static final MethodHandle QUERY_DESC = bind("dnnl_primitive_desc_query_md", LONG, 3);
    private static final MethodHandle QUERY = bind("dnnl_primitive_desc_query", LONG, 4);

    private static final MethodHandle ATTR_CREATE = bind("dnnl_primitive_attr_create", LONG, 1);
    private static final MethodHandle ATTR_SCRATCHPAD = bind("dnnl_primitive_attr_set_scratchpad_mode", LONG, 2);

    private static final MethodHandle MATMUL = bind("dnnl_matmul_primitive_desc_create", LONG, 7);
    private static final MethodHandle REORDER = bind("dnnl_reorder_primitive_desc_create", LONG, 6);

    private static final MethodHandle VERSION = bind("dnnl_version", LONG, 0);
    private static final MethodHandle EFFECTIVE_ISA = bind("dnnl_get_effective_cpu_isa", LONG, 0);

    /** Bound at their first use. */
    private static final class Sums {
        static final MethodHandle CREATE = bind("dnnl_post_ops_create", LONG, 1);
        static final MethodHandle SET = bind("dnnl_primitive_attr_set_post_ops", LONG, 2);
        static final MethodHandle APPEND = LINKER.downcallHandle(OneDnn.symbols().findOrThrow(
            "dnnl_post_ops_append_sum"), FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_FLOAT, JAVA_LONG, JAVA_LONG));
    }

    /** Bound at their first use. */
    private static final class Convolutions {
        static final MethodHandle FORWARD = bind("dnnl_convolution_forward_primitive_desc_create", LONG, 13);
        static final MethodHandle DATA = bind("dnnl_convolution_backward_data_primitive_desc_create", LONG, 12);
        static final MethodHandle WEIGHTS = bind("dnnl_convolution_backward_weights_primitive_desc_create", LONG, 13);
    }

    /** The single engine of the process, never destroyed. */
    static final long ENGINE = engine();

    /** The instruction set that oneDNN uses: bits of {@code dnnl_cpu_isa_t}. */
    static final int ISA = cpuIsa();

    private Dnnl() { }

    static String version() {
        try {
            MemorySegment v = MemorySegment.ofAddress((long) VERSION.invokeExact()).reinterpret(12);
            return v.get(JAVA_INT, 0) + "." + v.get(JAVA_INT, 4) + "." + v.get(JAVA_INT, 8);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    private static int cpuIsa() {
        try {
            return (int) (long) EFFECTIVE_ISA.invokeExact();
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    static void execute(long primitive, long stream, int count, long arguments) {
        int status;
        try {
            status = (int) (long) EXECUTE.invokeExact(primitive, stream, (long) count, arguments);
        } catch (Throwable t) {
            throw unexpected(t);
        }
        check(status, "executing a primitive");
    }

    static void setData(long memory, long address) {
        try {
            int status = (int) (long) SET_DATA.invokeExact(memory, address);
            check(status, "binding an address");
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    /** Returns the number of OpenMP threads that the calling thread would use. */
    static int ompThreads() {
        try {
            return (int) (long) OMP_GET.invokeExact();
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    static void ompThreads(int threads) {
        try {
            long ignored = (long) OMP_SET.invokeExact((long) threads);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    static boolean equal(long desc, long other) {
        try {
            return (int) (long) EQUAL.invokeExact(desc, other) != 0;
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    static long stream() {
        return created("creating a stream", out -> (int) (long) STREAM_CREATE.invokeExact(out, ENGINE, 1L));
    }

    /** Makes a memory descriptor with these dimensions and strides, both in elements. */
    static long strided(ElementType type, long[] dims, long[] strides) {
        try (Arena arena = Arena.ofConfined()) {
            long d = arena.allocateFrom(JAVA_LONG, dims).address();
            long s = arena.allocateFrom(JAVA_LONG, strides).address();
            return created("describing strided memory",
                out -> (int) (long) DESC_STRIDED.invokeExact(out, (long) dims.length, d, (long) type.code, s));
        }
    }

    /** Makes a memory descriptor whose layout oneDNN may choose. */
    static long anyLayout(ElementType type, long[] dims) {
        try (Arena arena = Arena.ofConfined()) {
            long d = arena.allocateFrom(JAVA_LONG, dims).address();
            return created("describing memory",
                out -> (int) (long) DESC_TAGGED.invokeExact(out, (long) dims.length, d, (long) type.code, FORMAT_ANY));
        }
    }

    static long size(long desc) {
        try {
            return (long) DESC_SIZE.invokeExact(desc);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    /** Returns a description of a layout, equal for equal layouts. */
    static long[] description(long desc) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment size = arena.allocate(JAVA_LONG);
            check((int) (long) DESC_BLOB.invokeExact(0L, size.address(), desc), "describing memory");
            MemorySegment blob = arena.allocate(size.get(JAVA_LONG, 0) + 7 & -8, 8);
            check((int) (long) DESC_BLOB.invokeExact(blob.address(), size.address(), desc), "describing memory");
            return blob.toArray(JAVA_LONG);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    static long memory(long desc) {
        return created("creating a memory object",
            out -> (int) (long) MEMORY_CREATE.invokeExact(out, desc, ENGINE, 0L));
    }

    /**
     * Creates a primitive. oneDNN's code generator keeps its first error for the life of the thread, and then refuses
     * all later primitives of that thread ({@link OneDnnFault#STICKY_ERROR}): after a refusal a new thread tries once
     * more.
     */
    static long primitive(long primitiveDesc) {
        try {
            return newPrimitive(primitiveDesc);
        } catch (OneDnnException e) {
            if (e.status() != RUNTIME_ERROR && e.status() != OUT_OF_MEMORY) {
                throw e;
            }
            return primitiveOfNewThread(primitiveDesc);
        }
    }

    static long newPrimitive(long primitiveDesc) {
        return created("creating a primitive", out -> (int) (long) PRIMITIVE_CREATE.invokeExact(out, primitiveDesc));
    }

    private static long primitiveOfNewThread(long primitiveDesc) {
        FutureTask<Long> task = new FutureTask<>(() -> {
            ompThreads(1);
            return newPrimitive(primitiveDesc);
        });
        Thread.ofPlatform().daemon().name("onednn-primitive").start(task);
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return task.get();
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (ExecutionException e) {
                    throw unexpected(Objects.requireNonNull(e.getCause()));
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Returns the memory descriptor that belongs to {@code primitiveDesc}, or 0 if it has none. */
    static long query(long primitiveDesc, int what) {
        try {
            return (long) QUERY_DESC.invokeExact(primitiveDesc, (long) what, 0L);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    /** Returns oneDNN's name of the kernel that it chose. */
    static String implementation(long primitiveDesc) {
        long name = created("querying the implementation",
            out -> (int) (long) QUERY.invokeExact(primitiveDesc, QUERY_IMPLEMENTATION, 0L, out));
        return MemorySegment.ofAddress(name).reinterpret(Integer.MAX_VALUE).getString(0);
    }

    /** Makes attributes with scratch memory from the caller and, on request, accumulation. */
    static long attributes(boolean accumulate) {
        long attributes = created("creating attributes", out -> (int) (long) ATTR_CREATE.invokeExact(out));
        try {
            check((int) (long) ATTR_SCRATCHPAD.invokeExact(attributes, SCRATCHPAD_USER), "setting the scratchpad mode");
            if (accumulate) {
                long post = created("creating post-operations", out -> (int) (long) Sums.CREATE.invokeExact(out));
                check((int) (long) Sums.APPEND.invokeExact(post, 1f, 0L, 0L), "appending a sum");
                check((int) (long) Sums.SET.invokeExact(attributes, post), "setting post-operations");
                destroy(Kind.POST_OPS, post);
            }
        } catch (Throwable t) {
            throw unexpected(t);
        }
        return attributes;
    }

    static long matmul(long src, long weights, long bias, long dst, long attributes) {
        return created("matrix product",
            out -> (int) (long) MATMUL.invokeExact(out, ENGINE, src, weights, bias, dst, attributes));
    }

    static long reorder(long from, long to, long attributes) {
        return created("reordering memory",
            out -> (int) (long) REORDER.invokeExact(out, from, ENGINE, to, ENGINE, attributes));
    }

    /** {@code geometry} points to strides, dilations, low and high padding, each as 8 {@code long}s. */
    static long convolution(int direction, long src, long weights, long bias, long dst, long geometry,
            long attributes) {
        return created("convolution forward", out -> (int) (long) Convolutions.FORWARD.invokeExact(out, ENGINE,
            (long) direction, CONVOLUTION_DIRECT, src, weights, bias, dst, geometry, geometry + 64, geometry + 128,
            geometry + 192, attributes));
    }

    static long convolutionData(long src, long weights, long dst, long geometry, long hint, long attributes) {
        return created("convolution backward by data", out -> (int) (long) Convolutions.DATA.invokeExact(out, ENGINE,
            CONVOLUTION_DIRECT, src, weights, dst, geometry, geometry + 64, geometry + 128, geometry + 192, hint,
            attributes));
    }

    static long convolutionWeights(long src, long weights, long bias, long dst, long geometry, long hint,
                                   long attributes) {
        return created("convolution backward by weights", out -> (int) (long) Convolutions.WEIGHTS.invokeExact(out,
            ENGINE, CONVOLUTION_DIRECT, src, weights, bias, dst, geometry, geometry + 64, geometry + 128,
            geometry + 192, hint, attributes));
    }

    static void destroy(Kind kind, long handle) {
        if (handle != 0) {
            try {
                check((int) (long) kind.destroy.invokeExact(handle), "destroying");
            } catch (Throwable t) {
                throw unexpected(t);
            }
        }
    }

    private static long engine() {
        return created("creating an engine", out -> (int) (long) ENGINE_CREATE.invokeExact(out, CPU, 0L));
    }

    private static void check(int status, String what) {
        if (status != 0) {
            throw new OneDnnException(what, status);
        }
    }

    /** Calls a function that stores the handle of the new object at its first argument; returns that handle. */
    private static long created(String what, Creation creation) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(ADDRESS);
            check(creation.call(out.address()), what);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    /** Returns the function, with this many parameters and a result that are all {@code long}. */
    private static MethodHandle bind(String name, Linker.Option[] options, int parameters) {
        MemoryLayout[] arguments = new MemoryLayout[parameters];
        Arrays.fill(arguments, JAVA_LONG);
        return LINKER.downcallHandle(OneDnn.symbols().findOrThrow(name), FunctionDescriptor.of(JAVA_LONG, arguments),
            options);
    }

    /**
     * Converts a throwable that a method handle declares but cannot throw; runtime exceptions and errors pass through.
     */
    private static RuntimeException unexpected(Throwable t) {
        if (t instanceof RuntimeException e) {
            return e;
        }
        if (t instanceof Error e) {
            throw e;
        }
        return new IllegalStateException(t);
    }

    /** The kinds of native objects, each with the function that destroys it. */
    enum Kind {
        STREAM("dnnl_stream_destroy"),
        DESC("dnnl_memory_desc_destroy"),
        MEMORY("dnnl_memory_destroy"),
        PRIMITIVE("dnnl_primitive_destroy"),
        PRIMITIVE_DESC("dnnl_primitive_desc_destroy"),
        ATTRIBUTES("dnnl_primitive_attr_destroy"),
        POST_OPS("dnnl_post_ops_destroy");

        private final MethodHandle destroy;

        Kind(String function) {
            destroy = bind(function, LONG, 1);
        }
    }

    private interface Creation {
        int call(long out) throws Throwable;
    }
}
