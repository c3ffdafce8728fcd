package dev.starling.cuda.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** A GPU with memory of the host's that copies but runs no kernel: whatever one should have written stays as it was. */
public final class IdleGpu implements Gpu {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private final Compiler compiler;
    private final Map<Long, Arena> lent = new ConcurrentHashMap<>();

    private record Timeless() implements Stream, Event, Function { }

    /** Makes a GPU that asks {@code compiler} for its kernels. */
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
        Arena arena = Arena.ofShared();
        long address = arena.allocate(bytes, 256).address();
        lent.put(address, arena);
        return address;
    }

    @Override
    public void free(long address) {
        lent.remove(address).close();
    }

    @Override
    public long freeBytes() {
        return Long.MAX_VALUE;
    }

    @Override
    public long allocatePinned(long bytes) {
        return allocate(bytes);
    }

    @Override
    public void freePinned(long address) {
        free(address);
    }

    @Override
    public Stream stream() {
        return new Timeless();
    }

    @Override
    public Event event() {
        return new Timeless();
    }

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
    public void upload(long host, long device, long bytes, Stream stream) {
        MemorySegment.copy(ALL, host, ALL, device, bytes);
    }

    @Override
    public void download(long device, long host, long bytes, Stream stream) {
        MemorySegment.copy(ALL, device, ALL, host, bytes);
    }

    @Override
    public void copy(long from, long to, long bytes, Stream stream) {
        MemorySegment.copy(ALL, from, ALL, to, bytes);
    }

    @Override
    public void fill(long address, byte value, long bytes, Stream stream) {
        ALL.asSlice(address, bytes).fill(value);
    }

    @Override
    public Image load(byte[] program) {
        return name -> new Timeless();
    }

    @Override
    public void launch(Function function, Grid grid, Stream stream, long arguments, int bytes) { }

    @Override
    public void beginCapture(Stream stream) { }

    @Override
    public Graph endCapture(Stream stream) {
        throw new GpuException("an idle GPU takes nothing down");
    }
}
