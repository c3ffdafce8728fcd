package dev.starling.nn.fuzz;

import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.fuzz.ApiFuzz;
import dev.starling.tensor.fuzz.Fuzz;
import dev.starling.tensor.fuzz.FuzzRunner;
import java.io.IOException;
import java.util.Map;

/** {@link ApiFuzz} over autograd and nn. */
public final class LayerApiFuzz implements Fuzz {
    private static final Map<String, String> EXCLUDED = Map.of(
            "Download.", "downloads from the network",
            "DataLoader.", "has threads of its own, which outlive a case",
            "CheckpointWriter.", "has a thread of its own, which outlives a case",
            "Predictor.", "has a thread of its own, which outlives a case",
            "PredictorBuilder.", "starts a thread, which outlives a case",
            "RecordPredictor.", "has a thread of its own, which outlives a case",
            "TrialTraining.", "has threads of its own, which outlive a case",
            "Networks.", "the smallest network has more weights than a case may have",
            "Gpt2.", "the smallest model has more weights than a case may have");

    private final ApiFuzz fuzz;

    /** Searches both modules. */
    public LayerApiFuzz() throws IOException {
        fuzz = new ApiFuzz(EXCLUDED, Tensor.class, Tape.class, Layer.class);
    }

    /** Returns the number of constructors and methods that are called. */
    int members() {
        return fuzz.members();
    }

    @Override
    public String run(long seed) {
        return fuzz.run(seed);
    }

    /** Runs seeds; see {@link FuzzRunner#main}. */
    public static void main(String... args) throws Exception {
        FuzzRunner.main(LayerApiFuzz.class, args);
    }
}
