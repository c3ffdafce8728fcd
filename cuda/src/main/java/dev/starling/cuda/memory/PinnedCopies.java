package dev.starling.cuda.memory;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.tensor.spi.PinnedMemory;

/**
 * Copies between the device and pinned host memory, on one stream for each direction, beside the kernels. Events order
 * them: a copy runs after the work queued before it, and kernels queued after an upload run after the upload. Before a
 * caller reads or refills the host memory, it asks whether the copy is done.
 */
public final class PinnedCopies {
    private final Gpu gpu;
    private final Gpu.Stream compute;
    private final Submissions submissions;
    /** Both streams are created at the first use. */
    @SuppressWarnings("NullAway.Init")
    private Gpu.Stream down;
    @SuppressWarnings("NullAway.Init")
    private Gpu.Stream up;

    /**
     * Creates no streams yet.
     *
     * @param compute the stream of the kernels
     * @param submissions the entry to the device
     */
    public PinnedCopies(Gpu gpu, Gpu.Stream compute, Submissions submissions) {
        this.gpu = gpu;
        this.compute = compute;
        this.submissions = submissions;
    }

    /**
     * Page-locks host memory, so that the device copies it directly.
     *
     * @throws GpuException if the machine refuses
     */
    public synchronized PinnedMemory pin(long address, long bytes) {
        // The streams come first: memory that is page-locked has an owner that reverts it.
        down = down == null ? gpu.stream() : down;
        up = up == null ? gpu.stream() : up;
        gpu.pin(address, bytes);
        return new Pinned(address);
    }

    private final class Pinned implements PinnedMemory {
        private final long address;

        Pinned(long address) {
            this.address = address;
        }

        @Override
        public Part part(long offset, long bytes) {
            return new Side(address + offset, bytes);
        }

        @Override
        public void close() {
            submissions.queueCopy("unpin", () -> gpu.unpin(address));
        }
    }

    private final class Side implements PinnedMemory.Part {
        private final long host;
        private final long bytes;
        /** Recorded on the kernels' stream before a copy. */
        private final Gpu.Event before = gpu.event();
        private final Gpu.Event downloaded = gpu.event();
        private final Gpu.Event uploaded = gpu.event();

        Side(long host, long bytes) {
            this.host = host;
            this.bytes = bytes;
        }

        @Override
        public void download(long deviceAddress) {
            copy("download", () -> {
                follow(down);
                gpu.download(deviceAddress, host, bytes, down);
                gpu.record(downloaded, down);
                submissions.settle(gpu, down);
            });
        }

        @Override
        public void upload(long deviceAddress) {
            copy("upload", () -> {
                follow(up);
                gpu.upload(host, deviceAddress, bytes, up);
                gpu.record(uploaded, up);
                gpu.await(uploaded, compute);
                submissions.settle(gpu, up);
            });
        }

        private void copy(String name, Runnable copy) {
            if (bytes > 0) {
                submissions.queueCopy(name, copy);
            }
        }

        private void follow(Gpu.Stream side) {
            gpu.record(before, compute);
            gpu.await(before, side);
        }

        @Override
        public boolean isDone() {
            return submissions.named("copy", () -> gpu.isDone(downloaded) && gpu.isDone(uploaded));
        }

        @Override
        public void close() {
            submissions.queueCopy("close", () -> {
                gpu.closeEvent(before);
                gpu.closeEvent(downloaded);
                gpu.closeEvent(uploaded);
            });
        }
    }
}
