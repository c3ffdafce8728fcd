package dev.starling.nn.data;

import com.lmax.disruptor.AlertException;
import com.lmax.disruptor.RingBuffer;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.SequenceBarrier;
import com.lmax.disruptor.TimeoutException;
import dev.starling.tensor.Device;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * Makes batches ahead of their use: worker threads decode and augment into the slots of an LMAX Disruptor ring. Batches
 * come in an order that depends on seed and epoch alone, whatever the number of workers. The steady state allocates
 * no memory for data; idle workers sleep.
 *
 * <pre>{@code
 * try (DataLoader loader = DataLoader.of(images).batchSize(64).workers(2).shuffle().build()) {
 *     for (Batch batch : loader.epoch(0)) { ... }
 * }
 * }</pre>
 *
 * <p>Used by one thread at a time.
 */
public final class DataLoader implements AutoCloseable {
    private static final long CLOSING_MS = 10_000;

    private final Builder how;
    private final RingBuffer<Batch> ring;
    private final SequenceBarrier filled;
    private final SequenceBarrier published;
    private final Thread[] threads;
    /** Up to where the reader is done. */
    private final Sequence read = new Sequence();
    private final Example own;
    private Share share = Share.WHOLE;
    private Device device = Device.cpu();
    private EpochPlan plan;
    private Epoch current;
    private boolean closed;

    private DataLoader(Builder how) {
        this.how = how;
        plan = EpochPlan.of(0, how, share);
        ParkingWaitStrategy waiting = new ParkingWaitStrategy(how.deadline.toNanos());
        ring = RingBuffer.createMultiProducer(() -> new Batch(how.dataset.fields()),
                how.workers == 0 ? 1 : how.prefetch, waiting);
        ring.addGatingSequences(read);
        published = ring.newBarrier();
        own = new Example(how.dataset.fields(), how.seed);
        threads = new Thread[how.workers];
        Sequence[] done = new Sequence[how.workers];
        for (int i = 0; i < threads.length; i++) {
            LoaderWorker worker = new LoaderWorker(how, ring, published, waiting, i);
            done[i] = worker.done;
            threads[i] = Thread.ofPlatform().daemon().name("starling-loader-" + i).start(worker);
        }
        filled = ring.newBarrier(done);
    }

    /** Begins a loader over a data set. */
    public static Builder of(Dataset dataset) {
        return new Builder(dataset);
    }

    /** Returns the number of examples of the data set. */
    public int size() {
        return how.dataset.size();
    }

    /** Returns what this process takes of the data: everything, unless told. */
    public Share share() {
        return share;
    }

    /**
     * Sets what this process takes of the data, from the next call of {@link #epoch} on, which may be in the midst of
     * an epoch. Keeps threads and memory.
     */
    public DataLoader share(Share taken) {
        share = taken;
        plan = plan.with(taken, how);
        return this;
    }

    /** Returns where batches are delivered: the CPU, unless told. */
    public Device device() {
        return device;
    }

    /**
     * Sets where batches are delivered, from the next call of {@link #epoch} on. Workers upload what they have made
     * while earlier batches are computed with; where the host sees the device's memory, batches stay on the CPU. A
     * {@link dev.starling.nn.train.Trainer} sets this to the device of its model for as long as it runs.
     */
    public DataLoader device(Device target) {
        device = target;
        return this;
    }

    /** Returns the number of batches in an epoch: alike on all ranks. */
    public int batches() {
        return plan.batches();
    }

    /** Returns the number of examples that an epoch delivers, on all ranks together where they share batches. */
    public long examples() {
        return Math.min(plan.examples(), (long) plan.batches() * how.batchSize);
    }

    /** Returns the number of examples in {@code count} batches, on all ranks together where they share batches. */
    public long rows(int firstBatch, int count) {
        if (firstBatch < 0 || count < 0 || count > plan.batches() - firstBatch) {
            throw TensorException.argument("data loader", "an epoch has " + plan.batches() + " batches, got " + count
                    + " from batch " + firstBatch + " on", "ask for batches of the epoch");
        }
        long rows = 0;
        for (int i = 0; i < count; i++) {
            rows += plan.rows(firstBatch + i);
        }
        return rows;
    }

    /** Returns the number of examples in a full batch, of all ranks where they share it. */
    public int batchSize() {
        return how.batchSize;
    }

    /** Returns what decides the order of examples and their augmentation, besides the epoch. */
    public long seed() {
        return how.seed;
    }

    /** Begins a pass over the data; one that is under way ends. */
    public Iterable<Batch> epoch(int epoch) {
        return epoch(epoch, 0);
    }

    /**
     * Begins a pass over the data at a batch in its midst: where a checkpoint left off.
     *
     * @throws LoadException while iterating, if an example cannot be read (the next batch can still be asked for), or
     *     if no batch comes within the deadline
     */
    public Iterable<Batch> epoch(int epoch, int firstBatch) {
        if (closed) {
            throw LoadException.ofClosed(null);
        }
        discard();
        plan = epoch == plan.epoch() ? plan : EpochPlan.of(epoch, how, share);
        current = new Epoch(plan, firstBatch, device);
        current.publishAhead();
        return () -> current;
    }

    /** Waits until no worker writes into a slot, and frees them all. */
    private void discard() {
        if (current != null) {
            long last = ring.getCursor();
            if (how.workers > 0) {
                await(last, "the batches in flight");
            }
            read.set(last);
            current.next = current.plan.batches();
            current.toPublish = current.plan.batches();
        }
    }

    private void await(long sequence, String what) {
        try {
            filled.waitFor(sequence);
        } catch (TimeoutException e) {
            throw new LoadException("waited " + how.deadline + " for " + what + "; a worker hangs in Dataset.write, or"
                    + " set a longer deadline", -1, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LoadException("interrupted while waiting for " + what, -1, e);
        } catch (AlertException e) {
            throw LoadException.ofClosed(e);
        }
    }

    /**
     * Stops the workers and waits for them. Batches already handed out stay readable as long as they are held, unless
     * they were delivered to a device whose memory the host does not see.
     */
    @Override
    public void close() {
        closed = true;
        published.alert();
        filled.alert();
        boolean interrupted = false;
        for (Thread thread : threads) {
            thread.interrupt();
            try {
                if (!thread.join(Duration.ofMillis(CLOSING_MS))) {
                    throw new LoadException(thread.getName() + " does not end; it hangs in Dataset.write", -1, null);
                }
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        for (int i = 0; i < ring.getBufferSize(); i++) {
            ring.get(i).close();
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private final class Epoch implements Iterator<Batch> {
        private final EpochPlan plan;
        private final Device target;
        private int toPublish;
        private int next;

        Epoch(EpochPlan plan, int first, Device target) {
            this.plan = plan;
            this.target = target;
            toPublish = first;
            next = first;
        }

        @Override
        public boolean hasNext() {
            return next < plan.batches() && this == current;
        }

        @Override
        public Batch next() {
            if (!hasNext()) {
                throw new NoSuchElementException("the epoch is over");
            }
            // Everything published so far but this epoch's batches from next on has been read.
            long sequence = ring.getCursor() + 1 - (toPublish - next);
            read.set(sequence - 1);
            publishAhead();
            Batch batch = ring.get(sequence);
            if (how.workers == 0) {
                LoaderWorker.fill(how.dataset, batch, own);
            } else {
                await(sequence, "batch " + next + " of epoch " + plan.epoch());
            }
            next++;
            if (batch.failure != null) {
                throw batch.failure;
            }
            batch.receive();
            return batch;
        }

        private void publishAhead() {
            while (toPublish < plan.batches() && ring.hasAvailableCapacity(1)) {
                long sequence = ring.next();
                ring.get(sequence).assign(plan, toPublish++, target);
                ring.publish(sequence);
            }
        }
    }

    /** Gathers what a loader is made of. */
    public static final class Builder {
        final Dataset dataset;
        int batchSize = 32;
        int workers = 1;
        int prefetch = 4;
        boolean shuffle;
        boolean dropLast;
        long seed;
        Duration deadline = Duration.ofSeconds(60);

        private Builder(Dataset dataset) {
            this.dataset = dataset;
        }

        /** Sets how many examples make a batch, of all ranks where they share it; 32 unless told. */
        public Builder batchSize(int examples) {
            require(examples > 0, "the batch size must be > 0, got " + examples);
            batchSize = examples;
            return this;
        }

        /** Sets the number of worker threads; 1 unless told, 0 for none: then batches are made when asked for. */
        public Builder workers(int count) {
            require(count >= 0, "workers must be >= 0, got " + count);
            workers = count;
            return this;
        }

        /** Sets how many batches may be ready or in the making; a power of two, 4 unless told. */
        public Builder prefetch(int slots) {
            require(Integer.bitCount(slots) == 1 && slots > 1, "prefetch must be a power of two above 1, got " + slots);
            prefetch = slots;
            return this;
        }

        /** Takes the examples of each epoch in a random order. */
        public Builder shuffle() {
            shuffle = true;
            return this;
        }

        /** Sets what, with the epoch, decides order and augmentation; 0 unless told. */
        public Builder seed(long value) {
            seed = value;
            return this;
        }

        /** Leaves a last batch out that would be smaller than the others. */
        public Builder dropLast() {
            dropLast = true;
            return this;
        }

        /** Sets how long a batch may take before waiting for it fails; a minute unless told. */
        public Builder deadline(Duration longest) {
            require(longest.isPositive(), "the deadline must be positive, got " + longest);
            deadline = longest;
            return this;
        }

        /** Makes the loader and starts its workers. */
        public DataLoader build() {
            return new DataLoader(this);
        }

        private static void require(boolean holds, String relation) {
            if (!holds) {
                throw TensorException.argument("data loader", relation, "change the builder's setting");
            }
        }
    }
}
