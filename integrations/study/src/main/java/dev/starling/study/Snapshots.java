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
 * Rank 0 copies the weights at fixed intervals of images and leaves them with their times when the training is over.
 * They are measured afterwards, so that measuring takes no time of any worker, and none works while another measures.
 * On every rank this stops a training that lasts longer than the recipe allows.
 */
final class Snapshots implements TrainingListener {
    private record Copy(byte[] weights, long images, double seconds) { }

    private final Plan plan;
    private final Layer model;
    private final int rank;
    private final List<Copy> copies = new ArrayList<>();
    private boolean begun;
    private long beginNs;
    private double seconds;

    Snapshots(Plan plan, Layer model, int rank) {
        this.plan = plan;
        this.model = model;
        this.rank = rank;
    }

    @Override
    public void epochStarted(Progress progress) {
        if (!begun) {
            begun = true;
            beginNs = System.nanoTime();
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

    /** By now the strategy has finished, and this rank has the weights that the training ends with. */
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
            throw new UncheckedIOException("cannot leave the weights in " + plan.directory(), e);
        }
    }

    private void copy(long images, double after) {
        copies.add(new Copy(SafeTensors.bytes(model.state(), Map.of()), images, after));
    }

    private double elapsed() {
        return begun ? (System.nanoTime() - beginNs) / 1e9 : 0;
    }

    /** Returns the images of this rank's steps. */
    private long seen(Progress progress) {
        return progress.step() * plan.recipe().updateBatch(plan.setup());
    }

    /** Where workers take steps of their own, they are about as fast as this one. */
    private long seenByAll(Progress progress) {
        return seen(progress) * (plan.setup().isSynchronous() ? 1 : plan.setup().workers());
    }
}
