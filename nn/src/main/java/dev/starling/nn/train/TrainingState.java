package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * All that a run needs to go on as if it had never stopped: tensors and {@link #notes}, which checkpoints hold and
 * which processes send each other. Does not depend on the number of processes, nor on which of them holds it. Confined
 * to the training thread.
 */
public final class TrainingState {
    /** Leads the names of what strategies keep. */
    private static final String STRATEGY = "strategy.";
    private static final String MISSED = "optimizer.missed";

    private final Layer model;
    private final Optimizer optimizer;
    private final DataLoader data;
    private final Progress progress;
    /** {@code null} if the loss is not scaled. */
    private final LossScale scale;
    private final Map<String, Parameter> tensors = new LinkedHashMap<>();
    /** {@code null} if this run begins anew. */
    private Path resumesFrom;
    private Checkpoint source;
    private long seed;
    private boolean restored;
    /** Whether no other process has the same examples. */
    private boolean ownData;

    TrainingState(Layer model, Optimizer optimizer, DataLoader data, long seed, Progress progress, LossScale scale) {
        this.model = model;
        this.optimizer = optimizer;
        this.data = data;
        this.seed = seed;
        this.progress = progress;
        this.scale = scale;
        model.state().forEach((path, p) -> tensors.put("model." + path, p));
        optimizer.state().forEach((path, p) -> tensors.put("optimizer." + path, p));
    }

    /** Returns the state of a run at its start, for those who take steps without a {@link Trainer}. */
    public static TrainingState of(Layer model, Optimizer optimizer) {
        return new TrainingState(model, optimizer, null, 0, new Progress(1, new Averages(List.of())), null);
    }

    /** Returns what is trained. */
    public Layer model() {
        return model;
    }

    /** Returns what trains it, with the parameters in the order of gradients. */
    public Optimizer optimizer() {
        return optimizer;
    }

    /** Returns the tensors of model and optimiser by path, in an order that is the same in every process. */
    public Map<String, Parameter> tensors() {
        // Brings what is kept to the types that parameters have now.
        optimizer.state();
        return Collections.unmodifiableMap(tensors);
    }

    /**
     * Adds a tensor that a strategy keeps beside model and optimiser, so that checkpoints hold it. If this run goes on
     * from a checkpoint that has it, it is filled from there. To be called in {@link DistributionStrategy#start}.
     *
     * @param tensor the caller's, to be closed when the run is over
     * @return whether it was filled
     * @throws CheckpointException if the checkpoint has another type or shape
     */
    public boolean keep(String name, Parameter tensor) {
        String path = STRATEGY + name;
        tensors.put(path, tensor);
        if (source == null || !source.has(path)) {
            return false;
        }
        source.into(Map.of(path, tensor), other -> true);
        return true;
    }

    /** Returns the checkpoint that this process read to go on from, if it did. */
    public Optional<Checkpoint> source() {
        return Optional.ofNullable(source);
    }

    /** Says that no other process has the same examples. */
    void ownData() {
        ownData = true;
    }

    /** Sets where the checkpoint is that is wanted to be gone on from, if there is one. */
    void resumesFrom(Path directory) {
        resumesFrom = directory;
    }

    /**
     * Goes on from the latest checkpoint, if that is wanted, there is one, and this process has not read it already.
     * Trainers have rank 0 do so before the start; strategies have another do so that begins in its place.
     *
     * @throws CheckpointException if it cannot be read, or does not fit
     */
    public void resume() {
        if (resumesFrom != null && source == null) {
            Checkpoint.latest(resumesFrom).ifPresent(this::restore);
        }
    }

    /** Returns how many steps were taken. */
    public long step() {
        return progress.step;
    }

    /** Returns the number of the epoch, from 0. */
    public int epoch() {
        return progress.epoch;
    }

    /** Returns how many batches of the epoch are done. */
    public int batch() {
        return progress.batch;
    }

    /** Counts a step over {@code batches} batches. */
    void advance(int batches) {
        progress.step++;
        progress.batch += batches;
    }

    /** Sets the stream of this step and rank, which depends on nothing else but the seed. */
    void randomize(Generator generator, int rank) {
        generator.restore(Generator.seeded(seed).split(progress.step).split(rank).state());
    }

    /** Returns all that is not a tensor: the place in the run, the steps of the optimiser, the seed. */
    public Map<String, String> notes() {
        Map<String, String> notes = new LinkedHashMap<>();
        notes.put("step", Long.toString(progress.step));
        notes.put("epoch", Integer.toString(progress.epoch));
        notes.put("batch", Integer.toString(progress.batch));
        notes.put("optimizer.steps", Long.toString(optimizer.steps()));
        long[] missed = optimizer.missed();
        if (LongStream.of(missed).anyMatch(count -> count > 0)) {
            notes.put(MISSED, LongStream.of(missed).mapToObj(Long::toString).collect(Collectors.joining(" ")));
        }
        notes.put("random.seed", Long.toString(seed));
        notes.put("data", dataNote());
        if (scale != null) {
            scale.save(notes);
        }
        return notes;
    }

    /** Describes what the place in the data means. */
    private String dataNote() {
        return data == null ? "none" : (ownData ? "rows of each rank's own" : data.size() + " examples")
                + " in batches of " + data.batchSize() + " with seed " + data.seed();
    }

    /** Returns the number of examples that this process has. */
    public int rows() {
        return data == null ? 0 : data.size();
    }

    /**
     * Takes notes of another process or time. Whoever calls this has filled the {@link #tensors} that go with them, or
     * does so before it returns to the trainer, which goes on from there.
     *
     * @throws TensorException if they are not the notes of a run like this; then nothing is changed
     */
    public void restore(Map<String, String> notes) {
        if (!dataNote().equals(notes.get("data"))) {
            throw TensorException.argument("restore", "was made with " + notes.get("data") + ", this run has "
                    + dataNote(), "build the loader as it was");
        }
        try {
            long step = Long.parseLong(notes.get("step"));
            int epoch = Integer.parseInt(notes.get("epoch"));
            int batch = Integer.parseInt(notes.get("batch"));
            long optimizerSteps = Long.parseLong(notes.get("optimizer.steps"));
            String note = notes.getOrDefault(MISSED, "");
            long[] missed = note.isEmpty() ? new long[0]
                    : Stream.of(note.split(" ")).mapToLong(Long::parseLong).toArray();
            if (scale != null) {
                scale.restore(notes);
            }
            seed = Long.parseLong(notes.get("random.seed"));
            progress.step = step;
            progress.epoch = epoch;
            progress.batch = batch;
            optimizer.resume(optimizerSteps, missed);
            restored = true;
        } catch (NumberFormatException e) {
            throw TensorException.argument("restore", "lacks the notes of a training run: " + e.getMessage(),
                    "give the notes that another process took");
        }
    }

    /** Tells whether the state was restored since this was last asked. */
    boolean takeRestored() {
        boolean was = restored;
        restored = false;
        return was;
    }

    boolean isRestored() {
        return restored;
    }

    void restore(Checkpoint checkpoint) {
        Map<String, String> notes = checkpoint.notes();
        try {
            restore(notes);
            progress.averages.restore(notes);
        } catch (TensorException e) {
            throw new CheckpointException(checkpoint.path(), e.getMessage(), "give one that this run has saved", e);
        }
        // What a strategy kept is read when a strategy asks for it, and not needed by another.
        checkpoint.into(tensors, name -> name.startsWith(STRATEGY));
        source = checkpoint;
    }
}
