package dev.starling.tensor.cpu.onednn;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starling.tensor.host.NativeCall;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Objects;
import java.util.concurrent.ExecutionException;

/**
 * The functions of oneDNN's C interface that this package calls. Handles and data are plain addresses. Not loaded
 * unless {@link OneDnn#available()}.
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
    private static final long QUERY_IMPLEMENTATION = 8;
    private static final long SCRATCHPAD_USER = 1;
    private static final long FORMAT_ANY = 1;

    private static final MemorySegment EXECUTE = function("dnnl_primitive_execute");
    private static final MemorySegment SET_DATA = function("dnnl_memory_set_data_handle");
    private static final MemorySegment OMP_GET = function("omp_get_max_threads");
    private static final MemorySegment OMP_SET = function("omp_set_num_threads");
    private static final MemorySegment PRIMITIVE_CREATE = function("dnnl_primitive_create");

    /** The single engine of the process, never destroyed. */
    static final long ENGINE = created("creating an engine", "dnnl_engine_create", CPU, 0);

    /** The instruction set that oneDNN uses: bits of {@code dnnl_cpu_isa_t}. */
    static final int ISA = (int) NativeCall.call(function("dnnl_get_effective_cpu_isa"));

    private Dnnl() { }

    static String version() {
        MemorySegment v = MemorySegment.ofAddress(NativeCall.call(function("dnnl_version"))).reinterpret(12);
        return v.get(JAVA_INT, 0) + "." + v.get(JAVA_INT, 4) + "." + v.get(JAVA_INT, 8);
    }

    static void execute(long primitive, long stream, int count, long arguments) {
        check(NativeCall.call(EXECUTE, primitive, stream, count, arguments), "executing a primitive");
    }

    static void setData(long memory, long address) {
        check(NativeCall.callBriefly(SET_DATA, memory, address, 0, 0, 0), "binding an address");
    }

    /** Returns the number of OpenMP threads that the calling thread would use. */
    static int ompThreads() {
        return (int) NativeCall.callBriefly(OMP_GET, 0, 0, 0, 0, 0);
    }

    static void ompThreads(int threads) {
        NativeCall.callBriefly(OMP_SET, threads, 0, 0, 0, 0);
    }

    static boolean equal(long desc, long other) {
        return (int) NativeCall.call(Descs.EQUAL, desc, other) != 0;
    }

    static long stream() {
        return created("creating a stream", "dnnl_stream_create", ENGINE, 1);
    }

    /** Makes a memory descriptor with these dimensions and strides, both in elements. */
    static long strided(ElementType type, long[] dims, long[] strides) {
        try (Arena arena = Arena.ofConfined()) {
            long d = arena.allocateFrom(JAVA_LONG, dims).address();
            long s = arena.allocateFrom(JAVA_LONG, strides).address();
            return created("describing strided memory", Descs.STRIDED, dims.length, d, type.code, s);
        }
    }

    /** Makes a memory descriptor whose layout oneDNN may choose. */
    static long anyLayout(ElementType type, long[] dims) {
        try (Arena arena = Arena.ofConfined()) {
            long d = arena.allocateFrom(JAVA_LONG, dims).address();
            return created("describing memory", Descs.TAGGED, dims.length, d, type.code, FORMAT_ANY);
        }
    }

    static long size(long desc) {
        return NativeCall.call(Descs.SIZE, desc);
    }

    /** Returns a description of a layout, equal for equal layouts. */
    static long[] description(long desc) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment size = arena.allocate(JAVA_LONG);
            check(NativeCall.call(Descs.BLOB, 0, size.address(), desc), "describing memory");
            MemorySegment blob = arena.allocate(size.get(JAVA_LONG, 0) + 7 & -8, 8);
            check(NativeCall.call(Descs.BLOB, blob.address(), size.address(), desc), "describing memory");
            return blob.toArray(JAVA_LONG);
        }
    }

    static long memory(long desc) {
        return created("creating a memory object", Descs.MEMORY, desc, ENGINE, 0);
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
            if (!OneDnnException.isShortage(e.status())) {
                throw e;
            }
            return primitiveOfNewThread(primitiveDesc);
        }
    }

    static long newPrimitive(long primitiveDesc) {
        return created("creating a primitive", PRIMITIVE_CREATE, primitiveDesc);
    }

    private static long primitiveOfNewThread(long primitiveDesc) {
        try {
            return NewThread.run("onednn-primitive", () -> {
                ompThreads(1);
                return newPrimitive(primitiveDesc);
            });
        } catch (ExecutionException e) {
            throw NativeCall.unexpected(Objects.requireNonNull(e.getCause()));
        }
    }

    /** Returns the memory descriptor that belongs to {@code primitiveDesc}, or 0 if it has none. */
    static long query(long primitiveDesc, int what) {
        return NativeCall.call(Descs.OF_PRIMITIVE, primitiveDesc, what, 0);
    }

    /** Returns oneDNN's name of the kernel that it chose. */
    static String implementation(long primitiveDesc) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(ADDRESS);
            check(NativeCall.call(function("dnnl_primitive_desc_query"), primitiveDesc, QUERY_IMPLEMENTATION, 0,
                    out.address()), "querying the implementation");
            return MemorySegment.ofAddress(out.get(JAVA_LONG, 0)).reinterpret(Integer.MAX_VALUE).getString(0);
        }
    }

    /** Makes attributes with scratch memory from the caller and, on request, accumulation. */
    static long attributes(boolean accumulate) {
        long attributes = created("creating attributes", "dnnl_primitive_attr_create");
        check(NativeCall.call(function("dnnl_primitive_attr_set_scratchpad_mode"), attributes, SCRATCHPAD_USER),
                "setting the scratchpad mode");
        if (accumulate) {
            long post = created("creating post-operations", "dnnl_post_ops_create");
            Sums.append(post);
            check(NativeCall.call(function("dnnl_primitive_attr_set_post_ops"), attributes, post),
                    "setting post-operations");
            destroy(Kind.POST_OPS, post);
        }
        return attributes;
    }

    static long matmul(long src, long weights, long bias, long dst, long attributes) {
        return created("matrix product", "dnnl_matmul_primitive_desc_create", ENGINE, src, weights, bias, dst,
                attributes);
    }

    static long reorder(long from, long to, long attributes) {
        return created("reordering memory", "dnnl_reorder_primitive_desc_create", from, ENGINE, to, ENGINE, attributes);
    }

    /** {@code geometry} points to strides, dilations, low and high padding, each as 8 {@code long}s. */
    static long convolution(int direction, long src, long weights, long bias, long dst, long geometry,
            long attributes) {
        return created("convolution forward", "dnnl_convolution_forward_primitive_desc_create", ENGINE, direction,
                CONVOLUTION_DIRECT, src, weights, bias, dst, geometry, geometry + 64, geometry + 128, geometry + 192,
                attributes);
    }

    static long convolutionData(long src, long weights, long dst, long geometry, long hint, long attributes) {
        return created("convolution backward by data", "dnnl_convolution_backward_data_primitive_desc_create", ENGINE,
                CONVOLUTION_DIRECT, src, weights, dst, geometry, geometry + 64, geometry + 128, geometry + 192, hint,
                attributes);
    }

    static long convolutionWeights(long src, long weights, long bias, long dst, long geometry, long hint,
                                   long attributes) {
        return created("convolution backward by weights", "dnnl_convolution_backward_weights_primitive_desc_create",
                ENGINE, CONVOLUTION_DIRECT, src, weights, bias, dst, geometry, geometry + 64, geometry + 128,
                geometry + 192, hint, attributes);
    }

    static void destroy(Kind kind, long handle) {
        if (handle != 0) {
            check(NativeCall.call(kind.destroy, handle), "destroying");
        }
    }

    private static void check(long status, String what) {
        if ((int) status != 0) {
            throw new OneDnnException(what, (int) status);
        }
    }

    private static long created(String what, String function, long... others) {
        return created(what, function(function), others);
    }

    /**
     * Calls a function that stores the handle of the new object at its first argument, before the others; returns that
     * handle.
     */
    private static long created(String what, MemorySegment function, long... others) {
        long[] arguments = new long[others.length + 1];
        System.arraycopy(others, 0, arguments, 1, others.length);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(ADDRESS);
            arguments[0] = out.address();
            check(NativeCall.call(function, arguments), what);
            return out.get(JAVA_LONG, 0);
        }
    }

    private static MemorySegment function(String name) {
        return OneDnn.symbols().findOrThrow(name);
    }

    /** Functions that make and describe memory. */
    private static final class Descs {
        static final MemorySegment STRIDED = function("dnnl_memory_desc_create_with_strides");
        static final MemorySegment TAGGED = function("dnnl_memory_desc_create_with_tag");
        static final MemorySegment BLOB = function("dnnl_memory_desc_get_blob");
        static final MemorySegment SIZE = function("dnnl_memory_desc_get_size");
        static final MemorySegment EQUAL = function("dnnl_memory_desc_equal");
        static final MemorySegment MEMORY = function("dnnl_memory_create");
        static final MemorySegment OF_PRIMITIVE = function("dnnl_primitive_desc_query_md");
    }

    /** Bound at its first use. */
    private static final class Sums {
        private static final MethodHandle APPEND = Linker.nativeLinker().downcallHandle(
                function("dnnl_post_ops_append_sum"),
                FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_FLOAT, JAVA_LONG, JAVA_LONG));

        static void append(long post) {
            long status;
            try {
                status = (long) APPEND.invokeExact(post, 1f, 0L, 0L);
            } catch (Throwable t) {
                throw NativeCall.unexpected(t);
            }
            check(status, "appending a sum");
        }
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

        private final MemorySegment destroy;

        Kind(String function) {
            destroy = function(function);
        }
    }
}
