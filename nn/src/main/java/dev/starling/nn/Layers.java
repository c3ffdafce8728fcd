package dev.starling.nn;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;

/**
 * Finds and exchanges layers inside a model by their paths, which are those of {@link Module#tree} and
 * {@link Module#parameters}, for example {@code trunk.0.conv}.
 *
 * <pre>{@code
 * Sequential tuned = Layers.replace(pretrained, "9", Linear.of(512, 3, generator));     // a head for 3 classes
 * tuned.freeze(path -> !path.startsWith("9."));
 * }</pre>
 */
public final class Layers {
    private Layers() {
    }

    /**
     * Returns a layer inside a model.
     *
     * @throws TensorException if there is none with this path
     */
    public static Module find(Module model, String path) {
        Module found = model;
        for (String name : path.split("\\.", -1)) {
            Module inner = inside(found).get(name);
            if (inner == null) {
                throw missing(model, path);
            }
            found = inner;
        }
        return found;
    }

    /**
     * Returns a model with another layer in place of one inside it. All other layers and parameters are those of the
     * given model, which is unchanged; the caller closes the layer that was replaced if nothing else uses it.
     *
     * @param <L> the class of the model
     * @throws TensorException if there is no layer with this path, or a layer around it is neither a {@link Container}
     *     nor a record
     */
    public static <L extends Module> L replace(L model, String path, Module replacement) {
        find(model, path);
        return map(model, (each, layer) -> each.equals(path) ? replacement : layer);
    }

    /**
     * Returns a model in which a function has exchanged layers, as {@link #replace} does. It is called with the path
     * and the layer, first for layers that contain others; layers inside one that it exchanges are left as they are.
     *
     * @param <L> the class of the model
     */
    public static <L extends Module> L map(L model, BiFunction<String, Module, Module> change) {
        return map(model, "", change);
    }

    @SuppressWarnings("unchecked")
    private static <L extends Module> L map(L layer, String prefix, BiFunction<String, Module, Module> change) {
        Module result = layer;
        for (Map.Entry<String, Module> each : inside(layer).entrySet()) {
            String path = prefix + each.getKey();
            Module changed = change.apply(path, each.getValue());
            if (changed == each.getValue()) {
                changed = map(changed, path + ".", change);
            }
            if (changed == each.getValue()) {
                continue;
            }
            result = with(result, each.getKey(), changed, path);
        }
        // A container returns a module of its own class.
        return (L) result;
    }

    private static Module with(Module around, String name, Module changed, String path) {
        return switch (around) {
            case Container container -> container.with(name, changed);
            case Record record -> (Module) RecordParts.with(record, name, changed);
            default -> throw TensorException.argument("replace", "the layer around " + path + ", "
                    + around.describe() + ", cannot exchange layers", "implement Container, or use a record");
        };
    }

    /** Returns a container or record with the modules inside it {@linkplain Module#folded folded}. */
    @SuppressWarnings("unchecked")
    static <M extends Module> M folded(M model) {
        Module result = model;
        if (model instanceof Container || model instanceof Record) {
            for (Map.Entry<String, Module> each : inside(model).entrySet()) {
                Module folded = each.getValue().folded();
                if (folded != each.getValue()) {
                    result = with(result, each.getKey(), folded, each.getKey());
                }
            }
        }
        return (M) result;
    }

    /** Returns the layers directly inside a layer by name. */
    private static Map<String, Module> inside(Module layer) {
        Map<String, Module> found = new LinkedHashMap<>();
        layer.visit(new Module.Visitor() {
            @Override
            public void parameter(String name, Parameter parameter) {
            }

            @Override
            public void layer(String name, Module inner) {
                found.put(name, inner);
            }
        });
        return found;
    }

    private static TensorException missing(Module model, String path) {
        List<String> all = new ArrayList<>();
        map(model, (each, layer) -> {
            all.add(each);
            return layer;
        });
        return TensorException.argument("replace", "the model has no layer " + path, "its layers are " + all);
    }
}
