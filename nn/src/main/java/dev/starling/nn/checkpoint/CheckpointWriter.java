package dev.starling.nn.checkpoint;

import dev.starling.errors.ThreadException;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Saves checkpoints while training continues. It copies the state immediately into host memory, which it reuses for the
 * next save, and writes the copy on a thread of its own. Only one write can be in progress. Confined to one thread.
 */
public final class CheckpointWriter implements AutoCloseable {
    /** How long {@link #await} waits for a write while no other process makes progress with its parts. */
    private static final Duration TIMEOUT = Duration.ofMinutes(10);

    private final Path directory;
    private final int keep;
    private final Map<String, Parameter> copies = new LinkedHashMap<>();
    private @Nullable FutureTask<Optional<Path>> writing;
    private Parts parts = Parts.NONE;

    /**
     * Creates a writer.
     *
     * @param directory is created if absent
     * @param keep how many of the latest checkpoints to keep
     */
    public CheckpointWriter(Path directory, int keep) {
        this.directory = directory;
        this.keep = keep;
    }

    /**
     * Starts to save a state. The state may change as soon as this method returns. The caller must have called
     * {@link #await} for the previous write.
     *
     * @param tensors the same names and shapes in every call
     */
    public void save(long step, Map<String, Parameter> tensors, Map<String, String> notes) {
        save(step, tensors, notes, Parts.NONE);
    }

    /**
     * Starts to save a state of which other processes write parts.
     *
     * @param tensors the same names and shapes in every call; they may change as soon as this method returns
     * @param others the parts, for which the writing thread waits
     */
    public void save(long step, Map<String, Parameter> tensors, Map<String, String> notes, Parts others) {
        if (writing != null) {
            throw new CheckpointException(directory, "cannot be written while another write is in progress",
                    "call await() first", null);
        }
        try (Scope scope = Scope.open("snapshot")) {
            tensors.forEach((name, p) -> {
                Parameter copy = copies.get(name);
                if (copy == null || copy.value().dtype() != p.value().dtype()) {
                    Parameter before = copies.put(name, Parameter.buffer(p.value().to(Device.cpu())));
                    if (before != null) {
                        before.close();
                    }
                } else {
                    copy.set(p.value());
                }
            });
        }
        Map<String, String> texts = Map.copyOf(notes);
        parts = others;
        FutureTask<Optional<Path>> write = new FutureTask<>(() -> {
            Optional<Path> manifest = Checkpoint.save(directory, step, copies, texts, others);
            Checkpoint.prune(directory, keep, step);
            return manifest;
        });
        ThreadException.start(Thread.ofPlatform().daemon().name("starling-checkpoint").unstarted(write));
        writing = write;
    }

    /** Returns whether {@link #await} would return a manifest or throw immediately. */
    public boolean isDone() {
        return writing != null && writing.isDone();
    }

    /**
     * Waits for the write in progress.
     *
     * @return the manifest; empty if no write was in progress or its parts were abandoned
     * @throws CheckpointException if the write failed or did not finish in time
     */
    public Optional<Path> await() {
        if (writing == null) {
            return Optional.empty();
        }
        try {
            Optional<Path> manifest = awaitProgress(writing);
            writing = null;
            return manifest;
        } catch (ExecutionException e) {
            writing = null;
            Throwable cause = Objects.requireNonNull(e.getCause());
            switch (cause) {
                case RuntimeException failure -> throw failure;
                case Error failure -> throw failure;
                default -> throw new CheckpointException(directory, "was not written: " + cause,
                        "see the cause", cause);
            }
        } catch (TimeoutException e) {
            throw new CheckpointException(directory, "was not written in " + TIMEOUT, "check the disk", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException(directory, "was being written when this thread was interrupted",
                    "earlier checkpoints are intact", e);
        }
    }

    private Optional<Path> awaitProgress(FutureTask<Optional<Path>> awaited) throws ExecutionException,
            TimeoutException,
            InterruptedException {
        while (true) {
            long before = parts.progress();
            try {
                return awaited.get(TIMEOUT.toNanos(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                if (parts.progress() == before) {
                    throw e;
                }
            }
        }
    }

    /**
     * Waits for the write in progress even if this thread is interrupted, ignores its outcome, and frees the memory of
     * the copy. A write that does not finish in time keeps the copy.
     */
    @Override
    public void close() {
        boolean interrupted = false;
        boolean late = false;
        while (writing != null && !late) {
            try {
                awaitProgress(writing);
                writing = null;
            } catch (ExecutionException secondary) {
                // A caller that needs the outcome has called await().
                writing = null;
            } catch (TimeoutException e) {
                late = true;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (!late) {
            copies.values().forEach(Parameter::close);
            copies.clear();
        }
    }
}
