package dev.starling.nn.model;

import dev.starling.nn.Layer;
import dev.starling.tensor.Generator;
import java.util.Map;

/**
 * Makes models of one kind, so that another process, or a later one, can build a model again: see {@link
 * ModelDescription}. An implementation is a public class with a public constructor that takes nothing.
 */
public interface ModelFactory {
    /**
     * Makes a model on the current device.
     *
     * @param settings what models of this kind differ in; the same settings make the same parameters' paths, types and
     *     shapes
     * @param generator draws the first weights
     * @throws RuntimeException if a setting is missing or malformed; the message names it
     */
    Layer create(Map<String, String> settings, Generator generator);
}
