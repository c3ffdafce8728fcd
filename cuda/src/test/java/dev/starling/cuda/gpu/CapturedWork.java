package dev.starling.cuda.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/** A graph of an emulated GPU: the queued work, with copies of the kernels' arguments. */
public final class CapturedWork implements Gpu.Graph {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private static final AtomicLong RUNS = new AtomicLong();

    private final List<Runnable> work = new ArrayList<>();
    private final List<MemorySegment> arguments = new ArrayList<>();
    private String invalidatedBy;
    private boolean closed;

    /** Returns the number of graph launches in this process. */
    public static long runs() {
        return RUNS.get();
    }

    /** Captures work without arguments. */
    public void add(Runnable what) {
        work.add(what);
    }

    /** Captures a kernel, which gets the address of its current arguments when it runs. */
    public void add(long address, int bytes, LongConsumer kernel) {
        MemorySegment copy = Arena.ofAuto().allocate(bytes, 16).copyFrom(ALL.asSlice(address, bytes));
        arguments.add(copy);
        work.add(() -> kernel.accept(copy.address()));
    }

    /** Invalidates the graph, as a driver does, and returns the exception to throw. */
    public GpuException invalidate(String reason) {
        invalidatedBy = reason;
        return new GpuException("error 900, operation not permitted when stream is capturing: " + reason);
    }

    /** Ends the capture; throws if the graph was invalidated. */
    public void end() {
        if (invalidatedBy != null) {
            throw new GpuException("error 901, operation failed due to a previous error during capture: "
                    + invalidatedBy);
        }
    }

    @Override
    public void arguments(int kernel, long address, int bytes) {
        requireOpen();
        if (arguments.get(kernel).byteSize() != bytes) {
            throw new GpuException("error 1, invalid argument: " + bytes + " bytes of arguments");
        }
        arguments.get(kernel).copyFrom(ALL.asSlice(address, bytes));
    }

    @Override
    public void launch(Gpu.Stream stream) {
        requireOpen();
        RUNS.incrementAndGet();
        work.forEach(Runnable::run);
    }

    private void requireOpen() {
        if (closed) {
            throw new GpuException("error 400, invalid resource handle");
        }
    }

    @Override
    public void close() {
        requireOpen();
        closed = true;
    }
}
