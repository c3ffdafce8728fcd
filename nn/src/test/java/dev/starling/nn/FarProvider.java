package dev.starling.nn;

import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.Probe;
import dev.starling.tensor.spi.Uploader;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Provides a device whose memory the host pretends not to access, with the reference backend behind it. Concurrent
 * uploads are performed as late as possible: only when a caller awaits them.
 */
public final class FarProvider implements BackendProvider {
    /** Number of uploads that operations waited for. */
    public static final AtomicInteger UPLOADS = new AtomicInteger();
    /** Number of uploads concurrent with the device's work. */
    public static final AtomicInteger COPIES = new AtomicInteger();
    /** Number of uploaders that have not been closed. */
    public static final AtomicInteger OPEN = new AtomicInteger();
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /** Returns the device. */
    public static Device device() {
        return Device.of("far", 0);
    }

    @Override
    public String type() {
        return "far";
    }

    @Override
    public Probe probe() {
        return new Probe.Ready(1, "the reference device, without host access");
    }

    @Override
    public Backend open(Device device) {
        return new Far(new HostAllocator(), Device.reference().backend());
    }

    private record Far(Allocator memory, Backend near) implements Backend {
        @Override
        public boolean hostVisible() {
            return false;
        }

        @Override
        public Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
            return near.run(op, inputs, outputs);
        }

        @Override
        public void upload(long hostAddress, long deviceAddress, long bytes) {
            UPLOADS.incrementAndGet();
            MemorySegment.copy(ALL, hostAddress, ALL, deviceAddress, bytes);
        }

        @Override
        public void download(long deviceAddress, long hostAddress, long bytes) {
            MemorySegment.copy(ALL, deviceAddress, ALL, hostAddress, bytes);
        }

        @Override
        public Uploader uploader() {
            OPEN.incrementAndGet();
            return new LateUploader();
        }
    }

    private static final class LateUploader implements Uploader {
        private record Copy(byte[] bytes, long to) { }

        private final List<Copy> pending = new ArrayList<>();
        private boolean lent;

        @Override
        public synchronized void lend() {
            lent = true;
        }

        @Override
        public synchronized void copy(long hostAddress, long deviceAddress, long bytes) {
            if (!lent) {
                throw new IllegalStateException("copy() was called before lend()");
            }
            COPIES.incrementAndGet();
            pending.add(new Copy(ALL.asSlice(hostAddress, bytes).toArray(ValueLayout.JAVA_BYTE), deviceAddress));
        }

        @Override
        public synchronized void await() {
            lent = false;
            for (Copy copy : pending) {
                MemorySegment.copy(copy.bytes, 0, ALL, ValueLayout.JAVA_BYTE, copy.to, copy.bytes.length);
            }
            pending.clear();
        }

        @Override
        public void close() {
            await();
            OPEN.decrementAndGet();
        }
    }
}
