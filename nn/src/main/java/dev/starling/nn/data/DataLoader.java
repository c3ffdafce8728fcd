package dev.starling.nn.data;

import com.lmax.disruptor.AlertException;
import com.lmax.disruptor.RingBuffer;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.SequenceBarrier;
import com.lmax.disruptor.TimeoutException;
import dev.starling.errors.Durations;
import dev.starling.errors.ThreadException;
import dev.starling.tensor.Device;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Prepares batches ahead of their use. Worker threads decode and augment examples into the slots of an LMAX Disruptor
 * ring. The order of batches depends only on the seed and the epoch, not on the number of workers. In the steady state
 * no memory is allocated for data, and idle workers sleep. The tensors of a batch are closed when the next batch is
 * requested.
 *
 * <pre>{@code
 * try (DataLoader loader = DataLoader.of(images).batchSize(64).workers(2).shuffle().build()) {
 *     for (Batch batch : loader.epoch(0)) { ... }
 * }
 * }</pre>
 *
 * <p>May be used by one thread at a time.
 */
public final class DataLoader implements AutoCloseable {
    private static final long CLOSE_TIMEOUT_MS = 10_000;

    private final DataLoaderConfig config;
    private final RingBuffer<BatchSlot> ring;
    private final SequenceBarrier filled;
    private final SequenceBarrier published;
    private final Thread[] threads;
    /** The sequence of the last batch that the reader has finished with. */
    private final Sequence read = new Sequence();
    private final Example own;
    private Share share = Share.whole();
    private Device device = Device.cpu();
    private EpochPlan plan;
    private @Nullable Epoch current;
    /** The batch that the reader has, or {@code null}. */
    private @Nullable Batch lent;
    private boolean closed;

    private DataLoader(DataLoaderConfig config) {
        this.config = config;
        plan = EpochPlan.of(0, config, share);
        ParkingWaitStrategy waiting = new ParkingWaitStrategy(TimeUnit.NANOSECONDS.convert(config.deadline()));
        ring = RingBuffer.createMultiProducer(() -> new BatchSlot(config.dataset().fields(), config.lengths()),
                config.workers() == 0 ? 1 : config.prefetch(), waiting);
        ring.addGatingSequences(read);
        published = ring.newBarrier();
        own = new Example(config.dataset().fields(), config.seed());
        threads = new Thread[config.workers()];
        Sequence[] done = new Sequence[config.workers()];
        for (int i = 0; i < threads.length; i++) {
            LoaderWorker worker = new LoaderWorker(config, ring, published, waiting, i);
            done[i] = worker.done;
            threads[i] = Thread.ofPlatform().daemon().name("starling-loader-" + i).unstarted(worker);
        }
        filled = ring.newBarrier(done);
        // No thread starts before the last call of the data set, which may throw.
        try {
            for (Thread thread : threads) {
                ThreadException.start(thread);
            }
        } catch (ThreadException e) {
            // Those that run would wait for batches for ever.
            close();
            throw e;
        }
    }

    /** Returns a builder of a loader for a data set. */
    public static Builder of(Dataset dataset) {
        return new Builder(dataset);
    }

    /** Returns the number of examples in the data set. */
    public int size() {
        return config.dataset().size();
    }

    /** Returns the fields of an example. */
    public List<Field> fields() {
        return config.dataset().fields();
    }

    /**
     * Requires fields with these names.
     *
     * @param reader what takes the fields, for the message
     * @throws TensorException if one of them does not exist
     */
    public void require(String reader, List<String> names) {
        if (names.stream().anyMatch(name -> Field.position(fields(), name) < 0)) {
            throw TensorException.argument("data loader", reader + " takes the fields " + names
                    + ", but the data set has " + Field.list(fields()), "name the fields of the data set as the "
                    + "components of the model's records, with TensorDataset.of(record) or Dataset.named(..)");
        }
    }

    /** Returns the share of the data that this process reads; by default all of it. */
    public Share share() {
        return share;
    }

    /**
     * Sets the share of the data that this process reads. It takes effect at the next call of {@link #epoch}, even
     * within an epoch. Threads and memory are kept. A {@link dev.starling.nn.train.Trainer} sets this to the share of
     * its strategy while it runs, and restores it.
     */
    public DataLoader share(Share newShare) {
        share = newShare;
        plan = plan.with(newShare, config);
        return this;
    }

    /** Returns the device to which batches are delivered; by default the CPU. */
    public Device device() {
        return device;
    }

    /**
     * Sets the device to which batches are delivered, from the next call of {@link #epoch} on. Workers upload batches
     * while the device computes with earlier ones. If the host can access the device's memory, batches stay on the CPU.
     * A {@link dev.starling.nn.train.Trainer} sets this to the device of its model while it runs.
     */
    public DataLoader device(Device target) {
        device = target;
        return this;
    }

    /** Returns the number of batches in an epoch, which is equal on all ranks. */
    public int batches() {
        return plan.batches();
    }

    /** Returns the number of examples in an epoch; on all ranks together if they share batches. */
    public long examples() {
        return Math.min(plan.examples(), (long) plan.batches() * config.batchSize());
    }

    /** Returns the number of examples in {@code count} batches; on all ranks together if they share batches. */
    public long rows(int firstBatch, int count) {
        if (firstBatch < 0 || count < 0 || count > plan.batches() - firstBatch) {
            throw TensorException.argument("data loader", "an epoch has " + plan.batches() + " batches, got " + count
                    + " from batch " + firstBatch + " on", "request only batches of the epoch");
        }
        long rows = 0;
        for (int i = 0; i < count; i++) {
            rows += plan.rows(firstBatch + i);
        }
        return rows;
    }

    /** Returns the number of examples in a full batch; on all ranks together if they share it. */
    public int batchSize() {
        return config.batchSize();
    }

    /** Returns the seed which, together with the epoch, determines the order of examples and their augmentation. */
    public long seed() {
        return config.seed();
    }

    /**
     * Returns the settings that determine the batches, by name, as texts: those that must be equal on all processes
     * that share the data. The number of rows is not among them.
     */
    public Map<String, String> settings() {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("batch size", Integer.toString(config.batchSize()));
        settings.put("order of the data", config.shuffle() ? "shuffled" : "that of the data set");
        if (config.lengths().longest() > 0) {
            settings.put("lengths of batches", (config.byLength() ? "of like examples, " : "")
                    + (config.lengths().allowed().isEmpty() ? "of the longest example" : config.lengths().allowed()));
        }
        settings.put("seed of the data", Long.toString(config.seed()));
        settings.put("smaller last batch", config.dropLast() ? "left out" : "used");
        return settings;
    }

    /**
     * Starts a pass over the data and ends the one in progress, whose next batch then is an error. The index of the
     * first epoch is 0; messages count from 1. Each further iterator of the result starts the pass again.
     */
    public Iterable<Batch> epoch(int epoch) {
        return epoch(epoch, 0);
    }

    /**
     * Starts a pass over the data at a given batch, such as the one at which a checkpoint was saved.
     *
     * @throws TensorException if {@code firstBatch} is negative
     * @throws LoadException while iterating, if an example cannot be read (the next batch can still be requested), or
     *     if a batch is not ready within the deadline
     */
    public Iterable<Batch> epoch(int epoch, int firstBatch) {
        Epoch started = start(epoch, firstBatch);
        return () -> (started.taken || started != current ? start(epoch, firstBatch) : started).take();
    }

    private Epoch start(int epoch, int firstBatch) {
        if (closed) {
            throw LoadException.ofClosed(null);
        }
        if (firstBatch < 0) {
            throw TensorException.argument("data loader", "the first batch must be >= 0, got " + firstBatch,
                    "count batches from 0");
        }
        discard();
        plan = epoch == plan.epoch() ? plan.with(share, config) : EpochPlan.of(epoch, config, share);
        Epoch started = new Epoch(plan, firstBatch, device);
        current = started;
        started.publishAhead();
        return started;
    }

    /** Ends the epoch in progress, waits until no worker writes into a slot, then releases all slots. */
    private void discard() {
        revoke();
        if (current != null) {
            long last = ring.getCursor();
            current.cut |= current.next < current.plan.batches();
            current.next = current.plan.batches();
            current.toPublish = current.plan.batches();
            discardSlots();
            if (config.workers() > 0) {
                await(last, "the batches in progress");
            }
            read.set(last);
        }
    }

    private void discardSlots() {
        for (int i = 0; i < ring.getBufferSize(); i++) {
            ring.get(i).discarded = true;
        }
    }

    /** Closes the tensors of the batch that the reader has. */
    private void revoke() {
        if (lent != null) {
            lent.revoke();
            lent = null;
        }
    }

    private void await(long sequence, String what) {
        try {
            filled.waitFor(sequence);
        } catch (TimeoutException e) {
            throw new LoadException("waited " + Durations.text(config.deadline()) + " for " + what
                    + "; check for a worker that hangs in Dataset.write, or set a longer deadline", -1, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LoadException("interrupted while waiting for " + what, -1, e);
        } catch (AlertException e) {
            throw LoadException.ofClosed(e);
        }
    }

    /**
     * Stops the workers and waits for them. The batch that was returned last stays readable as long as it is
     * referenced, unless it was delivered to a device whose memory the host cannot access.
     */
    @Override
    public void close() {
        closed = true;
        published.alert();
        filled.alert();
        discardSlots();
        for (Thread thread : threads) {
            thread.interrupt();
        }
        boolean interrupted = false;
        try {
            List<String> running = new ArrayList<>();
            long deadline = System.nanoTime() + Duration.ofMillis(CLOSE_TIMEOUT_MS).toNanos();
            for (Thread thread : threads) {
                while (thread.isAlive()) {
                    try {
                        if (!thread.join(Duration.ofNanos(Math.max(0, deadline - System.nanoTime())))) {
                            running.add(thread.getName());
                            break;
                        }
                    } catch (InterruptedException e) {
                        interrupted = true;
                    }
                }
            }
            if (!running.isEmpty()) {
                throw new LoadException(String.join(", ", running) + " did not stop within " + CLOSE_TIMEOUT_MS
                        + " ms; a call of Dataset.write hangs", -1, null);
            }
            for (int i = 0; i < ring.getBufferSize(); i++) {
                ring.get(i).close();
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private final class Epoch implements Iterator<Batch> {
        private final EpochPlan plan;
        private final Device target;
        private int toPublish;
        private int next;
        /** Whether there is an iterator of this pass. */
        private boolean taken;
        /** Whether another pass has begun before the last batch of this one. */
        private boolean cut;

        Epoch(EpochPlan plan, int first, Device target) {
            this.plan = plan;
            this.target = target;
            toPublish = first;
            next = first;
        }

        Epoch take() {
            taken = true;
            return this;
        }

        @Override
        public boolean hasNext() {
            if (cut) {
                throw new NoSuchElementException("another pass over the data of this loader has begun, which ends this "
                        + "one; use a loader of its own for each");
            }
            return next < plan.batches();
        }

        @Override
        public Batch next() {
            if (!hasNext()) {
                throw new NoSuchElementException("the epoch is over");
            }
            if (closed) {
                throw LoadException.ofClosed(null);
            }
            revoke();
            // All published batches before next have been read.
            long sequence = ring.getCursor() + 1 - (toPublish - next);
            read.set(sequence - 1);
            publishAhead();
            BatchSlot batch = ring.get(sequence);
            if (config.workers() == 0) {
                LoaderWorker.fill(config.dataset(), batch, own);
                if (batch.failure != null && batch.failure.getCause() instanceof InterruptedException) {
                    Thread.currentThread().interrupt();
                }
            } else {
                await(sequence, "batch " + (next + 1) + " of epoch " + (plan.epoch() + 1));
            }
            next++;
            if (batch.failure != null) {
                throw batch.failure;
            }
            lent = batch.lend();
            return lent;
        }

        private void publishAhead() {
            while (toPublish < plan.batches() && ring.hasAvailableCapacity(1)) {
                long sequence = ring.next();
                BatchSlot batch = ring.get(sequence);
                int number = toPublish++;
                try {
                    batch.assign(plan, number, target);
                } catch (Throwable e) { // A data set in another language may throw a checked exception.
                    batch.failure = LoadException.ofBatch(number, plan.epoch(), "prepared", e);
                } finally {
                    ring.publish(sequence);
                }
            }
        }
    }

    /** Collects the settings of a loader. */
    public static final class Builder {
        private final Dataset dataset;
        private int batchSize = 32;
        private int workers = 1;
        private int prefetch = 4;
        private boolean shuffle;
        private boolean dropLast;
        private long seed;
        private Duration deadline = Duration.ofSeconds(60);
        private List<Integer> lengths = List.of();
        private boolean byLength;

        private Builder(Dataset dataset) {
            this.dataset = dataset;
        }

        /** Sets the number of examples in a batch, on all ranks together if they share batches; default 32. */
        public Builder batchSize(int examples) {
            require(examples > 0, "the batch size must be > 0, got " + examples);
            batchSize = examples;
            return this;
        }

        /** Sets the number of worker threads; default 1. With 0, each batch is prepared when it is requested. */
        public Builder workers(int count) {
            require(count >= 0, "workers must be >= 0, got " + count);
            workers = count;
            return this;
        }

        /** Sets how many batches may be ready or in preparation: a power of two, default 4. */
        public Builder prefetch(int slots) {
            require(Integer.bitCount(slots) == 1 && slots > 1, "prefetch must be a power of two above 1, got " + slots);
            prefetch = slots;
            return this;
        }

        /** Reads the examples of each epoch in a random order. */
        public Builder shuffle() {
            shuffle = true;
            return this;
        }

        /** Sets the seed which, together with the epoch, determines order and augmentation; default 0. */
        public Builder seed(long value) {
            seed = value;
            return this;
        }

        /** Leaves out the last batch of an epoch if it is smaller than the others. */
        public Builder dropLast() {
            dropLast = true;
            return this;
        }

        /**
         * Puts examples of like {@linkplain Dataset#length lengths} into one batch, which needs less padding. With
         * {@link #shuffle}, examples are sorted by length within 100 batches, and the batches are in random order.
         */
        public Builder byLength() {
            byLength = true;
            return this;
        }

        /**
         * Sets the lengths that batches may have: that of a batch is the smallest of these that holds its longest
         * example. A few lengths are a few shapes, which captured steps need. By default each batch has the length of
         * its longest example.
         *
         * @param allowed in ascending order; the last is the largest length of the fields
         */
        public Builder lengths(int... allowed) {
            lengths = IntStream.of(allowed).boxed().toList();
            require(IntStream.of(allowed).allMatch(n -> n > 0) && lengths.equals(lengths.stream().distinct().sorted()
                    .toList()), "lengths must be positive and ascending, got " + lengths);
            return this;
        }

        /** Sets how long the reader waits for a batch before the wait fails; default one minute. */
        public Builder deadline(Duration timeout) {
            require(timeout.isPositive(), "the deadline must be positive, got " + Durations.text(timeout));
            deadline = timeout;
            return this;
        }

        /** Returns a loader with these settings, with its workers started. */
        public DataLoader build() {
            require(!dataset.isSequential() || !shuffle && !byLength && workers <= 1, "a data set that is read in "
                    + "order, such as a stream, needs at most 1 worker and neither byLength() nor shuffle() "
                    + "(StreamDataset.shuffle shuffles it), got " + workers + " worker(s)"
                    + (shuffle ? " and shuffle()" : ""));
            return new DataLoader(config());
        }

        /** Returns the current settings. */
        DataLoaderConfig config() {
            Lengths each = Lengths.of(dataset, lengths);
            require(!byLength || each.longest() > 0, "byLength() needs fields of different lengths");
            return new DataLoaderConfig(dataset, batchSize, workers, prefetch, shuffle, dropLast, seed, deadline, each,
                    byLength);
        }

        private static void require(boolean holds, String relation) {
            if (!holds) {
                throw TensorException.argument("data loader", relation, "change this setting of the builder");
            }
        }
    }
}
