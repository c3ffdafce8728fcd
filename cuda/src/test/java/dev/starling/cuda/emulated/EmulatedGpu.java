package dev.starling.cuda.emulated;

import dev.starling.cuda.gpu.Compiler;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.CapturedWork;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A GPU emulated by the host: its memory is host memory, and queued work is done immediately. Kernels have the same
 * sources, compiled by {@link GnuCompiler}. A barrier that not all threads of a block reach is an error.
 */
final class EmulatedGpu implements Gpu {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private final Map<Long, Arena> arenas = new ConcurrentHashMap<>();
    private final Map<Long, Long> sizes = new HashMap<>();
    private final MemorySegment dimensions = Arena.ofAuto().allocate(24, 8);
    private final int seed;

    /**
     * Work is done immediately, except what fake libraries do in the background: they count it at the handle's address.
     */
    private static final class Order implements Stream {
        private static final VarHandle COUNT = ValueLayout.JAVA_LONG.varHandle();

        /** The capture in progress, or {@code null}. */
        private CapturedWork capture;
        private final MemorySegment underWay = Arena.ofAuto().allocate(ValueLayout.JAVA_LONG);

        @Override
        public long address() {
            return underWay.address();
        }

        boolean isDone() {
            return (long) COUNT.getVolatile(underWay, 0L) == 0;
        }

        void settle() {
            if (capture != null) {
                throw capture.invalidate("waits for a stream that is being captured");
            }
            while (!isDone()) {
                Thread.onSpinWait();
            }
        }
    }

    private static final class Mark implements Event {
        private volatile Order order;
    }

    private record Kernel(String name, MethodHandle handle) implements Function { }

    /** Makes a GPU whose seed determines the order of blocks and warps. */
    EmulatedGpu(int seed) {
        this.seed = seed;
    }

    @Override
    public String name() {
        return "emulated GPU";
    }

    @Override
    public String architecture() {
        return "host";
    }

    @Override
    public int processors() {
        return 4;
    }

    @Override
    public Compiler compiler() {
        return Emulation.compiler();
    }

    @Override
    public synchronized long allocate(long bytes) {
        if (!Emulation.reserve(bytes)) {
            return 0;
        }
        long address = allocatePinned(bytes);
        sizes.put(address, bytes);
        return address;
    }

    @Override
    public synchronized void free(long address) {
        Emulation.reserve(-sizes.remove(address));
        freePinned(address);
    }

    @Override
    public long freeBytes() {
        return Runtime.getRuntime().maxMemory();
    }

    @Override
    public long allocatePinned(long bytes) {
        Arena arena = Arena.ofShared();
        long address = arena.allocate(bytes, 256).address();
        arenas.put(address, arena);
        return address;
    }

    @Override
    public void freePinned(long address) {
        arenas.remove(address).close();
    }

    @Override
    public Stream stream() {
        return new Order();
    }

    @Override
    public Event event() {
        return new Mark();
    }

    @Override
    public void closeEvent(Event event) { }

    @Override
    public void record(Event event, Stream stream) {
        if (((Order) stream).capture != null) {
            throw ((Order) stream).capture.invalidate("records an event in a stream that is being captured");
        }
        ((Mark) event).order = (Order) stream;
    }

    @Override
    public boolean isDone(Event event) {
        Order order = ((Mark) event).order;
        return order == null || order.isDone();
    }

    @Override
    public void await(Event event) {
        if (((Mark) event).order != null) {
            ((Mark) event).order.settle();
        }
    }

    @Override
    public void await(Event event, Stream stream) {
        if (((Order) stream).capture != null) {
            throw ((Order) stream).capture.invalidate("waits for work that is not captured");
        }
        await(event);
    }

    @Override
    public void synchronize(Stream stream) {
        ((Order) stream).settle();
    }

    @Override
    public void upload(long host, long device, long bytes, Stream stream) {
        synchronize(stream);
        MemorySegment.copy(ALL, host, ALL, device, bytes);
    }

    @Override
    public void download(long device, long host, long bytes, Stream stream) {
        synchronize(stream);
        MemorySegment.copy(ALL, device, ALL, host, bytes);
    }

    @Override
    public void copy(long from, long to, long bytes, Stream stream) {
        if (((Order) stream).capture != null) {
            ((Order) stream).capture.add(() -> copy(from, to, bytes, stream));
            return;
        }
        synchronize(stream);
        MemorySegment.copy(ALL, from, ALL, to, bytes);
    }

    @Override
    public void fill(long address, byte value, long bytes, Stream stream) {
        if (((Order) stream).capture != null) {
            ((Order) stream).capture.add(() -> fill(address, value, bytes, stream));
            return;
        }
        synchronize(stream);
        ALL.asSlice(address, bytes).fill(value);
    }

    @Override
    public Image load(byte[] program) {
        try {
            Path file = Files.createTempFile("starling-emulated", ".so");
            int end = program.length - GnuCompiler.TRAILER;
            Files.write(file, Arrays.copyOf(program, end));
            String prefix = new String(program, end, GnuCompiler.TRAILER - 1, StandardCharsets.US_ASCII);
            SymbolLookup library = SymbolLookup.libraryLookup(file, Arena.global());
            Files.delete(file);
            return name -> new Kernel(name, Linker.nativeLinker().downcallHandle(
                    library.find(prefix + name + "_launch").orElseThrow(
                    () -> new GpuException("there is no kernel " + name)),
                    FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public synchronized void launch(Function function, Grid grid, Stream stream, long arguments, int bytes) {
        check(grid);
        if (((Order) stream).capture != null) {
            ((Order) stream).capture.add(arguments, bytes, copy -> launch(function, grid, stream, copy, bytes));
            return;
        }
        synchronize(stream);
        dimensions.setAtIndex(ValueLayout.JAVA_INT, 0, grid.x());
        dimensions.setAtIndex(ValueLayout.JAVA_INT, 1, grid.y());
        dimensions.setAtIndex(ValueLayout.JAVA_INT, 2, grid.z());
        dimensions.setAtIndex(ValueLayout.JAVA_INT, 3, grid.threads());
        dimensions.setAtIndex(ValueLayout.JAVA_INT, 4, seed);
        dimensions.setAtIndex(ValueLayout.JAVA_INT, 5, bytes);
        try {
            Kernel kernel = (Kernel) function;
            int error = (int) kernel.handle.invokeExact(dimensions.address(), arguments);
            if (error != 0) {
                throw new GpuException("kernel " + kernel.name + ": " + describe(error, grid, bytes));
            }
        } catch (RuntimeException e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Describes an {@code Error} of the emulator. */
    private static String describe(int error, Grid grid, int bytes) {
        int more = error >>> 4;
        return switch (error & 15) {
            case 1 -> "some threads of a block wait at a barrier that others never reach";
            case 2 -> "the kernel's parameters take " + more + " bytes, the launch has " + bytes;
            case 3 -> "the kernel allows at most " + more + " threads in a block, the launch has " + grid.threads();
            case 4 -> "line " + (more >>> 8) + " of its source accesses an address that is no multiple of "
                    + (more & 255);
            default -> throw new AssertionError("error " + error);
        };
    }

    @Override
    public void beginCapture(Stream stream) {
        synchronize(stream);
        ((Order) stream).capture = new CapturedWork();
    }

    @Override
    public Graph endCapture(Stream stream) {
        CapturedWork captured = ((Order) stream).capture;
        ((Order) stream).capture = null;
        captured.end();
        return captured;
    }

    /** Checks what a driver would refuse. */
    private static void check(Grid grid) {
        if (grid.x() < 1 || grid.y() < 1 || grid.y() > 65535 || grid.z() < 1 || grid.z() > 65535 || grid.threads() < 1
                || grid.threads() > 1024) {
            throw new GpuException("cuLaunchKernel: error 1, invalid argument: " + grid);
        }
    }
}
