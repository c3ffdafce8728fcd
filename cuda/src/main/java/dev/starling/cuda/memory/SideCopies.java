package dev.starling.cuda.memory;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.Submissions;
import dev.starling.tensor.spi.Uploader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Uploads on a stream of their own, beside the kernels. Two events order each: the copies run after the work that was
 * queued when their memory was lent, and kernels queued after the wait run after the copies. If memory is freed while
 * a copy into it is under way, later kernels first wait for that copy.
 */
public final class SideCopies {
    private static final int BUFFERS = 4;

    private final Gpu gpu;
    private final Gpu.Stream compute;
    private final Gpu.Stream stream;
    private final Staging staging;
    private final Submissions submissions;
    /** Uploaders with copies that no kernel waits for yet; guarded by itself. */
    private final List<Side> underWay = new ArrayList<>();
    private volatile boolean any;

    /**
     * Creates the stream.
     *
     * @param compute the stream of the kernels
     * @param submissions the entry to the device
     */
    public SideCopies(Gpu gpu, Gpu.Stream compute, Submissions submissions) {
        this(gpu, compute, submissions, Staging.PIECE);
    }

    /** Creates the stream with pinned buffers of {@code piece} bytes. */
    SideCopies(Gpu gpu, Gpu.Stream compute, Submissions submissions, long piece) {
        this.gpu = gpu;
        this.compute = compute;
        this.submissions = submissions;
        stream = gpu.stream();
        staging = new Staging(gpu, stream, BUFFERS, piece);
    }

    /** Makes an uploader. */
    public Uploader uploader() {
        return new Side();
    }

    /** Makes later kernels run after copies into a block. Called before the block is handed out again. */
    void settle(long address, long capacity) {
        if (!any) {
            return;
        }
        synchronized (underWay) {
            for (int i = underWay.size() - 1; i >= 0; i--) {
                if (underWay.get(i).writesTo(address, capacity)) {
                    underWay.get(i).settle();
                }
            }
        }
    }

    /**
     * Makes later kernels run after all copies. Called before a capture of the stream, which cannot wait for other
     * streams: memory freed during the capture is then no longer written to, as long as no thread begins a copy.
     */
    public void settle() {
        synchronized (underWay) {
            for (Side side : List.copyOf(underWay)) {
                side.settle();
            }
        }
    }

    private final class Side implements Uploader {
        private final Gpu.Event lent = gpu.event();
        private final Gpu.Event done = gpu.event();
        /** Target addresses of the copies under way; guarded by {@code underWay}. */
        private long[] targets = new long[4];
        private int count;

        @Override
        public void lend() {
            submissions.queueCopy("lend", () -> gpu.record(lent, compute));
        }

        @Override
        public void copy(long hostAddress, long deviceAddress, long bytes) {
            if (bytes > 0) {
                submissions.queueCopy("upload", () -> upload(hostAddress, deviceAddress, bytes));
            }
        }

        private void upload(long hostAddress, long deviceAddress, long bytes) {
            gpu.await(lent, stream);
            try {
                staging.upload(hostAddress, deviceAddress, bytes);
            } finally {
                // After a failure too: pieces may be under way.
                synchronized (underWay) {
                    gpu.record(done, stream);
                    add(deviceAddress);
                }
            }
            submissions.settle(gpu, stream);
        }

        private void add(long target) {
            if (count == 0) {
                underWay.add(this);
                any = true;
            }
            for (int i = 0; i < count; i++) {
                if (targets[i] == target) {
                    return;
                }
            }
            if (count == targets.length) {
                targets = Arrays.copyOf(targets, 2 * count);
            }
            targets[count++] = target;
        }

        private boolean writesTo(long address, long capacity) {
            for (int i = 0; i < count; i++) {
                if (targets[i] >= address && targets[i] < address + capacity) {
                    return true;
                }
            }
            return false;
        }

        private void settle() {
            gpu.await(done, compute);
            count = 0;
            underWay.remove(this);
            any = !underWay.isEmpty();
        }

        private void settleIfCopying() {
            synchronized (underWay) {
                if (count > 0) {
                    settle();
                }
            }
        }

        @Override
        public void await() {
            submissions.queueCopy("await", this::settleIfCopying);
        }

        @Override
        public void close() {
            submissions.queueCopy("close", () -> {
                settleIfCopying();
                gpu.closeEvent(lent);
                gpu.closeEvent(done);
            });
        }
    }
}
