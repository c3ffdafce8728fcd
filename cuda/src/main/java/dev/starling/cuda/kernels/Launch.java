package dev.starling.cuda.kernels;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.scalar.Formula;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A kernel's arguments and its number of threads. Arguments are appended in the order of the kernel's parameters, each
 * at a multiple of its own size, as in a C struct. Each thread reuses one instance.
 */
final class Launch {
    /** The default number of threads of a block. */
    static final int THREADS = 256;
    /** The size limit of arguments on every architecture. */
    private static final int MAX_BYTES = 4096;
    private static final ThreadLocal<Launch> MINE = ThreadLocal.withInitial(Launch::new);

    private final MemorySegment arguments = Arena.ofAuto().allocate(MAX_BYTES, 16);
    /** Set by {@link #of}. */
    @SuppressWarnings("NullAway.Init")
    private Launcher launcher;
    /** Set by {@link #of}. */
    @SuppressWarnings("NullAway.Init")
    private Gpu.Function function;
    private int bytes;
    /** Launches to be queued together; {@code null} if each is queued immediately. */
    private @Nullable List<Prepared> deferred;

    private record Prepared(Launcher launcher, Gpu.Function function, Gpu.Grid grid, byte[] arguments) { }

    private Launch() { }

    /**
     * Collects this thread's launches during {@code work} and queues them when it returns: all kernels are loaded, or
     * none runs.
     */
    static void runTogether(Runnable work) {
        Launch launch = MINE.get();
        List<Prepared> all = new ArrayList<>();
        launch.deferred = all;
        try {
            work.run();
        } finally {
            launch.deferred = null;
        }
        for (Prepared each : all) {
            MemorySegment.copy(each.arguments, 0, launch.arguments, ValueLayout.JAVA_BYTE, 0, each.arguments.length);
            each.launcher.queue(each.function, each.grid, launch.arguments.address(), each.arguments.length);
        }
    }

    static Launch of(Launcher launcher, Gpu.Function function) {
        Launch launch = MINE.get();
        launch.launcher = launcher;
        launch.function = function;
        launch.bytes = 0;
        return launch;
    }

    private int reserve(int size, int alignment) {
        int offset = (bytes + alignment - 1) & -alignment;
        if (offset + size > MAX_BYTES) {
            throw new IllegalStateException("arguments of a kernel exceed " + MAX_BYTES + " bytes");
        }
        bytes = offset + size;
        return offset;
    }

    /** Appends a pointer to a tensor's first element, or a null pointer. */
    Launch tensor(@Nullable Tensor tensor) {
        return i64(tensor == null ? 0 : tensor.address());
    }

    /** Appends a pointer or a 64-bit integer. */
    Launch i64(long value) {
        arguments.set(ValueLayout.JAVA_LONG_UNALIGNED, reserve(8, 8), value);
        return this;
    }

    /** Begins a struct whose alignment is that of its widest field. */
    Launch align(int alignment) {
        reserve(0, alignment);
        return this;
    }

    /** Appends a 32-bit integer. */
    Launch i32(int value) {
        arguments.set(ValueLayout.JAVA_INT_UNALIGNED, reserve(4, 4), value);
        return this;
    }

    /** Appends an array of {@code room} 64-bit integers, of which the first {@code count} are set. */
    Launch i64s(long[] values, int count, int room) {
        MemorySegment.copy(values, 0, arguments, ValueLayout.JAVA_LONG_UNALIGNED, reserve(8 * room, 8), count);
        return this;
    }

    /** Appends an array of {@code room} 32-bit integers, of which the first {@code count} are set. */
    Launch i32s(int[] values, int count, int room) {
        MemorySegment.copy(values, 0, arguments, ValueLayout.JAVA_INT_UNALIGNED, reserve(4 * room, 4), count);
        return this;
    }

    /** Appends a bool. */
    Launch bool(boolean value) {
        arguments.set(ValueLayout.JAVA_BYTE, reserve(1, 1), (byte) (value ? 1 : 0));
        return this;
    }

    /** Appends a float. */
    Launch f32(float value) {
        arguments.set(ValueLayout.JAVA_FLOAT_UNALIGNED, reserve(4, 4), value);
        return this;
    }

    /** Appends a double. */
    Launch f64(double value) {
        arguments.set(ValueLayout.JAVA_DOUBLE_UNALIGNED, reserve(8, 8), value);
        return this;
    }

    /** Appends parameters of a formula in the wide type of {@code type}; at least one, since no C array is empty. */
    Launch parameters(DType type, double[] values) {
        for (int i = 0; i < Math.max(1, values.length); i++) {
            double value = i < values.length ? values[i] : 0;
            switch (Types.wide(type)) {
                case "f32" -> f32((float) value);
                case "f64" -> f64(value);
                default -> i64(Formula.integer(type, value));
            }
        }
        return this;
    }

    /** Appends the size of a dimension as a 32-bit integer. */
    Launch size(Tensor x, int axis) {
        return i32(Math.toIntExact(x.size(axis)));
    }

    /** Appends one 32-bit integer for each of three spatial dimensions, {@code missing} for those that are absent. */
    Launch spatial(int[] values, int missing) {
        for (int d = values.length - 3; d < values.length; d++) {
            i32(d < 0 ? missing : values[d]);
        }
        return this;
    }

    /** Appends the sizes of three spatial dimensions of images or weights, 1 for those that are absent. */
    Launch spatialSizes(Tensor x) {
        for (int d = x.rank() - 3; d < x.rank(); d++) {
            i32(d < 2 ? 1 : Math.toIntExact(x.size(d)));
        }
        return this;
    }

    /** Appends the strides of images or weights with three spatial dimensions, 0 for those that are absent. */
    Launch imageStrides(Tensor x) {
        i64(x.stride(0)).i64(x.stride(1));
        for (int d = x.rank() - 3; d < x.rank(); d++) {
            i64(d < 2 ? 0 : x.stride(d));
        }
        return this;
    }

    /** Appends a struct {@code Fault}, with a number from {@link Faults#register}. */
    Launch fault(int number) {
        return i64(launcher.faults().address()).i32(number).i32(0);
    }

    /** Appends a struct {@code Layout} for {@code operands} operands. */
    Launch layout(Layout layout, int operands) {
        int offset = reserve(Layout.bytes(operands), 8);
        layout.write(arguments, offset, operands);
        return this;
    }

    /**
     * Queues the kernel with at least {@code threads} threads, in blocks of {@link #THREADS}; 0 threads launch nothing.
     */
    void threads(long threads) {
        blocks((threads + THREADS - 1) / THREADS, THREADS);
    }

    /** Queues the kernel with a number of blocks along x; 0 blocks launch nothing. */
    void blocks(long blocks, int threads) {
        if (blocks > 0) {
            grid(Math.toIntExact(blocks), 1, 1, threads);
        }
    }

    /** Queues the kernel with a grid of up to three dimensions. */
    void grid(int x, int y, int z, int threads) {
        Gpu.Grid grid = new Gpu.Grid(x, y, z, threads);
        if (deferred == null) {
            launcher.queue(function, grid, arguments.address(), bytes);
        } else {
            deferred.add(new Prepared(launcher, function, grid,
                    arguments.asSlice(0, bytes).toArray(ValueLayout.JAVA_BYTE)));
        }
    }
}
