package dev.starling.nn.model;

import dev.starling.nn.Module;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;

/**
 * A model in one file, in the safetensors format: weights, buffers (running statistics, preprocessing), and
 * {@link ModelMetadata} in its header. A program that has the model's class can use it:
 *
 * <pre>{@code
 * model.save(file, ModelMetadata.none().classes("cat", "dog"));
 *
 * Layer model = Networks.cnn(Generator.seeded(0), 2);         // the same structure; its weights are replaced
 * ModelMetadata metadata = model.load(file);
 * }</pre>
 *
 * <p>A program that does not have it builds the model by its {@link ModelDescription}, if the metadata have one. The
 * optimiser and the position in a run are no part of the file; {@link dev.starling.nn.checkpoint.Checkpoint} has these.
 */
public final class ModelFile {
    private ModelFile() {
    }

    /**
     * Saves a model. The file is complete or unchanged: it is written under another name, forced to the disk and
     * renamed.
     *
     * @param path its directory is created if absent
     * @throws CheckpointException if it cannot be written
     */
    public static void save(Path path, Module model, ModelMetadata metadata) {
        SafeTensors.write(path, model.state(), metadata.texts());
    }

    /**
     * Fills a model with the weights and buffers of a file, on the device of the model.
     *
     * @return what the file says about the model
     * @throws CheckpointException if the file cannot be read, or its tensors do not match the model: the message lists
     *     those that are missing, those that the model does not have, and those of another type or shape with both. The
     *     model is then unchanged
     */
    public static ModelMetadata load(Path path, Module model) {
        try (SafeTensors saved = SafeTensors.open(path)) {
            ModelMetadata metadata = metadata(path, saved);
            saved.into(model.state());
            return metadata;
        }
    }

    /**
     * Returns what a file says about its model, without reading the weights.
     *
     * @throws CheckpointException if the file cannot be read
     */
    public static ModelMetadata metadata(Path path) {
        try (SafeTensors saved = SafeTensors.open(path)) {
            return metadata(path, saved);
        }
    }

    private static ModelMetadata metadata(Path path, SafeTensors saved) {
        try {
            return ModelMetadata.of(saved.metadata());
        } catch (TensorException e) {
            throw new CheckpointException(path, "has malformed metadata: " + e.getMessage(),
                    "replace the file with an intact copy", e);
        }
    }
}
