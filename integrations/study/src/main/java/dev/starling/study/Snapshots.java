package dev.starling.study;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * On rank 0, copies the weights at fixed intervals of images and writes them with their times when the training has
 * ended. Their accuracy is measured afterwards, so that no worker computes or waits during a measurement. On every
 * rank, stops a training that exceeds the recipe's limit.
 */
final class Snapshots implements TrainingListener {
    private record Copy(byte[] weights, long images, double seconds) { }

    private final Plan plan;
    private final Layer model;
    private final int rank;
    private final List<Copy> copies = new ArrayList<>();
    private boolean started;
    private long startNs;
    private double seconds;

    Snapshots(Plan plan, Layer model, int rank) {
        this.plan = plan;
        this.model = model;
        this.rank = rank;
    }

    @Override
    public void epochStarted(Progress progress) {
        if (!started) {
            started = true;
            startNs = System.nanoTime();
        }
    }

    @Override
    public void stepEnded(Progress progress) {
        seconds = elapsed();
        long seen = seenByAll(progress);
        if (rank == 0 && seen >= (copies.size() + 1) * plan.recipe().every()) {
            copy(seen, seconds);
        }
        if (seconds > plan.recipe().limitSeconds()) {
            progress.stop();
        }
    }

    /** Called after the strategy has finished, so that this rank has the final weights. */
    @Override
    public void ended(Progress progress) {
        long seen = seen(progress);
        List<Track.Mark> marks = new ArrayList<>();
        if (rank == 0) {
            copy(seenByAll(progress), elapsed());
            for (Copy copy : copies) {
                String file = "weights-" + marks.size() + ".safetensors";
                write(file, copy.weights);
                marks.add(new Track.Mark(file, copy.images, copy.seconds));
            }
        }
        Json.write(plan.track(rank), new Track(seen, seconds, marks));
    }

    private void write(String file, byte[] weights) {
        try {
            Files.write(Path.of(plan.directory(), file), weights);
        } catch (IOException e) {
            throw new UncheckedIOException("cannot write the weights to " + plan.directory(), e);
        }
    }

    private void copy(long images, double after) {
        copies.add(new Copy(SafeTensors.bytes(model.state(), Map.of()), images, after));
    }

    private double elapsed() {
        return started ? (System.nanoTime() - startNs) / 1e9 : 0;
    }

    /** Returns the number of images of this rank's steps. */
    private long seen(Progress progress) {
        return progress.step() * plan.recipe().updateBatch(plan.setup());
    }

    /** Returns the number of images of all workers, estimated from this rank if workers do not share steps. */
    private long seenByAll(Progress progress) {
        return seen(progress) * (plan.setup().isSynchronous() ? 1 : plan.setup().workers());
    }
}
