package dev.starling.nn.model;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.lang.reflect.Modifier;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The information needed to build a model: the factory's class and its settings, all as text. Together with the weights
 * in one safetensors file it is a complete model, which any process can load that has the factory on its class path.
 * Java serialisation is not used.
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
 * @param settings passed to the factory
 */
public record ModelDescription(String factory, Map<String, String> settings) {
    private static final String FACTORY = "model.factory";
    private static final String SETTING = "model.setting.";

    /** Copies the settings. */
    public ModelDescription {
        settings = Map.copyOf(settings);
    }

    /** Returns the description of a model. */
    public static ModelDescription of(Class<? extends ModelFactory> factory, Map<String, String> settings) {
        return new ModelDescription(factory.getName(), settings);
    }

    /** Returns this description as metadata of a safetensors file. */
    public Map<String, String> metadata() {
        Map<String, String> texts = new LinkedHashMap<>();
        texts.put(FACTORY, factory);
        new TreeMap<>(settings).forEach((name, value) -> texts.put(SETTING + name, value));
        return texts;
    }

    /** Returns whether texts describe a model. */
    static boolean isIn(Map<String, String> metadata) {
        return metadata.containsKey(FACTORY);
    }

    /**
     * Returns the description from which {@link #metadata} was made. Ignores other texts.
     *
     * @throws TensorException if the texts do not describe a model
     */
    public static ModelDescription of(Map<String, String> metadata) {
        String factory = metadata.get(FACTORY);
        if (factory == null) {
            throw failure("the metadata have no \"" + FACTORY + "\", only " + metadata.keySet(),
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

    /** Builds the model with a factory that the class loader of this class finds. */
    public Layer build(Generator generator) {
        return build(ModelDescription.class.getClassLoader(), generator);
    }

    /**
     * Builds the model. A class that does not implement {@link ModelFactory} is rejected before any of its code runs.
     *
     * @param loader the class loader that finds the factory; otherwise that of this class does
     * @throws TensorException if there is no such factory, or it rejects the settings
     */
    public Layer build(ClassLoader loader, Generator generator) {
        ModelFactory instance;
        try {
            Class<?> type = factoryClass(loader);
            if (!ModelFactory.class.isAssignableFrom(type) || !Modifier.isPublic(type.getModifiers())) {
                throw failure(factory + " must be public and implement ModelFactory", "use another factory", null);
            }
            instance = (ModelFactory) type.getConstructor().newInstance();
        } catch (ClassNotFoundException e) {
            throw failure("there is no class " + factory, "put the jar with the model's factory on the class path", e);
        } catch (ReflectiveOperationException | LinkageError e) {
            throw failure(factory + " cannot be instantiated: " + (e.getCause() == null ? e : e.getCause()),
                    "give it a public constructor without parameters", e);
        }
        try {
            return instance.create(settings, generator);
        } catch (RuntimeException e) {
            throw failure(factory + " rejects the settings " + new TreeMap<>(settings) + ": " + e.getMessage(),
                    "correct the settings", e);
        }
    }

    private Class<?> factoryClass(ClassLoader loader) throws ClassNotFoundException {
        try {
            return Class.forName(factory, false, loader);
        } catch (ClassNotFoundException e) {
            // Threads of a common pool have the system's class loader, which sees no jar that a platform has added.
            return Class.forName(factory, false, ModelDescription.class.getClassLoader());
        }
    }

    /**
     * Builds the model that a file describes, with the file's weights.
     *
     * @param loader the class loader that finds the factory; otherwise that of this class does
     * @return the model, which the caller closes
     * @throws TensorException if the file does not describe a model, or the model cannot be built
     * @throws dev.starling.nn.checkpoint.CheckpointException if the weights do not match the model, which is then
     *     closed
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

    private static TensorException failure(String relation, String remedy, @Nullable Throwable cause) {
        TensorException e = TensorException.argument("model description", relation, remedy);
        if (cause != null) {
            e.initCause(cause);
        }
        return e;
    }
}
