package dev.starling.nn.model;

import dev.starling.nn.Layers;
import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.LoraLinear;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;

/**
 * A model with low-rank adapters on dense layers, among them the projections of attention. All weights of the model are
 * frozen; only the adapters train, and only they are saved. (Hu et al., 2021)
 *
 * <pre>{@code
 * Lora<Gpt2> lora = Lora.over(gpt2).rank(8).alpha(16).only(path -> path.endsWith("project")).build(generator);
 * Adam.over(lora.model()).only(Lora::isAdapter).build();      // ... train lora.model(), then
 * lora.save(file);                                            // some kilobytes
 *
 * Lora<Gpt2> again = Lora.load(file, gpt2);                   // later, on the same base
 * Gpt2 merged = again.merge();                                // as fast as the base
 * }</pre>
 *
 * @param <L> the class of the model
 */
public final class Lora<L extends Module> {
    private static final String RANK = "lora.rank";
    private static final String ALPHA = "lora.alpha";
    private static final String DROPOUT = "lora.dropout";
    private static final String PREFIX = "lora_";
    private static final String DOWN = ".lora_A";
    private static final String BUILD = "build the model with which the adapters were trained";

    private final Builder<L> config;
    private final L model;
    private final Map<String, LoraLinear> layers;

    private Lora(Builder<L> config, L model, Map<String, LoraLinear> layers) {
        this.config = config;
        this.model = model;
        this.layers = layers;
    }

    /** Returns a builder of adapters for a model, with rank 8, alpha 16, without dropout, on all dense layers. */
    public static <L extends Module> Builder<L> over(L base) {
        return new Builder<>(base);
    }

    /** Returns whether a path is that of an adapter's parameter, for {@code only} of an optimiser's builder. */
    public static boolean isAdapter(String path) {
        return path.startsWith(PREFIX, path.lastIndexOf('.') + 1);
    }

    /** Returns the model with adapters. It shares all other parameters with the base. */
    public L model() {
        return model;
    }

    /** Returns the parameters of the adapters by path. */
    public Map<String, Parameter> parameters() {
        Map<String, Parameter> all = model.parameters();
        all.keySet().removeIf(path -> !isAdapter(path));
        return all;
    }

    /** Returns the adapted layers by path. */
    public Map<String, LoraLinear> layers() {
        return layers;
    }

    /**
     * Adds the adapters to the weights of the base and sets them to 0: base and {@link #model} then compute what the
     * model has computed before, to within rounding. The weights stay frozen.
     *
     * @return the base, which needs no adapter any more
     * @throws TensorException if another layer of the base has the weight of an adapted one; then nothing is changed
     */
    public L merge() {
        Map<Parameter, Linear> adapted = new IdentityHashMap<>();
        layers.values().forEach(layer -> adapted.put(layer.base().weight(), layer.base()));
        requireOwn(config.base, "", adapted);
        layers.values().stream().distinct().forEach(LoraLinear::merge);
        return config.base;
    }

    /** Requires that no module has the weight of an adapted layer, unless it is this layer: merging would change it. */
    private static void requireOwn(Module module, String prefix, Map<Parameter, Linear> adapted) {
        module.visit(new Module.Visitor() {
            @Override
            public void parameter(String name, Parameter parameter) {
                Linear owner = adapted.get(parameter);
                if (owner != null && owner != module) {
                    throw TensorException.argument("lora", "another layer has the weight of an adapted one as " + prefix
                            + name + ", and merging would change it", "compute with model() instead of merging, or "
                            + "leave the adapted layer out with only(..)");
                }
            }

            @Override
            public void layer(String name, Module inner) {
                requireOwn(inner, prefix + name + ".", adapted);
            }
        });
    }

    /**
     * Saves the adapters, without the base, in the safetensors format. The file is complete or unchanged.
     *
     * @throws CheckpointException if it cannot be written
     */
    public void save(Path file) {
        SafeTensors.write(file, parameters(), Map.of(RANK, Integer.toString(config.rank), ALPHA,
                Double.toString(config.alpha), DROPOUT, Double.toString(config.dropout)));
    }

    /**
     * Returns a base with the adapters of a file. The base should have the weights with which they were trained.
     *
     * @throws CheckpointException if the file cannot be read, is not one of adapters, or does not match the base
     */
    public static <L extends Module> Lora<L> load(Path file, L base) {
        try (SafeTensors saved = SafeTensors.open(file)) {
            Set<String> paths = new TreeSet<>();
            for (String name : saved.names()) {
                if (name.endsWith(DOWN)) {
                    paths.add(name.substring(0, name.length() - DOWN.length()));
                }
            }
            try {
                int rank = (int) number(saved, RANK);
                for (String path : paths) {
                    if (!(Layers.find(base, path) instanceof Linear linear)) {
                        throw TensorException.argument("lora", path + " is no dense layer of the model", BUILD);
                    }
                    requireShape(saved, path + DOWN, linear.weight().master().spec(), rank);
                }
                Lora<L> lora = over(base).rank(rank).alpha(number(saved, ALPHA)).dropout(number(saved, DROPOUT))
                        .only(paths::contains).adapt(Generator.seeded(0));
                saved.into(lora.parameters());
                base.freeze(path -> true);
                return lora;
            } catch (TensorException e) {
                throw new CheckpointException(file, "has adapters that do not fit: " + e.getMessage(),
                        "use the model with which they were trained", e);
            }
        }
    }

    /** Requires the shape of A for a layer's weight, so that no more memory is allocated than the file justifies. */
    private static void requireShape(SafeTensors saved, String name, Spec weight, int rank) {
        Spec found = saved.spec(name);
        Shape needed = Shape.of(rank, weight.shape().dim(1));
        if (!found.shape().equals(needed)) {
            throw TensorException.argument("lora", name + " is " + found.dtype() + found.shape() + ", but the layer "
                    + "and the file's rank need " + weight.dtype() + needed, BUILD);
        }
    }

    private static double number(SafeTensors saved, String name) {
        try {
            return Double.parseDouble(saved.metadata().getOrDefault(name, "absent"));
        } catch (NumberFormatException e) {
            throw TensorException.argument("lora", name + " is " + saved.metadata().get(name),
                    "use a file that Lora has saved");
        }
    }

    @Override
    public String toString() {
        return model.toString();
    }

    /**
     * Collects the settings of adapters.
     *
     * @param <L> the class of the model
     */
    public static final class Builder<L extends Module> {
        private final L base;
        private int rank = 8;
        private double alpha = 16;
        private double dropout;
        private Predicate<String> selected = path -> true;

        private Builder(L base) {
            this.base = base;
        }

        /** Sets the rank of the adapters; default 8. */
        public Builder<L> rank(int value) {
            rank = value;
            return this;
        }

        /** Sets the number whose quotient with the rank multiplies the adapters; default 16. */
        public Builder<L> alpha(double value) {
            alpha = value;
            return this;
        }

        /** Sets the probability with which elements of the adapters' input are 0 in training; default 0. */
        public Builder<L> dropout(double probability) {
            dropout = probability;
            return this;
        }

        /** Selects dense layers by their path; default all. One path selects a layer that has several. */
        public Builder<L> only(Predicate<String> paths) {
            selected = paths;
            return this;
        }

        /**
         * Freezes the model and returns adapters for it.
         *
         * @param generator draws the first weights of the adapters
         * @throws TensorException if no dense layer is selected, or a layer around one is no
         *     {@link dev.starling.nn.Container}
         */
        public Lora<L> build(Generator generator) {
            Lora<L> lora = adapt(generator);
            base.freeze(path -> true);
            return lora;
        }

        private Lora<L> adapt(Generator generator) {
            // A layer in several places has one adapter, as it has one weight.
            Map<Module, LoraLinear> adapters = new IdentityHashMap<>();
            Layers.map(base, (path, layer) -> {
                if (layer instanceof Linear linear && selected.test(path) && !adapters.containsKey(linear)) {
                    adapters.put(linear, LoraLinear.of(linear, rank, alpha, generator).dropout(dropout));
                }
                return layer;
            });
            Map<String, LoraLinear> layers = new LinkedHashMap<>();
            L model = Layers.map(base, (path, layer) -> {
                LoraLinear adapted = adapters.get(layer);
                if (adapted == null) {
                    return layer;
                }
                layers.put(path, adapted);
                return adapted;
            });
            if (layers.isEmpty()) {
                throw TensorException.argument("lora", "no dense layer of the model is selected",
                        "select layers by their paths in " + base.tree());
            }
            return new Lora<>(this, model, Collections.unmodifiableMap(layers));
        }
    }
}
