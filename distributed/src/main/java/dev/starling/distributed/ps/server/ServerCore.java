package dev.starling.distributed.ps.server;

import com.lmax.disruptor.EventHandler;
import com.lmax.disruptor.ExceptionHandler;
import com.lmax.disruptor.InsufficientCapacityException;
import com.lmax.disruptor.RingBuffer;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.TimeoutException;
import com.lmax.disruptor.dsl.Disruptor;
import com.lmax.disruptor.dsl.ProducerType;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowSaver;
import dev.starling.distributed.ps.store.RowTask;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.transport.spi.Backoff;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A server without its network: {@link #offer} adds requests, and the {@link ReplySink} receives replies. Each of the
 * four stages (decode, apply, journal, reply) has a thread; without a ring, the caller's thread runs all stages.
 *
 * <p>A stage sees a request only after the previous stage has finished it, and the journal stage finishes a batch only
 * when it is on the disk. The server therefore replies only when a restart would find the update. Updates that arrive
 * while the disk is busy are written to it together.
 */
final class ServerCore implements AutoCloseable {
    private static final String CHRONICLE_FLAGS = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED "
            + "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED "
            + "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED "
            + "--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.lang.reflect=ALL-UNNAMED";
    private static final String SNAPSHOT = "snapshot";
    private static final String[] STAGES = {"decode", "apply", "journal", "reply"};
    private static final long PARK_NS = 50_000;

    private final ServerConfig config;
    private final Shard shard;
    private final ReplySink sink;
    /** {@code null} without a directory, as the snapshot and the journal. */
    private final @Nullable DirectoryLock lock;
    private final @Nullable Path snapshot;
    private final @Nullable Journal journal;
    /** {@code null} if the caller's thread does all, as the ring. */
    private final @Nullable Disruptor<Request> disruptor;
    private final @Nullable RingBuffer<Request> ring;
    /** The only request, used in place of the ring if there is none. */
    private final @Nullable Request only;
    private final ApplyStage applyStage = new ApplyStage();
    private final EventHandler<Request> journalStage = this::journal;
    private final EventHandler<Request> replyStage = this::reply;
    private final List<Thread> threads = new ArrayList<>();
    private final int requestCapacity;
    private final ByteBuffer reply;
    private final FloatBuffer replyFloats;
    private final UnsafeBuffer replyBuffer;
    private final boolean holdsEarlier;
    /** Name of the thread of a task with rows, or {@code null} if the caller's thread does it. */
    private final @Nullable String rowsThread;
    private long journalBytes;
    /** Whether the tables have the rows of a checkpoint, which no snapshot has counted. */
    private boolean snapshotDue;
    /** The save that the next cut starts. */
    private volatile @Nullable RowSaver saving;
    /** The last task with rows, or {@code null} before the first. */
    private volatile @Nullable RowTask task;
    /** What ended the server, or {@code null}. */
    private volatile @Nullable Throwable failure;
    private volatile boolean closing;

    /**
     * Restores a server from its directory, and starts its stages.
     *
     * @throws ServerException if its files are unreadable, of another run or in use
     */
    static ServerCore open(ServerConfig config, Plan plan, int server, ReplySink sink) {
        DirectoryLock lock = null;
        Shard shard = null;
        try {
            Path directory = config.directory();
            if (directory == null) {
                if (!plan.tables().isEmpty()) {
                    throw new ServerException("a server with tables needs a directory; set one with ServerConfig.in",
                            null);
                }
                return new ServerCore(config, plan, new Shard(plan, server, null, 0), sink, null, null);
            }
            Files.createDirectories(directory);
            lock = DirectoryLock.take(directory);
            shard = new Shard(plan, server, directory, config.cacheBytes());
            Path snapshot = directory.resolve(SNAPSHOT);
            if (shard.isFilled() && !Files.exists(snapshot) && Journal.files(directory).isEmpty()) {
                throw new IOException("its tables have rows, but the files snapshot and journal-... are missing; put "
                        + "them back, or give the server an empty directory and resume from a checkpoint");
            }
            shard.load(snapshot);
            new JournalReader().read(directory, shard.sequence(), shard::replay);
            shard.checkRows();
            shard.save(snapshot);
            return new ServerCore(config, plan, shard, sink, lock, new Journal(directory, shard.sequence() + 1));
        } catch (IOException | RuntimeException | Error e) {
            if (shard != null) {
                shard.close();
            }
            closeQuietly(lock, e);
            if (e instanceof Error error && !(e instanceof LinkageError)) {
                throw error;
            }
            throw e instanceof ServerException already ? already : failed(config, "cannot start", e);
        }
    }

    private static void closeQuietly(@Nullable DirectoryLock lock, Throwable because) {
        try {
            if (lock != null) {
                lock.close();
            }
        } catch (IOException secondary) {
            because.addSuppressed(secondary);
        }
    }

    private static ServerException failed(ServerConfig config, String what, Throwable cause) {
        String reason = switch (cause) {
            case ClosedByInterruptException _ -> "its thread was interrupted";
            case LinkageError _ -> "Chronicle Map, which holds tables, cannot be initialised; start java with "
                    + CHRONICLE_FLAGS;
            default -> cause.getMessage();
        };
        return new ServerException("the parameter server in " + config.directory() + " " + what + ": " + reason,
                cause);
    }

    private ServerCore(ServerConfig config, Plan plan, Shard shard, ReplySink sink, @Nullable DirectoryLock lock,
            @Nullable Journal journal) {
        this.config = config;
        this.shard = shard;
        this.sink = sink;
        this.lock = lock;
        this.journal = journal;
        holdsEarlier = shard.isFilled();
        snapshot = config.directory() == null ? null : config.directory().resolve(SNAPSHOT);
        reply = ByteBuffer.allocateDirect(Message.REPLY_HEADER + 4 * plan.blockLength())
                .order(ByteOrder.LITTLE_ENDIAN);
        replyFloats = reply.slice(Message.REPLY_HEADER, 4 * plan.blockLength()).order(ByteOrder.LITTLE_ENDIAN)
                .asFloatBuffer();
        replyBuffer = new UnsafeBuffer(reply);
        requestCapacity = Message.HEADER + 4 * plan.blockLength();
        rowsThread = config.ringSize() == 0 ? null : "starling-ps-" + shard.server() + "-rows";
        if (config.ringSize() == 0) {
            only = new Request(plan.blockLength(), plan.workers());
            disruptor = null;
            ring = null;
            return;
        }
        only = null;
        disruptor = new Disruptor<>(() -> new Request(plan.blockLength(), plan.workers()), config.ringSize(),
                this::thread, ProducerType.MULTI, new BackoffWaitStrategy());
        disruptor.setDefaultExceptionHandler(new Failures());
        disruptor.handleEventsWith((EventHandler<Request>) (e, at, end) -> e.decode(shard))
                .then(applyStage).then(journalStage).then(replyStage);
        ring = disruptor.start();
    }

    private Thread thread(Runnable stage) {
        Thread thread = new Thread(stage, "starling-ps-" + shard.server() + "-" + STAGES[threads.size()]);
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler((t, e) -> failure = failure == null ? e : failure);
        threads.add(thread);
        return thread;
    }

    /** Stops the pipeline before the failed request counts as done, so that no later request is answered. */
    private final class Failures implements ExceptionHandler<Request> {
        @Override
        public void handleEventException(Throwable e, long at, @Nullable Request request) {
            failure = failure == null ? e : failure;
            Objects.requireNonNull(disruptor).halt();
            throw new ServerException("stopped", e);
        }

        @Override
        public void handleOnStartException(Throwable e) {
            handleEventException(e, 0, null);
        }

        @Override
        public void handleOnShutdownException(Throwable e) {
            handleEventException(e, 0, null);
        }
    }

    // ---- receiving ----

    /**
     * Adds a copy of a request.
     *
     * @return false if the ring is full
     * @throws ServerException if the server has failed
     */
    boolean offer(DirectBuffer buffer, int offset, int length) {
        check();
        if (length > requestCapacity) {
            // Too long for a valid request: an empty one in its place is refused and counted.
            return offer(buffer, offset, 0);
        }
        Request request = claim();
        if (request != null) {
            request.receive(buffer, offset, length);
            publish(request);
        }
        return request != null;
    }

    /** Returns a request for new contents, or {@code null} if the ring is full. */
    private @Nullable Request claim() {
        if (only != null) {
            return only;
        }
        try {
            RingBuffer<Request> pipeline = Objects.requireNonNull(ring);
            if (pipeline.hasAvailableCapacity(1)) {
                long at = pipeline.tryNext();
                pipeline.get(at).at = at;
                return pipeline.get(at);
            }
        } catch (InsufficientCapacityException others) {
            // handled like a ring that was full before
        }
        return null;
    }

    /** Passes a request to the stages, or runs all of them in the calling thread. */
    private void publish(Request request) {
        if (only == null) {
            Objects.requireNonNull(ring).publish(request.at);
            return;
        }
        try {
            only.decode(shard);
            applyStage.onEvent(only, 0, true);
            journal(only, 0, true);
            reply(only, 0, true);
        } catch (IOException | RuntimeException e) {
            failure = e;
            check();
        }
    }

    /**
     * Removes a worker from one unit, which may release workers that wait for it; returns false if the ring is full.
     */
    boolean leave(int worker, int unit) {
        return process(Message.LEAVE, worker, unit);
    }

    /** Adds an internal request; returns false if the ring is full. */
    private boolean process(int kind, int worker, int unit) {
        check();
        Request request = claim();
        if (request != null) {
            request.internal(kind, worker, unit);
            publish(request);
        }
        return request != null;
    }

    /** Processes an internal request, and waits until its changes are on the disk. */
    private void perform(int kind) {
        long deadline = System.nanoTime() + config.deadline().toNanos();
        Request request;
        while ((request = claim()) == null) {
            pause(deadline);
        }
        long at = request.at;
        request.internal(kind, 0, 0);
        publish(request);
        await(replyStage, at);
    }

    // ---- tasks with rows; one at a time ----

    /**
     * Starts to save all rows as they are between two requests.
     *
     * @param file to be written
     * @return the task, or {@code null} if the ring is full
     */
    @Nullable RowTask save(long id, Path file, long step) {
        RowSaver saver = new RowSaver(id, file, step);
        saving = saver;
        task = saver;
        return process(Message.CUT, 0, 0) ? saver : null;
    }

    /** Starts to fill tables with rows of a checkpoint, unless they have rows of this run. */
    RowTask restore(long id, List<RowRequest.Source> parts) {
        check();
        RowTask restoring = shard.restoring(id, parts, () -> perform(Message.ROWS_READY));
        task = restoring;
        restoring.begin(rowsThread);
        return restoring;
    }

    private void await(EventHandler<Request> stage, long at) {
        long deadline = System.nanoTime() + config.deadline().toNanos();
        while (disruptor != null && disruptor.getSequenceValueFor(stage) < at) {
            pause(deadline);
        }
    }

    private void pause(long deadlineNs) {
        check();
        if (System.nanoTime() - deadlineNs > 0) {
            throw new ServerException("the parameter server made no progress for " + config.deadline(), null);
        }
        Backoff.park(PARK_NS);
    }

    /** Throws if the server has failed. */
    void check() {
        if (failure != null) {
            throw failed(config, "stopped", failure);
        }
    }

    /** Returns the number of refused requests. */
    long refused() {
        return shard.refused();
    }

    int units() {
        return shard.units;
    }

    /** Returns whether the directory contained weights or rows when the server started. */
    boolean holdsEarlier() {
        return holdsEarlier;
    }

    // ---- stages ----

    private final class ApplyStage implements EventHandler<Request> {
        /** {@code null} if the caller's thread does all stages. */
        private @Nullable Sequence done;

        @Override
        public void setSequenceCallback(Sequence sequence) {
            done = sequence;
        }

        @Override
        public void onEvent(Request e, long at, boolean endOfBatch) throws IOException {
            if (snapshot != null && (snapshotDue || journalBytes > config.journalBytes() || shard.isFullFor(e))) {
                awaitJournal(at);
                shard.save(snapshot);
                e.rotate = true;
                e.firstRecord = shard.sequence() + 1;
                journalBytes = 0;
                snapshotDue = false;
            }
            if (e.kind == Message.CUT) {
                awaitJournal(at);
                shard.cut(Objects.requireNonNull(saving), rowsThread);
            }
            shard.apply(e);
            snapshotDue |= e.kind == Message.ROWS_READY;
            journalBytes += e.record == 0 ? 0 : Journal.length(e);
        }

        /**
         * Waits until the journal contains all earlier requests: a row in the map may be torn only after that. The
         * Disruptor publishes finished requests to the journal stage at the end of a batch, so this sets the sequence.
         */
        private void awaitJournal(long at) {
            if (only == null) {
                Objects.requireNonNull(done).set(at - 1);
                await(journalStage, at - 1);
            }
        }
    }

    private void journal(Request e, long at, boolean endOfBatch) throws IOException {
        if (journal == null) {
            return;
        }
        if (e.rotate) {
            journal.rotate(e.firstRecord);
        }
        if (e.record != 0) {
            journal.append(e);
        }
        if (endOfBatch) {
            journal.force();
        }
    }

    private void reply(Request e, long at, boolean endOfBatch) {
        for (int i = 0; i < e.replies; i++) {
            reply(e, e.replyTo[i], e.replySession[i], e.replySequence[i], e.unit, e.weights, e.weightsCount);
        }
        for (Request.Reply each : e.more) {
            reply(e, each.worker(), each.session(), each.sequence(), each.unit(), each.weights(),
                    each.weights().length);
        }
        e.release();
    }

    private void reply(Request e, int worker, long session, long sequence, int unit, float[] weights, int count) {
        reply.putInt(Message.STATUS, e.status).putInt(Message.REPLY_UNIT, unit).putInt(Message.REPLY_COUNT, count)
                .putInt(Message.REPLY_KIND, e.kind).putInt(Message.SERVER, shard.server())
                .putInt(Message.REPLY_WORKER, worker).putLong(Message.REPLY_SESSION, session)
                .putLong(Message.REPLY_SEQUENCE, sequence);
        replyFloats.put(0, weights, 0, count);
        while (!sink.offer(worker, replyBuffer, Message.REPLY_HEADER + 4 * count) && !closing) {
            if (only != null) {
                throw new ServerException("the reply buffer is full", null);
            }
            Backoff.park(PARK_NS);
        }
    }

    /** Lets the stages finish the requests in the ring, writes a last snapshot, and closes all files. */
    @Override
    public void close() {
        closing = true;
        if (task != null) {
            task.cancel();
        }
        try {
            if (failure == null && disruptor != null) {
                disruptor.shutdown(config.deadline().toMillis(), TimeUnit.MILLISECONDS);
            }
        } catch (TimeoutException e) {
            failure = e;
        } finally {
            if (disruptor != null) {
                disruptor.halt();
            }
            threads.forEach(RowTask::awaitEnd);
            if (task != null) {
                task.join();
            }
        }
        try (Shard closedLast = shard; DirectoryLock unlocked = lock; Journal closedFirst = journal) {
            if (snapshot != null && journal != null && failure == null) {
                journal.force();
                shard.save(snapshot);
            }
        } catch (IOException e) {
            throw failed(config, "cannot write its last snapshot", e);
        }
    }
}
