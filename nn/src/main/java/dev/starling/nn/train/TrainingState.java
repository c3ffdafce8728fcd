package dev.starling.nn.train;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Everything that a run needs to continue as if it had never stopped: tensors and {@link #notes}, which are stored in
 * checkpoints and which processes send to each other. It does not depend on the number of processes or on the rank.
 * Confined to the training thread.
 */
public final class TrainingState {
    /** Prefix of the names of tensors that strategies keep. */
    private static final String STRATEGY = "strategy.";
    /** Prefix of the names of what listeners keep. */
    private static final String LISTENER = "listener.";
    private static final String MISSED = "optimizer.missed";
    private static final String RULE = "optimizer.rule";
    private static final String ORDER = "data.order";
    /** Notes travel in messages, and a rule that differs between parameters names all of them. */
    private static final int MAX_RULE = 200;

    private final Module model;
    private final Optimizer optimizer;
    /** {@code null} if the caller performs the steps without a trainer. */
    private final @Nullable DataLoader data;
    private final Progress progress;
    /** {@code null} if the loss is not scaled. */
    private final @Nullable LossScale scale;
    private final Map<String, Parameter> tensors = new LinkedHashMap<>();
    private final Map<String, ResumableListener> listeners = new LinkedHashMap<>();
    /** Directory of the checkpoints to resume from, or {@code null} if this run starts from the beginning. */
    private @Nullable Path resumeDirectory;
    private boolean skipDamaged;
    /** {@code null} if this process has not resumed. */
    private @Nullable Checkpoint source;
    private long seed;
    private boolean restored;
    /** Whether no other process has the same examples. */
    private boolean ownData;
    /** {@code null} if they are those of model and optimiser only. */
    private @Nullable Supplier<RunSettings> settings;
    /** {@code null} before they are first asked for. */
    private @Nullable RunSettings known;

    TrainingState(Module model, Optimizer optimizer, @Nullable DataLoader data, long seed, Progress progress,
            @Nullable LossScale scale) {
        this.model = model;
        this.optimizer = optimizer;
        this.data = data;
        this.seed = seed;
        this.progress = progress;
        this.scale = scale;
        model.state().forEach((path, p) -> tensors.put("model." + path, p));
        optimizer.state().forEach((path, p) -> tensors.put("optimizer." + path, p));
    }

    /**
     * Returns the state of a run at its start, for callers that perform steps without a {@link Trainer}. It lacks the
     * {@linkplain TrainingStep#lossScale loss scale} of steps in f16, with which only a trainer resumes: a new step
     * starts again with the initial scale.
     */
    public static TrainingState of(Module model, Optimizer optimizer) {
        return new TrainingState(model, optimizer, null, 0, new Progress(1, new Averages(List.of())), null);
    }

    /** Returns the model that is trained. */
    public Module model() {
        return model;
    }

    /** Returns the optimiser, whose parameters are in the order of gradients. */
    public Optimizer optimizer() {
        return optimizer;
    }

    /** Returns the tensors of model and optimiser by path, in an order that is the same in every process. */
    public Map<String, Parameter> tensors() {
        // Converts the optimiser's state to the current types of the parameters.
        optimizer.state();
        return Collections.unmodifiableMap(tensors);
    }

    /**
     * Adds a tensor that a strategy keeps in addition to model and optimiser, so that checkpoints contain it. If this
     * run resumes from a checkpoint that contains it, it is filled from there. To be called in
     * {@link DistributionStrategy#start}.
     *
     * @param tensor owned by the caller, which closes it when the run is over
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

    /** Returns the checkpoint from which this process resumed, if it did. */
    public Optional<Checkpoint> source() {
        return Optional.ofNullable(source);
    }

    /** Adds what listeners keep: tensors and notes, under the class of each. */
    void listeners(List<TrainingListener> all) {
        for (TrainingListener each : all) {
            if (each instanceof ResumableListener listener) {
                String name = LISTENER + each.getClass().getSimpleName();
                long same = listeners.keySet().stream().filter(other -> other.startsWith(name)).count();
                String prefix = name + (same == 0 ? "" : "-" + (same + 1)) + ".";
                listeners.put(prefix, listener);
                listener.tensors().forEach((path, tensor) -> tensors.put(prefix + path, tensor));
            }
        }
    }

    /** Returns the notes with a prefix, without it. */
    private static Map<String, String> within(Map<String, String> notes, String prefix) {
        Map<String, String> found = new LinkedHashMap<>();
        notes.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), value);
            }
        });
        return found;
    }

    /** Sets what describes the settings that must be equal on all ranks. */
    void settings(Supplier<RunSettings> description) {
        settings = description;
    }

    /**
     * Returns the settings that must be equal on all ranks. A strategy whose start asks for them adds its own and
     * compares them; otherwise the trainer compares them by {@link Collective#sum} before the first step, if the ranks
     * share batches.
     */
    public RunSettings settings() {
        if (known == null) {
            known = settings != null ? settings.get() : RunSettings.of(model, optimizer);
        }
        return known;
    }

    /** Returns whether the settings were asked for. */
    boolean hasSharedSettings() {
        return known != null;
    }

    /** Records that no other process has the same examples. */
    void ownData() {
        ownData = true;
    }

    /**
     * Sets the directory to resume from if it contains a checkpoint, or {@code null}, and whether damaged checkpoints
     * are skipped.
     */
    void resumeFrom(@Nullable Path directory, boolean damagedAreSkipped) {
        resumeDirectory = directory;
        skipDamaged = damagedAreSkipped;
    }

    /**
     * Resumes from the latest checkpoint if resuming is configured, a checkpoint exists, and this process has not read
     * it yet. A trainer calls this on rank 0 before the start; a strategy calls it on another process that starts in
     * place of rank 0.
     *
     * @throws CheckpointException if the checkpoint cannot be read or does not match the run
     */
    public void resume() {
        if (resumeDirectory != null && source == null) {
            if (settings != null) {
                // What ranks have in common is what they were built with, not what listeners read from a checkpoint.
                RunSettings built = settings.get();
                settings = () -> built;
            }
            (skipDamaged ? Checkpoint.latestIntact(resumeDirectory) : Checkpoint.latest(resumeDirectory))
                    .ifPresent(this::restore);
        }
    }

    /**
     * Creates a directory if it is absent, and requires that files can be written there: a run learns so before its
     * first step, not after an epoch that would be lost.
     *
     * @throws CheckpointException if they cannot
     */
    static void requireWritable(Path directory) {
        IOException cause = null;
        try {
            Files.createDirectories(directory);
        } catch (IOException e) {
            cause = e;
        }
        if (cause != null || !Files.isWritable(directory)) {
            throw new CheckpointException(directory, "cannot be written" + (cause == null ? "" : ": " + cause),
                    "choose another directory, or change its permissions", cause);
        }
    }

    /** Returns the number of completed steps. */
    public long step() {
        return progress.step;
    }

    /** Returns the number of the epoch, from 0. */
    public int epoch() {
        return progress.epoch;
    }

    /** Returns the number of completed batches of the epoch. */
    public int batch() {
        return progress.batch;
    }

    /** Counts a step over {@code batches} batches. */
    void advance(int batches) {
        progress.step++;
        progress.batch += batches;
    }

    /** Sets the random stream for this step and rank, which otherwise depends only on the seed. */
    void randomize(Generator generator, int rank) {
        generator.restore(Generator.seeded(seed).split(progress.step).split(rank).state());
    }

    /** Returns everything that is not a tensor: the position in the run, the steps of the optimiser, the seed. */
    public Map<String, String> notes() {
        Map<String, String> notes = new LinkedHashMap<>();
        notes.put("step", Long.toString(progress.step));
        notes.put("epoch", Integer.toString(progress.epoch));
        notes.put("batch", Integer.toString(progress.batch));
        notes.put("optimizer.steps", Long.toString(optimizer.steps()));
        notes.put(RULE, rule());
        long[] missed = optimizer.missed();
        if (LongStream.of(missed).anyMatch(count -> count > 0)) {
            notes.put(MISSED, LongStream.of(missed).mapToObj(Long::toString).collect(Collectors.joining(" ")));
        }
        notes.put("random.seed", Long.toString(seed));
        notes.put("data", dataNote());
        notes.put(ORDER, orderNote());
        if (scale != null) {
            scale.save(notes);
        }
        listeners.forEach((prefix, each) -> each.notes().forEach((name, note) -> notes.put(prefix + name, note)));
        return notes;
    }

    /** Describes the rule of the optimiser's steps, abridged. */
    private String rule() {
        String rule = optimizer.settings().getOrDefault("optimiser", optimizer.getClass().getName());
        return rule.length() <= MAX_RULE ? rule : rule.substring(0, MAX_RULE) + "…";
    }

    /** Describes the data that a position in the run refers to. */
    private String dataNote() {
        return data == null ? "none" : (ownData ? "rows of each rank's own" : data.size() + " examples")
                + " in batches of " + data.batchSize() + " with seed " + data.seed();
    }

    /** Describes the order of the data, which a position within an epoch refers to. */
    private String orderNote() {
        Map<String, String> settings = new LinkedHashMap<>(data == null ? Map.of() : data.settings());
        settings.keySet().removeAll(Set.of("batch size", "seed of the data"));
        return settings.entrySet().stream().map(each -> each.getKey() + ": " + each.getValue())
                .collect(Collectors.joining(", "));
    }

    /** Returns the number of examples that this process has. */
    public int rows() {
        return data == null ? 0 : data.size();
    }

    /**
     * Restores notes of another process or of an earlier time. The caller has filled the corresponding
     * {@link #tensors}, or fills them before it returns to the trainer, which continues from there.
     *
     * @throws TensorException if they are not the notes of a run like this one; then nothing is changed
     */
    public void restore(Map<String, String> notes) {
        restore(notes, null);
    }

    /** Restores notes, and the sums of an epoch that they contain if there are averages. */
    private void restore(Map<String, String> notes, @Nullable Averages averages) {
        if (!dataNote().equals(notes.get("data"))) {
            throw TensorException.argument("restore", "the state was saved with " + notes.get("data")
                    + ", but this run has " + dataNote(), "build the loader with the settings of the saved run");
        }
        String order = notes.getOrDefault(ORDER, orderNote());
        if (!"0".equals(notes.get("batch")) && !order.equals(orderNote())) {
            throw TensorException.argument("restore", "the state was saved within an epoch (" + order
                    + "), but this run has another order of the data (" + orderNote() + ")",
                    "build the loader with the settings of the saved run");
        }
        try {
            long step = Long.parseLong(notes.get("step"));
            int epoch = Integer.parseInt(notes.get("epoch"));
            int batch = Integer.parseInt(notes.get("batch"));
            long optimizerSteps = Long.parseLong(notes.get("optimizer.steps"));
            String note = notes.getOrDefault(MISSED, "");
            long[] missed = note.isEmpty() ? new long[0]
                    : Stream.of(note.split(" ")).mapToLong(Long::parseLong).toArray();
            long savedSeed = Long.parseLong(notes.get("random.seed"));
            Runnable factor = scale == null ? () -> { } : scale.restoring(notes);
            Runnable sums = averages == null ? () -> { } : averages.restoring(notes);
            restoreListeners(notes);
            factor.run();
            sums.run();
            seed = savedSeed;
            progress.step = step;
            progress.epoch = epoch;
            progress.batch = batch;
            optimizer.resume(optimizerSteps, missed);
            restored = true;
        } catch (NumberFormatException e) {
            throw TensorException.argument("restore", "the notes are not those of a training run: " + e.getMessage(),
                    "pass the result of TrainingState.notes() of a run");
        }
    }

    /** Restores the listeners. If one of them throws, it and those before it get back what they had. */
    private void restoreListeners(Map<String, String> notes) {
        Map<ResumableListener, Map<String, String>> before = new LinkedHashMap<>();
        try {
            listeners.forEach((prefix, each) -> {
                Map<String, String> own = within(notes, prefix);
                if (!own.isEmpty()) {
                    before.putIfAbsent(each, each.notes());
                    each.restore(own);
                }
            });
        } catch (RuntimeException e) {
            before.forEach(ResumableListener::restore);
            throw e;
        }
    }

    /** Forgets that the state was restored: training continues from it. */
    void clearRestored() {
        restored = false;
    }

    /** Returns whether the state was restored since the last call of {@link #clearRestored}. */
    boolean isRestored() {
        return restored;
    }

    void restore(Checkpoint checkpoint) {
        Map<String, String> notes = checkpoint.notes();
        try {
            restore(notes, progress.averages);
        } catch (TensorException e) {
            throw new CheckpointException(checkpoint.path(), String.valueOf(e.getMessage()),
                    "use a checkpoint that this run saved", e);
        }
        Map<String, Parameter> saved = new LinkedHashMap<>(tensors);
        saved.keySet().removeIf(name -> name.startsWith(LISTENER) && !checkpoint.has(name));
        // A strategy reads the tensors that it kept when it calls keep(); other strategies do not need them. Listeners
        // may be others than those of the saved run.
        try {
            checkpoint.into(saved, name -> name.startsWith(STRATEGY) || name.startsWith(LISTENER));
        } catch (CheckpointException e) {
            String rule = notes.getOrDefault(RULE, rule());
            if (rule.equals(rule()) || !e.problem().contains("\"optimizer.")) {
                throw e;
            }
            throw new CheckpointException(checkpoint.path(), "was saved with the optimiser " + rule + ", but this run "
                    + "has " + rule() + ": it " + e.problem(), "resume with the optimiser that was saved", e);
        }
        source = checkpoint;
    }
}
