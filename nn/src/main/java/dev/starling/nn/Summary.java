package dev.starling.nn;

import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Flops;
import dev.starling.tensor.op.Op;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;

/**
 * The structure of a model, observed while it computed one result in inference mode.
 *
 * @param rows layers that contain no others, in the order in which they were called; before those that it contains, a
 *     layer with weights that none of them shows
 * @param parameters number of weights; shared ones count once
 * @param flops floating-point operations for the given input, as {@link Flops} counts them
 */
public record Summary(List<Row> rows, long parameters, long flops) {
    /**
     * One layer.
     *
     * @param path its place in the model
     * @param layer its description
     * @param output shape of its result
     * @param parameters number of its weights
     * @param flops floating-point operations
     */
    public record Row(String path, String layer, Shape output, long parameters, long flops) { }

    /** Summarises a model by running it on f32 zeros of shape {@code [N, ..]}. */
    public static Summary of(Layer model, long... input) {
        try (Scope scope = Scope.open("summary")) {
            return of(model, Tensor.zeros(input).to(model.device()));
        }
    }

    /** Summarises a model by running it on {@code input}. */
    public static Summary of(Layer model, Tensor input) {
        return observed(model, () -> model.apply(input));
    }

    /** Summarises a model of several inputs by running it on {@code input}. */
    public static <I extends Record> Summary of(Model<I, ?> model, I input) {
        return observed(model, () -> model.apply(input));
    }

    private static Summary observed(Module model, Supplier<?> call) {
        Observer observer = new Observer();
        observer.name("", model);
        try (Scope scope = Scope.open("summary")) {
            ScopedValue.where(Trace.CURRENT, observer).run(() -> Mode.inference(() -> Recorder.with(observer, call)));
        }
        long parameters = 0;
        for (Parameter p : model.parameters().values()) {
            parameters += p.value().count();
        }
        return new Summary(List.copyOf(observer.rows), parameters, observer.total);
    }

    /** Observes the calls of layers and the operations inside them. */
    private static final class Observer implements Trace, Recorder {
        private final Map<Module, String> paths = new IdentityHashMap<>();
        private final List<Row> rows = new ArrayList<>();
        /** The weights that rows show. */
        private final Set<Parameter> shown = Collections.newSetFromMap(new IdentityHashMap<>());
        private long total;
        private int calls;

        private void name(String path, Module layer) {
            if (paths.putIfAbsent(layer, path) == null) {
                layer.visit(new Module.Visitor() {
                    @Override
                    public void parameter(String name, Parameter parameter) {
                    }

                    @Override
                    public void layer(String name, Module inner) {
                        name(path.isEmpty() ? name : path + "." + name, inner);
                    }
                });
            }
        }

        @Override
        public <R> R call(Module layer, Supplier<R> forward) {
            int callsBefore = ++calls;
            int first = rows.size();
            long before = total;
            R y = forward.get();
            boolean contains = calls > callsBefore;
            long weights = 0;
            for (Parameter p : layer.parameters().values()) {
                weights += shown.add(p) || !contains ? p.value().count() : 0;
            }
            if (!contains || weights > 0) {
                long inner = rows.subList(first, rows.size()).stream().mapToLong(Row::flops).sum();
                Tensor output = y instanceof Tensor tensor ? tensor
                        : RecordType.of((Record) y).tensors((Record) y)[0];
                rows.add(first, new Row(paths.getOrDefault(layer, ""), layer.describe(), output.shape(), weights,
                        total - before - inner));
            }
            return y;
        }

        @Override
        public void record(Op op, Tensor[] in, Tensor[] out) {
            total += Flops.of(op, specs(in), specs(out));
        }

        private static Spec[] specs(Tensor[] tensors) {
            return Arrays.stream(tensors).map(Tensor::spec).toArray(Spec[]::new);
        }
    }

    /** Returns a table with the columns layer, output, parameters and FLOPs. */
    @Override
    public String toString() {
        List<String[]> table = new ArrayList<>();
        table.add(new String[] {"layer", "output", "parameters", "FLOPs"});
        for (Row row : rows) {
            table.add(new String[] {(row.path + " " + row.layer).strip(), row.output.toString(),
                String.format(Locale.ROOT, "%,d", row.parameters), scaled(row.flops)});
        }
        table.add(new String[] {"total", "", String.format(Locale.ROOT, "%,d", parameters), scaled(flops)});
        int[] width = new int[4];
        for (String[] cells : table) {
            for (int i = 0; i < width.length; i++) {
                width[i] = Math.max(width[i], cells[i].length());
            }
        }
        String line = "─".repeat(width[0] + width[1] + width[2] + width[3] + 6) + "\n";
        StringBuilder text = new StringBuilder();
        for (int r = 0; r < table.size(); r++) {
            text.append(r == 1 || r == table.size() - 1 ? line : "");
            String[] c = table.get(r);
            text.append(String.format(Locale.ROOT, "%-" + width[0] + "s  %-" + width[1] + "s  %" + width[2] + "s  %"
                    + width[3] + "s%n", c[0], c[1], c[2], c[3]).replace(System.lineSeparator(), "\n"));
        }
        return text.toString();
    }

    private static String scaled(long n) {
        String units = " kMGTP";
        double value = n;
        int unit = 0;
        while (value >= 999.5 && unit < units.length() - 1) {
            value /= 1000;
            unit++;
        }
        return unit == 0 ? Long.toString(n) : String.format(Locale.ROOT, value < 9.995 ? "%.2f %c" : value < 99.95
                ? "%.1f %c" : "%.0f %c", value, units.charAt(unit));
    }
}
