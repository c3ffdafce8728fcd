package dev.starling.nn.model;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.lang.reflect.Modifier;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * How to build a model: the factory's class and its settings, all as text. With the weights in one safetensors file, it
 * is a whole model, which any process can load that has the factory on its class path. Nothing is serialised by Java.
 *
 * <pre>{@code
 * ModelDescription description = ModelDescription.of(Perceptrons.class, Map.of("hidden", "64"));
 * Layer model = description.build(generator);
 * SafeTensors.write(path, model.state(), description.metadata());
 *
 * try (SafeTensors saved = SafeTensors.open(path)) {
 *     Layer again = ModelDescription.load(saved, getClass().getClassLoader());
 * }
 * }</pre>
 *
 * @param factory name of a class that implements {@link ModelFactory}
 * @param settings handed to it
 */
public record ModelDescription(String factory, Map<String, String> settings) {
    private static final String FACTORY = "model.factory";
    private static final String SETTING = "model.setting.";

    /** Copies the settings. */
    public ModelDescription {
        settings = Map.copyOf(settings);
    }

    /** Describes a model. */
    public static ModelDescription of(Class<? extends ModelFactory> factory, Map<String, String> settings) {
        return new ModelDescription(factory.getName(), settings);
    }

    /** Returns this as texts to go with tensors in a safetensors file. */
    public Map<String, String> metadata() {
        Map<String, String> texts = new LinkedHashMap<>();
        texts.put(FACTORY, factory);
        new TreeMap<>(settings).forEach((name, value) -> texts.put(SETTING + name, value));
        return texts;
    }

    /**
     * Returns what {@link #metadata} was made from; other texts are passed over.
     *
     * @throws TensorException if no model is described
     */
    public static ModelDescription of(Map<String, String> metadata) {
        String factory = metadata.get(FACTORY);
        if (factory == null) {
            throw wrong("the texts have no \"" + FACTORY + "\", got " + metadata.keySet(),
                    "save the model with ModelDescription.metadata()", null);
        }
        Map<String, String> settings = new LinkedHashMap<>();
        metadata.forEach((name, value) -> {
            if (name.startsWith(SETTING)) {
                settings.put(name.substring(SETTING.length()), value);
            }
        });
        return new ModelDescription(factory, settings);
    }

    /** Builds the model with a factory that this class's loader knows. */
    public Layer build(Generator generator) {
        return build(ModelDescription.class.getClassLoader(), generator);
    }

    /**
     * Builds the model. A class that is no {@link ModelFactory} is refused before any of its code runs.
     *
     * @param loader knows the factory
     * @throws TensorException if there is no such factory, or it refuses the settings
     */
    public Layer build(ClassLoader loader, Generator generator) {
        ModelFactory made;
        try {
            Class<?> type = Class.forName(factory, false, loader);
            if (!ModelFactory.class.isAssignableFrom(type) || !Modifier.isPublic(type.getModifiers())) {
                throw wrong(factory + " must be public and implement ModelFactory", "name another class", null);
            }
            made = (ModelFactory) type.getConstructor().newInstance();
        } catch (ClassNotFoundException e) {
            throw wrong("there is no class " + factory, "put the jar with the model's factory on the class path", e);
        } catch (ReflectiveOperationException | LinkageError e) {
            throw wrong(factory + " cannot be made: " + (e.getCause() == null ? e : e.getCause()),
                    "give it a public constructor that takes nothing", e);
        }
        try {
            return made.create(settings, generator);
        } catch (RuntimeException e) {
            throw wrong(factory + " refuses the settings " + new TreeMap<>(settings) + ": " + e.getMessage(),
                    "change the settings", e);
        }
    }

    /**
     * Builds the model that a file describes, with the file's weights.
     *
     * @param loader knows the factory
     * @return the caller's to close
     * @throws TensorException if the file describes no model, or it cannot be built
     * @throws dev.starling.nn.checkpoint.CheckpointException if the weights do not fit; then nothing is left behind
     */
    public static Layer load(SafeTensors file, ClassLoader loader) {
        Layer model = of(file.metadata()).build(loader, Generator.seeded(0));
        try {
            file.into(model.state());
            return model;
        } catch (RuntimeException e) {
            model.close();
            throw e;
        }
    }

    private static TensorException wrong(String relation, String remedy, Throwable cause) {
        TensorException e = TensorException.argument("model description", relation, remedy);
        if (cause != null) {
            e.initCause(cause);
        }
        return e;
    }
}
