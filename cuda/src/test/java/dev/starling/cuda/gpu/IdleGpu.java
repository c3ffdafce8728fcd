package dev.starling.cuda.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A GPU that does nothing: its memory consists of addresses only and is unlimited, and copies from it are zeros.
 */
public final class IdleGpu implements Gpu {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final long ALIGNMENT = 256;

    private final Compiler compiler;
    /** Starts at addresses that no present process uses. */
    private final AtomicLong next = new AtomicLong(1L << 56);

    private record Idle() implements Stream, Event, Function { }

    /** Makes a GPU whose kernels {@code compiler} compiles. */
    public IdleGpu(Compiler compiler) {
        this.compiler = compiler;
    }

    @Override
    public String name() {
        return "idle GPU";
    }

    @Override
    public String architecture() {
        return "none";
    }

    @Override
    public int processors() {
        return 132;
    }

    @Override
    public Compiler compiler() {
        return compiler;
    }

    @Override
    public long allocate(long bytes) {
        return next.getAndAdd((bytes + ALIGNMENT - 1) & -ALIGNMENT);
    }

    @Override
    public void free(long address) { }

    @Override
    public long freeBytes() {
        return Long.MAX_VALUE;
    }

    @Override
    public long allocatePinned(long bytes) {
        return Arena.global().allocate(bytes, ALIGNMENT).address();
    }

    @Override
    public void freePinned(long address) { }

    @Override
    public Stream stream() {
        return new Idle();
    }

    @Override
    public Event event() {
        return new Idle();
    }

    @Override
    public void closeEvent(Event event) { }

    @Override
    public void record(Event event, Stream stream) { }

    @Override
    public boolean isDone(Event event) {
        return true;
    }

    @Override
    public void await(Event event) { }

    @Override
    public void await(Event event, Stream stream) { }

    @Override
    public void synchronize(Stream stream) { }

    @Override
    public void upload(long host, long device, long bytes, Stream stream) { }

    @Override
    public void download(long device, long host, long bytes, Stream stream) {
        ALL.asSlice(host, bytes).fill((byte) 0);
    }

    @Override
    public void copy(long from, long to, long bytes, Stream stream) { }

    @Override
    public void fill(long address, byte value, long bytes, Stream stream) { }

    @Override
    public Image load(byte[] program) {
        return name -> new Idle();
    }

    @Override
    public void launch(Function function, Grid grid, Stream stream, long arguments, int bytes) { }

    @Override
    public void beginCapture(Stream stream) { }

    @Override
    public Graph endCapture(Stream stream) {
        return new Graph() {
            @Override
            public void arguments(int kernel, long arguments, int bytes) { }

            @Override
            public void launch(Stream on) { }

            @Override
            public void close() { }
        };
    }
}
