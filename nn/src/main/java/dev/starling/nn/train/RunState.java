package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Generator;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** All that a run needs to go on as if it had never stopped: what checkpoints hold. */
final class RunState {
    private final Layer model;
    private final Optimizer optimizer;
    private final Generator generator;
    private final DataLoader data;
    private final Progress progress;

    RunState(Layer model, Optimizer optimizer, Generator generator, DataLoader data, Progress progress) {
        this.model = model;
        this.optimizer = optimizer;
        this.generator = generator;
        this.data = data;
        this.progress = progress;
    }

    private Map<String, Parameter> tensors() {
        Map<String, Parameter> tensors = new LinkedHashMap<>();
        model.state().forEach((path, p) -> tensors.put("model." + path, p));
        optimizer.state().forEach((path, p) -> tensors.put("optimizer." + path, p));
        return tensors;
    }

    Path save(Path directory) {
        Map<String, String> notes = new LinkedHashMap<>();
        notes.put("step", Long.toString(progress.step));
        notes.put("epoch", Integer.toString(progress.epoch));
        notes.put("batch", Integer.toString(progress.batch));
        notes.put("optimizer.steps", Long.toString(optimizer.steps()));
        notes.put("random.seed", Long.toString(generator.state().seed()));
        notes.put("random.counter", Long.toString(generator.state().counter()));
        notes.put("data", dataNote());
        progress.averages.save(notes);
        return Checkpoint.save(directory, progress.step, tensors(), notes);
    }

    /** Describes what the place in the data means. */
    private String dataNote() {
        return data.examples() + " examples in batches of " + data.batchSize() + " with seed " + data.seed();
    }

    void restore(Checkpoint checkpoint) {
        Map<String, String> notes = checkpoint.notes();
        if (!dataNote().equals(notes.get("data"))) {
            throw new CheckpointException(checkpoint.path(), "was made with " + notes.get("data") + ", this run has "
                    + dataNote(), "build the loader as it was", null);
        }
        try {
            long step = Long.parseLong(notes.get("step"));
            int epoch = Integer.parseInt(notes.get("epoch"));
            int batch = Integer.parseInt(notes.get("batch"));
            long optimizerSteps = Long.parseLong(notes.get("optimizer.steps"));
            Generator.State random = new Generator.State(Long.parseLong(notes.get("random.seed")),
                    Long.parseLong(notes.get("random.counter")));
            progress.averages.restore(notes);
            checkpoint.into(tensors());
            progress.step = step;
            progress.epoch = epoch;
            progress.batch = batch;
            optimizer.resume(optimizerSteps);
            generator.restore(random);
        } catch (NumberFormatException | NullPointerException e) {
            throw new CheckpointException(checkpoint.path(), "lacks the notes of a training run: " + e.getMessage(),
                    "give a checkpoint that a Trainer saved", e);
        }
    }
}
