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
 * Devices that the processor plays, whose memory the host claims not to see. Copies beside their work come late; work
 * that is asked for after a copy to the device waits for it.
 */
public final class ApartDevices implements BackendProvider {
    /** How many copies there were beside the devices' work. */
    public static final AtomicLong COPIES = new AtomicLong();
    /** How many pieces of memory are pinned. */
    public static final AtomicInteger PINNED = new AtomicInteger();

    /** What is wrong with copies from devices. */
    public enum Fault {
        /** Nothing. */
        NONE,
        /** They are errors. */
        FAILING,
        /** They do not end. */
        HANGING
    }

    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final long LATEST_NS = 500_000;

    private static volatile Fault fault = Fault.NONE;

    /** Returns a rank's device. */
    public static Device of(int rank) {
        return Device.of("apart", rank);
    }

    /** Forgets the count, and lets copies go wrong from now on. */
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
        return new Apart(Device.cpu().backend(), stream("down of " + device), stream("up of " + device),
                new AtomicInteger());
    }

    private static ExecutorService stream(String name) {
        return Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().name(name).factory());
    }

    private record Apart(Backend processor, ExecutorService down, ExecutorService up, AtomicInteger uploads)
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
                    return new Late(Apart.this, hostAddress + offset, size, new AtomicInteger());
                }

                @Override
                public void close() {
                    PINNED.decrementAndGet();
                }
            };
        }
    }

    private record Late(Apart device, long host, long bytes, AtomicInteger underWay) implements PinnedMemory.Part {
        @Override
        public void download(long deviceAddress) {
            Fault now = fault;
            begin(device.down, () -> {
                if (now == Fault.NONE) {
                    MemorySegment.copy(ALL, deviceAddress, ALL, host, bytes);
                    underWay.decrementAndGet();
                }
            });
        }

        @Override
        public void upload(long deviceAddress) {
            device.uploads.incrementAndGet();
            begin(device.up, () -> {
                MemorySegment.copy(ALL, host, ALL, deviceAddress, bytes);
                underWay.decrementAndGet();
                device.uploads.decrementAndGet();
            });
        }

        private void begin(ExecutorService stream, Runnable copy) {
            if (underWay.getAndIncrement() > 0) {
                throw new AssertionError("a copy is under way");
            }
            COPIES.incrementAndGet();
            long late = ThreadLocalRandom.current().nextLong(LATEST_NS);
            stream.execute(() -> {
                LockSupport.parkNanos(late);
                copy.run();
            });
        }

        @Override
        public boolean isDone() {
            if (underWay.get() > 0 && fault == Fault.FAILING) {
                throw new TensorException(TensorException.Problem.DEVICE, "copy", List.of(), "it broke", "mend it");
            }
            return underWay.get() == 0;
        }

        @Override
        public void close() {
            if (underWay.get() > 0 && fault != Fault.FAILING) {
                throw new AssertionError("a copy is under way");
            }
        }
    }
}
