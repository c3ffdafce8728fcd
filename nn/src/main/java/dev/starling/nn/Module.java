package dev.starling.nn;

import dev.starling.nn.model.ModelFile;
import dev.starling.nn.model.ModelMetadata;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Predicate;

/**
 * What has parameters: a {@link Layer}, which is a function of one tensor, or a {@link Model}, which is a function of
 * several. Its only state is its parameters and buffers, and those of the modules that it contains.
 */
public interface Module extends AutoCloseable {
    /** Receives the contents of a module from {@link Module#visit}. */
    interface Visitor {
        /** Receives a weight or a buffer of the module. */
        void parameter(String name, Parameter parameter);

        /** Receives a module contained in the module. */
        void layer(String name, Module inner);
    }

    /**
     * Passes this module's parameters and the modules that it contains to {@code visitor}, in an order that never
     * changes. Names must not contain a dot. By default, the components of a record that are modules or parameters,
     * with their names; any other class that has parameters or contains modules overrides this method.
     */
    default void visit(Visitor visitor) {
        if (this instanceof Record record) {
            RecordParts.visit(record, visitor);
        }
    }

    /** Returns the weights by path, for example {@code block1.conv.weight}. A shared weight appears once. */
    default Map<String, Parameter> parameters() {
        Map<String, Parameter> weights = state();
        weights.values().removeIf(Parameter::isBuffer);
        return weights;
    }

    /** Returns weights and buffers by path, that is everything a checkpoint must hold. A shared one appears once. */
    default Map<String, Parameter> state() {
        return StateWalk.of(this);
    }

    /** Returns the device of the parameters, or the current device if there are none. */
    default Device device() {
        Iterator<Parameter> parameters = state().values().iterator();
        return parameters.hasNext() ? parameters.next().master().device() : Device.current();
    }

    /**
     * Returns a module for inference that computes what this one does, within rounding, in fewer operations: the
     * weights of {@link Foldable} layers are folded into copies of the weights of the layers before them. Other
     * parameters are shared with this module, which does not change. Close both, this one last. Looks into containers
     * and records.
     */
    default Module folded() {
        return Layers.folded(this);
    }

    /** Returns the name of this module in a {@link Summary}. */
    default String describe() {
        return getClass().isSynthetic() || getClass().isHidden() ? "Function" : getClass().getSimpleName();
    }

    /**
     * Returns the settings of this module as {@link #tree} shows them, for example {@code 784, 128}; of a record
     * without modules its components, otherwise by default none.
     */
    default String settings() {
        if (!(this instanceof Record) || RecordParts.hasParts(getClass())) {
            return "";
        }
        String text = toString();
        int start = text.indexOf('[');
        return start < 0 || !text.endsWith("]") ? "" : text.substring(start + 1, text.length() - 1);
    }

    /** Returns this module and, indented below it, the modules that it contains, each with its name and settings. */
    default String tree() {
        return LayerTree.of(this);
    }

    /**
     * Freezes the weights with paths that {@code paths} selects, for example those that start with {@code trunk.}; see
     * {@link Parameter#freeze}.
     */
    default Module freeze(Predicate<String> paths) {
        parameters().forEach((path, p) -> {
            if (paths.test(path)) {
                p.freeze();
            }
        });
        return this;
    }

    /** Unfreezes the weights with paths that {@code paths} selects. */
    default Module unfreeze(Predicate<String> paths) {
        parameters().forEach((path, p) -> {
            if (paths.test(path)) {
                p.unfreeze();
            }
        });
        return this;
    }

    /** Moves all parameters to a device. */
    default Module to(Device device) {
        state().values().forEach(p -> p.to(device));
        return this;
    }

    /** Converts all parameters to a floating type. */
    default Module to(DType dtype) {
        state().values().forEach(p -> p.to(dtype));
        return this;
    }

    /** Saves weights, preprocessing and other buffers in a file, without metadata; see {@link ModelFile}. */
    default void save(Path file) {
        ModelFile.save(file, this, ModelMetadata.none());
    }

    /** Saves weights, preprocessing and other buffers in a file, with metadata; see {@link ModelFile#save}. */
    default void save(Path file, ModelMetadata metadata) {
        ModelFile.save(file, this, metadata);
    }

    /**
     * Replaces weights, preprocessing and other buffers by those of a file; see {@link ModelFile#load}.
     *
     * @return what the file says about the model
     */
    default ModelMetadata load(Path file) {
        return ModelFile.load(file, this);
    }

    /** Frees the memory of all parameters. */
    @Override
    default void close() {
        state().values().forEach(Parameter::close);
    }
}
