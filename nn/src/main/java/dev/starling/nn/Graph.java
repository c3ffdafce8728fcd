package dev.starling.nn;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Epilogue;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * Layers that branch and join, written as a function of nodes:
 *
 * <pre>{@code
 * Layer block = Graph.of(x -> {
 *     Graph.Node left = x.then("left", conv1).then(new Relu());
 *     Graph.Node right = x.then("right", conv3).then(new Relu());
 *     return left.concat(1, right);
 * });
 * }</pre>
 *
 * <p>The function is called once, to record the structure. A layer has the name given to {@code then}; by default its
 * name is its number. If an {@linkplain Layer#epilogue activation} is the only reader of a {@link Fusible} layer's
 * result, the layer computes it in the same pass.
 */
public final class Graph implements Layer, Container {
    /** What computes a node from the earlier nodes {@code from}, of which the first are the inputs. */
    private sealed interface Step {
        int[] from();

        Function<Tensor[], Tensor> compute();
    }

    /** A layer that is applied to a node. */
    private record Applied(String name, Layer layer, int[] from, Function<Tensor[], Tensor> compute) implements Step {
        static Applied of(String name, Layer layer, int... from) {
            return new Applied(name, layer, from, in -> layer.apply(in[0]));
        }
    }

    /** Nodes that are joined without a layer. */
    private record Joined(int[] from, Function<Tensor[], Tensor> compute) implements Step { }

    /** As the function has written them. */
    private final List<Step> written;
    /** With activations inside the layers before them. */
    private final List<Step> steps;
    /** Number of inputs: nodes before that of the first step. */
    private final int inputs;
    /** The nodes that are the results. */
    private final int[] results;

    private Graph(List<Step> written, int inputs, int... results) {
        this.written = List.copyOf(written);
        steps = fuse(written, inputs, results);
        this.inputs = inputs;
        this.results = results;
    }

    /** Returns a layer that computes what {@code structure} does with its input. */
    public static Graph of(UnaryOperator<Node> structure) {
        List<Step> steps = new ArrayList<>();
        Node result = structure.apply(new Node(steps, 1, 0));
        return new Graph(steps, 1, result.index);
    }

    /**
     * Returns a model with several inputs and results, written as a function of nodes.
     *
     * <pre>{@code
     * Model<Input, Output> model = Graph.of(Input.class, Output.class, in -> {
     *     Graph.Node x = in.get("ids").then("towns", embedding).concat(1, in.get("numbers")).then("trunk", linear);
     *     return Map.of("price", x.then("price", priceHead), "kind", x.then("kind", kindHead));
     * });
     * }</pre>
     *
     * @param structure returns a node for each component of {@code output}
     * @throws TensorException if it returns others
     */
    public static <I extends Record, O extends Record> Model<I, O> of(Class<I> input, Class<O> output,
            Function<Inputs, Map<String, Node>> structure) {
        RecordType<I> from = RecordType.of(input);
        RecordType<O> to = RecordType.of(output);
        List<Step> steps = new ArrayList<>();
        Map<String, Node> nodes = structure.apply(new Inputs(steps, from));
        if (!nodes.keySet().equals(Set.copyOf(to.names()))) {
            throw TensorException.argument("graph", "the structure returns " + new TreeSet<>(nodes.keySet())
                    + ", but the results are " + to, "return one node for each component");
        }
        int[] results = to.names().stream().mapToInt(name -> Objects.requireNonNull(nodes.get(name)).index).toArray();
        return new Several<>(new Graph(steps, from.names().size(), results), from, to);
    }

    /** The inputs of a graph by name. */
    public static final class Inputs {
        private final List<Step> steps;
        private final RecordType<?> type;

        private Inputs(List<Step> steps, RecordType<?> type) {
            this.steps = steps;
            this.type = type;
        }

        /** Returns the input of a name. */
        public Node get(String name) {
            int index = type.names().indexOf(name);
            if (index < 0) {
                throw TensorException.argument("graph", "the inputs " + type + " have no component " + name,
                        "use one of " + type.names());
            }
            return new Node(steps, type.names().size(), index);
        }
    }

    /** A graph with several inputs or results. */
    private record Several<I extends Record, O extends Record>(Graph graph, RecordType<I> inputs,
            RecordType<O> outputs) implements Model<I, O>, Container {
        @Override
        public O forward(I input) {
            return outputs.create(graph.results(inputs.tensors(input)));
        }

        @Override
        public Several<I, O> folded() {
            return new Several<>(graph.folded(), inputs, outputs);
        }

        @Override
        public Several<I, O> with(String name, Module replacement) {
            return new Several<>(graph.with(name, replacement), inputs, outputs);
        }

        @Override
        public void visit(Visitor visitor) {
            graph.visit(visitor);
        }

        @Override
        public String describe() {
            return graph.describe();
        }

        @Override
        public String settings() {
            return "";
        }

        @Override
        public String toString() {
            return tree();
        }
    }

    /** A value inside a graph: the input or the result of a step. */
    public static final class Node {
        private final List<Step> steps;
        private final int inputs;
        /** The number of the input, or that of the step plus the number of inputs. */
        private final int index;

        private Node(List<Step> steps, int inputs, int index) {
            this.steps = steps;
            this.inputs = inputs;
            this.index = index;
        }

        /** Returns the result of {@code layer} for this node. */
        public Node then(Layer layer) {
            return then(Integer.toString(steps.size()), layer);
        }

        /**
         * Returns the result of {@code layer} for this node. The paths of the layer's parameters begin with
         * {@code name}.
         *
         * @throws TensorException if the name is empty or contains a dot, which separates the names in a path
         */
        public Node then(String name, Layer layer) {
            if (name.isEmpty() || name.contains(".")) {
                throw TensorException.argument("graph", "the name of a layer must not be empty or contain a dot, got \""
                        + name + "\"", "use another name, for example with _ in place of the dot");
            }
            return step(Applied.of(name, layer, index));
        }

        /** Returns the sum of two nodes. */
        public Node add(Node other) {
            return join(in -> in[0].add(in[1]), other);
        }

        /** Returns the element-wise product of two nodes. */
        public Node mul(Node other) {
            return join(in -> in[0].mul(in[1]), other);
        }

        /** Returns this node and others concatenated along a dimension. */
        public Node concat(int dim, Node... others) {
            return join(in -> Tensor.concat(dim, in), others);
        }

        private Node join(Function<Tensor[], Tensor> compute, Node... others) {
            int[] from = new int[others.length + 1];
            from[0] = index;
            for (int i = 0; i < others.length; i++) {
                if (others[i].steps != steps) {
                    throw TensorException.argument("graph", "nodes of different graphs cannot be joined",
                            "create both branches inside one Graph.of(...)");
                }
                from[i + 1] = others[i].index;
            }
            return step(new Joined(from, compute));
        }

        private Node step(Step step) {
            steps.add(step);
            return new Node(steps, inputs, inputs + steps.size() - 1);
        }
    }

    /**
     * Moves activations into the fusible layers whose only reader they are. The step of such an activation becomes the
     * identity.
     */
    private static List<Step> fuse(List<Step> steps, int inputs, int... results) {
        int[] readers = readers(steps, inputs, results);
        List<Step> fused = new ArrayList<>(steps);
        for (int i = 0; i < steps.size(); i++) {
            if (!(steps.get(i) instanceof Applied last)) {
                continue;
            }
            Epilogue epilogue = last.layer.epilogue();
            int before = last.from[0] - inputs;
            if (epilogue != Epilogue.NONE && before >= 0 && readers[before + inputs] == 1
                    && steps.get(before) instanceof Applied s && s.layer instanceof Fusible first) {
                fused.set(before, new Applied(s.name, first, s.from, in -> first.forward(in[0], epilogue)));
                fused.set(i, new Applied(last.name, last.layer, last.from, in -> in[0]));
            }
        }
        return List.copyOf(fused);
    }

    /** Returns how many steps read each input and the result of each step; a result of the graph has one more. */
    private static int[] readers(List<Step> steps, int inputs, int... results) {
        int[] readers = new int[inputs + steps.size()];
        for (int result : results) {
            readers[result]++;
        }
        for (Step step : steps) {
            for (int from : step.from()) {
                readers[from]++;
            }
        }
        return readers;
    }

    @Override
    public Graph folded() {
        int[] readers = readers(written, inputs, results);
        // A layer that several steps share under one name stays one layer, so that each path has one parameter.
        Map<Layer, Layer> alone = new IdentityHashMap<>();
        List<Step> folded = new ArrayList<>();
        int[] moved = new int[inputs + written.size()];
        Arrays.setAll(moved, node -> node);
        for (int i = 0; i < written.size(); i++) {
            Step step = written.get(i);
            int[] from = Arrays.stream(step.from()).map(value -> moved[value]).toArray();
            Layer joined = null;
            if (step instanceof Applied last && last.layer instanceof Foldable next && readers[step.from()[0]] == 1
                    && from[0] >= inputs && folded.get(from[0] - inputs) instanceof Applied first
                    && isUnique(first.name)) {
                joined = next.foldedInto(first.layer);
                if (joined != null) {
                    folded.set(from[0] - inputs, Applied.of(first.name, joined, first.from));
                }
            }
            if (joined == null) {
                folded.add(switch (step) {
                    case Applied applied -> Applied.of(applied.name,
                            alone.computeIfAbsent(applied.layer, Layer::folded), from);
                    case Joined join -> new Joined(from, join.compute);
                });
            }
            moved[inputs + i] = joined == null ? inputs + folded.size() - 1 : from[0];
        }
        return new Graph(folded, inputs, Arrays.stream(results).map(node -> moved[node]).toArray());
    }

    /** Returns whether one step at most applies a layer of this name. */
    private boolean isUnique(String name) {
        return written.stream().filter(step -> step instanceof Applied applied && applied.name.equals(name)).count()
                <= 1;
    }

    @Override
    public Tensor forward(Tensor x) {
        return results(x)[0];
    }

    private Tensor[] results(Tensor... in) {
        if (Recorder.current() != Recorder.NONE) {
            return compute(in);
        }
        try (Scope scope = Scope.open("graph")) {
            Tensor[] computed = compute(in);
            for (Tensor each : computed) {
                scope.keep(each);
            }
            return computed;
        }
    }

    private Tensor[] compute(Tensor... given) {
        boolean traced = Trace.CURRENT.isBound();
        Tensor[] values = Arrays.copyOf(given, inputs + steps.size());
        for (int i = 0; i < steps.size(); i++) {
            Step step = steps.get(i);
            Tensor[] in = new Tensor[step.from().length];
            for (int k = 0; k < in.length; k++) {
                in[k] = values[step.from()[k]];
            }
            try {
                values[inputs + i] = traced && step instanceof Applied applied ? applied.layer.apply(in[0])
                        : step.compute().apply(in);
            } catch (TensorException e) {
                throw LayerPath.within(this, step instanceof Applied applied ? LayerPath.within(applied.layer, e) : e);
            }
        }
        Tensor[] computed = new Tensor[results.length];
        for (int i = 0; i < computed.length; i++) {
            computed[i] = values[results[i]];
        }
        return computed;
    }

    @Override
    public Graph with(String name, Module replacement) {
        List<Step> changed = new ArrayList<>(written);
        for (int i = 0; i < changed.size(); i++) {
            if (changed.get(i) instanceof Applied applied && applied.name.equals(name)
                    && replacement instanceof Layer layer) {
                changed.set(i, Applied.of(name, layer, applied.from));
            }
        }
        if (changed.equals(written)) {
            throw Container.refuse(this, name, replacement);
        }
        return new Graph(changed, inputs, results);
    }

    @Override
    public void visit(Visitor visitor) {
        for (Step step : steps) {
            if (step instanceof Applied applied) {
                visitor.layer(applied.name, applied.layer);
            }
        }
    }

    @Override
    public String toString() {
        return tree();
    }
}
