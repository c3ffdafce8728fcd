package dev.starling.kafka;

import dev.starling.nn.Layer;
import java.util.function.Supplier;

/**
 * Where a model is announced, and how it is built from a file. Immutable.
 *
 * @param topic compacted, of one partition
 * @param name of the model; announcements of others are ignored
 * @param store reads files
 * @param factory creates the layers that the weights are loaded into; {@code null} if files describe their models
 * @param loader loads the factories that files name
 */
public record ModelTopic(String topic, String name, ModelStore store, Supplier<? extends Layer> factory,
        ClassLoader loader) {
    /**
     * Names a model whose files lie in this machine's file systems and {@linkplain
     * dev.starling.nn.model.ModelDescription describe} it.
     */
    public static ModelTopic of(String topic, String name) {
        return new ModelTopic(topic, name, ModelStore.files(), null, ModelTopic.class.getClassLoader());
    }

    /** Returns this with another store of files. */
    public ModelTopic store(ModelStore files) {
        return new ModelTopic(topic, name, files, factory, loader);
    }

    /** Returns this with layers that the application creates; files then contain only weights. */
    public ModelTopic factory(Supplier<? extends Layer> layers) {
        return new ModelTopic(topic, name, store, layers, loader);
    }

    /** Returns this with another loader of the classes that files name. */
    public ModelTopic loader(ClassLoader factories) {
        return new ModelTopic(topic, name, store, factory, factories);
    }
}
