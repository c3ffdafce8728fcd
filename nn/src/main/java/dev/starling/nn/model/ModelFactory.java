package dev.starling.nn.model;

import dev.starling.nn.Layer;
import dev.starling.tensor.Generator;
import java.util.Map;

/**
 * Creates models of one kind, so that another or a later process can build a model again; see {@link ModelDescription}.
 * An implementation is a public class with a public constructor without parameters.
 */
public interface ModelFactory {
    /**
     * Creates a model on the current device.
     *
     * @param settings properties of the model; the same settings must produce the same parameter paths, types and
     *     shapes
     * @param generator draws the initial weights
     * @throws RuntimeException if a setting is missing or malformed; the message names it
     */
    Layer create(Map<String, String> settings, Generator generator);
}
