package dev.starling.distributed.ring;

import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.PinnedMemory;
import dev.starling.tensor.spi.Probe;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Devices emulated by the processor, with memory that the host treats as invisible. Asynchronous copies are delayed;
 * device work that is queued after a copy to the device waits for it.
 */
public final class StagedDevices implements BackendProvider {
    /** Number of asynchronous copies. */
    public static final AtomicLong COPIES = new AtomicLong();
    /** Number of pinned pieces of memory. */
    public static final AtomicInteger PINNED = new AtomicInteger();

    /** Faults of copies from devices. */
    public enum Fault {
        /** No fault. */
        NONE,
        /** Copies fail. */
        FAILING,
        /** Copies do not end. */
        HANGING
    }

    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final long MAX_DELAY_NS = 500_000;

    private static volatile Fault fault = Fault.NONE;

    /** Returns the device of a rank. */
    public static Device of(int rank) {
        return Device.of("apart", rank);
    }

    /** Resets the counter, and sets the fault of copies from now on. */
    public static void reset(Fault next) {
        fault = next;
        COPIES.set(0);
    }

    @Override
    public String type() {
        return "apart";
    }

    @Override
    public Probe probe() {
        return new Probe.Ready(4, "devices apart");
    }

    @Override
    public Backend open(Device device) {
        return new StagedBackend(Device.cpu().backend(), stream("down of " + device), stream("up of " + device),
                new AtomicInteger());
    }

    private static ExecutorService stream(String name) {
        return Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().name(name).factory());
    }

    private record StagedBackend(Backend processor, ExecutorService down, ExecutorService up, AtomicInteger uploads)
            implements Backend {
        @Override
        public Allocator memory() {
            return processor.memory();
        }

        @Override
        public boolean hostVisible() {
            return false;
        }

        private void awaitUploads() {
            while (uploads.get() > 0) {
                Thread.onSpinWait();
            }
        }

        @Override
        public Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
            awaitUploads();
            return processor.run(op, inputs, outputs);
        }

        @Override
        public void upload(long hostAddress, long deviceAddress, long bytes) {
            awaitUploads();
            MemorySegment.copy(ALL, hostAddress, ALL, deviceAddress, bytes);
        }

        @Override
        public void download(long deviceAddress, long hostAddress, long bytes) {
            awaitUploads();
            MemorySegment.copy(ALL, deviceAddress, ALL, hostAddress, bytes);
        }

        @Override
        public PinnedMemory pin(long hostAddress, long bytes) {
            PINNED.incrementAndGet();
            return new PinnedMemory() {
                @Override
                public Part part(long offset, long size) {
                    if (offset < 0 || size < 0 || offset + size > bytes) {
                        throw new AssertionError(size + " bytes at " + offset + " of " + bytes);
                    }
                    return new DelayedPart(StagedBackend.this, hostAddress + offset, size, new AtomicInteger());
                }

                @Override
                public void close() {
                    PINNED.decrementAndGet();
                }
            };
        }
    }

    private record DelayedPart(StagedBackend device, long host, long bytes, AtomicInteger inFlight)
            implements PinnedMemory.Part {
        @Override
        public void download(long deviceAddress) {
            Fault now = fault;
            begin(device.down, () -> {
                if (now == Fault.NONE) {
                    MemorySegment.copy(ALL, deviceAddress, ALL, host, bytes);
                    inFlight.decrementAndGet();
                }
            });
        }

        @Override
        public void upload(long deviceAddress) {
            device.uploads.incrementAndGet();
            begin(device.up, () -> {
                MemorySegment.copy(ALL, host, ALL, deviceAddress, bytes);
                inFlight.decrementAndGet();
                device.uploads.decrementAndGet();
            });
        }

        private void begin(ExecutorService stream, Runnable copy) {
            if (inFlight.getAndIncrement() > 0) {
                throw new AssertionError("a copy is in flight");
            }
            COPIES.incrementAndGet();
            long late = ThreadLocalRandom.current().nextLong(MAX_DELAY_NS);
            stream.execute(() -> {
                LockSupport.parkNanos(late);
                copy.run();
            });
        }

        @Override
        public boolean isDone() {
            if (inFlight.get() > 0 && fault == Fault.FAILING) {
                throw new TensorException(TensorException.Problem.DEVICE, "copy", List.of(), "it broke", "mend it");
            }
            return inFlight.get() == 0;
        }

        @Override
        public void close() {
            if (inFlight.get() > 0 && fault != Fault.FAILING) {
                throw new AssertionError("a copy is in flight");
            }
        }
    }
}
