package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.EpochReport;
import java.util.List;

/** What came of a run: the model's description, its weights, and the columns that it was trained on. Immutable. */
public final class TrainedModel {
    private final ModelDescription description;
    private final byte[] weights;
    private final Columns columns;
    private final List<EpochReport> epochs;

    TrainedModel(ModelDescription description, byte[] weights, Columns columns, List<EpochReport> epochs) {
        this.description = description;
        this.weights = weights;
        this.columns = columns;
        this.epochs = List.copyOf(epochs);
    }

    /** Returns how the model is built. */
    public ModelDescription description() {
        return description;
    }

    /** Returns weights and description as a safetensors file. */
    public byte[] safetensors() {
        return weights.clone();
    }

    /** Returns what came of each epoch on rank 0; those before the stage was restarted may be missing. */
    public List<EpochReport> epochs() {
        return epochs;
    }

    /** Builds the model with its weights, in this process; the caller closes it. */
    public Layer build() {
        try (SafeTensors file = SafeTensors.of(weights)) {
            return ModelDescription.load(file, Thread.currentThread().getContextClassLoader());
        }
    }
}
