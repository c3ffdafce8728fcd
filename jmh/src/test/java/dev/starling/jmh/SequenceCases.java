package dev.starling.jmh;

import dev.starling.jmh.LayerCase.Input;
import dev.starling.jmh.LayerCase.TorchFunction;
import dev.starling.jmh.LayerCase.Weights;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Layer;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.Gru;
import dev.starling.nn.layer.KeyValueCache;
import dev.starling.nn.layer.LearnedPositions;
import dev.starling.nn.layer.Lstm;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.nn.layer.Recurrent;
import dev.starling.nn.layer.RecurrentCell;
import dev.starling.nn.layer.Rnn;
import dev.starling.nn.layer.RotaryPositions;
import dev.starling.nn.layer.TransformerDecoderLayer;
import dev.starling.nn.layer.TransformerEncoderLayer;
import dev.starling.tensor.Generator;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.bytedeco.pytorch.DoubleOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** Layers of sequences and their functions in PyTorch. */
final class SequenceCases {
    private static final List<LayerCase> ALL = new ArrayList<>();
    private static final long WIDTH = 8;

    static {
        recurrent("Lstm.of", SequenceCases::lstm, Lstm::of);
        recurrent("Gru.of", (x, n) -> torch.gru(x, n.state(x), n.weights(), n.bias, n.layers, 0, false, n.both, true)
                .get0(), Gru::of);
        recurrent("Rnn.of", (x, n) -> torch.rnn_tanh(x, n.state(x), n.weights(), n.bias, n.layers, 0, false, n.both,
                true).get0(), Rnn::of);
        recurrent("Rnn.of", (x, n) -> torch.rnn_relu(x, n.state(x), n.weights(), n.bias, n.layers, 0, false, n.both,
                true).get0(), Rnn::rectified);
        cells();
        attention();
        transformers();
        positions();
    }

    private SequenceCases() { }

    static List<LayerCase> all() {
        return ALL;
    }

    private static long[] shape(long... dims) {
        return dims;
    }

    private static void add(String row, String name, Function<Generator, Layer> ours, TorchFunction theirs,
            long[]... shapes) {
        ALL.add(new LayerCase(row, name, ours, theirs, Input.NUMBERS, true, shapes));
    }

    /** The arguments of PyTorch's recurrent functions; weights are in the order of our parameters. */
    private record Network(List<String> paths, Weights w, boolean bias, int layers, boolean both, long units) {
        TensorVector weights() {
            return new TensorVector(paths.stream().map(w::of).toArray(Tensor[]::new));
        }

        Tensor state(Tensor x) {
            return torch.zeros(new long[] {layers * (both ? 2L : 1), x.size(0), units}).toType(x.scalar_type());
        }
    }

    private static Tensor lstm(Tensor x, Network n) {
        Tensor state = n.state(x);
        return torch.lstm(x, new TensorVector(state, state), n.weights(), n.bias, n.layers, 0, false, n.both, true)
                .get0();
    }

    private static void recurrent(String row, BiFunction<Tensor, Network, Tensor> theirs,
            BiFunction<Long, Long, Recurrent.Builder> ours) {
        long[][] shapes = {shape(2, 5, 3), shape(1, 1, 3), shape(3, 2, 3)};
        for (int i = 0; i < 3; i++) {
            int layers = i == 0 ? 1 : 2;
            boolean both = i == 1;
            boolean bias = i < 2;
            Function<Generator, Recurrent> make = g -> {
                Recurrent.Builder builder = ours.apply(3L, 4L).layers(layers);
                builder = both ? builder.bidirectional() : builder;
                return (bias ? builder : builder.withoutBias()).build(g);
            };
            List<String> paths = List.copyOf(make.apply(Generator.seeded(1)).parameters().keySet());
            add(row, layers + (both ? " both" : "") + (bias ? "" : " without bias"), make::apply, (x, w) ->
                    theirs.apply(x, new Network(paths, w, bias, layers, both, 4)), shapes);
        }
        List<String> paths = List.copyOf(ours.apply(3L, 4L).build(Generator.seeded(1)).parameters().keySet());
        add(row, "time first", g -> ours.apply(3L, 4L).timeFirst().build(g), (x, w) -> theirs.apply(x.transpose(0, 1),
                new Network(paths, w, true, 1, false, 4)).transpose(0, 1), shape(5, 2, 3));
        add(row, "last", g -> ours.apply(3L, 4L).last().build(g), (x, w) -> theirs.apply(x,
                new Network(paths, w, true, 1, false, 4)).select(1, -1), shape(2, 5, 3), shape(1, 1, 3));
    }

    private static void cells() {
        long[][] shapes = {shape(5, 3), shape(1, 3)};
        add("RecurrentCell.lstm", "lstm", g -> RecurrentCell.lstm(3, 4, g), (x, w) -> torch.lstm_cell(x,
                new TensorVector(zeros(x), zeros(x)), w.of("weight_ih"), w.of("weight_hh"), w.optional("bias_ih"),
                w.optional("bias_hh")).get0(), shapes);
        add("RecurrentCell.lstm", "gru", g -> RecurrentCell.gru(3, 4, g), (x, w) -> torch.gru_cell(x, zeros(x),
                w.of("weight_ih"), w.of("weight_hh"), w.optional("bias_ih"), w.optional("bias_hh")), shapes);
        add("RecurrentCell.lstm", "rnn", g -> RecurrentCell.rnn(3, 4, g), (x, w) -> torch.rnn_tanh_cell(x, zeros(x),
                w.of("weight_ih"), w.of("weight_hh"), w.optional("bias_ih"), w.optional("bias_hh")), shapes);
        add("RecurrentCell.lstm", "three steps", g -> steps(RecurrentCell.lstm(3, 4, g)), (x, w) -> {
            TensorVector state = new TensorVector(zeros(x.select(0, 0)), zeros(x.select(0, 0)));
            for (int t = 0; t < 3; t++) {
                var next = torch.lstm_cell(x.select(0, t), state, w.of("cell.weight_ih"), w.of("cell.weight_hh"),
                        w.optional("cell.bias_ih"), w.optional("cell.bias_hh"));
                state = new TensorVector(next.get0(), next.get1());
            }
            return state.get(1);
        }, shape(3, 2, 3));
    }

    private static Layer steps(RecurrentCell cell) {
        return named("cell", cell, x -> {
            Recurrent.State state = null;
            for (int t = 0; t < 3; t++) {
                state = cell.forward(x.narrow(0, t, 1).squeeze(0), state);
            }
            return state.c();
        });
    }

    /** Returns a layer that calls a part of another one. */
    private static Layer named(String name, dev.starling.nn.Module inner, Layer forward) {
        return new Layer() {
            @Override
            public dev.starling.tensor.Tensor forward(dev.starling.tensor.Tensor x) {
                return forward.forward(x);
            }

            @Override
            public void visit(Visitor visitor) {
                visitor.layer(name, inner);
            }
        };
    }

    private static Tensor zeros(Tensor x) {
        return torch.zeros(new long[] {x.size(0), 4}).toType(x.scalar_type());
    }

    /** What an attention does besides the usual. */
    private record Settings(int heads, int keyHeads, boolean causal, double rotary, TensorOptional mask) {
        static Settings of(int heads) {
            return new Settings(heads, heads, false, 0, new TensorOptional());
        }
    }

    private static Tensor attend(Tensor x, Tensor memory, Weights w, Settings s) {
        long keys = WIDTH / s.heads * s.keyHeads;
        Tensor[] parts = new Tensor[3];
        for (int i = 0; i < 3; i++) {
            long first = i == 0 ? 0 : WIDTH + (i - 1) * keys;
            long count = i == 0 ? WIDTH : keys;
            parts[i] = torch.linear(i == 0 ? x : memory, w.of("project.weight").narrow(0, first, count),
                    new TensorOptional(w.of("project.bias").narrow(0, first, count)));
            parts[i] = parts[i].reshape(parts[i].size(0), parts[i].size(1), -1, WIDTH / s.heads).permute(0, 2, 1, 3);
            parts[i] = i < 2 && s.rotary > 0 ? rotated(parts[i], s.rotary) : parts[i];
        }
        Tensor y = torch.scaled_dot_product_attention(parts[0], parts[1], parts[2], s.mask, 0, s.causal,
                new DoubleOptional(), s.keyHeads < s.heads);
        return LayerCases.linear(y.permute(0, 2, 1, 3).reshape(x.sizes()), w.within("out."));
    }

    /** Rotates the pairs (i, i + E/2), as complex numbers. */
    private static Tensor rotated(Tensor x, double base) {
        long half = x.size(-1) / 2;
        Tensor speeds = torch.pow(new Scalar(base), torch.arange(new Scalar(0), new Scalar(half)).toType(
                torch.ScalarType.Double).mul(new Scalar(-1.0 / half)));
        Tensor angles = torch.outer(torch.arange(new Scalar(0), new Scalar(x.size(-2))).toType(
                torch.ScalarType.Double), speeds);
        Tensor turns = complex(torch.cos(angles), torch.sin(angles));
        Tensor z = torch.view_as_real(complex(x.narrow(-1, 0, half), x.narrow(-1, half, half)).mul(turns));
        return torch.cat(new TensorVector(z.select(-1, 0), z.select(-1, 1)), -1).toType(x.scalar_type());
    }

    private static Tensor complex(Tensor real, Tensor imaginary) {
        return torch.view_as_complex(torch.stack(new TensorVector(real.toType(torch.ScalarType.Double),
                imaginary.toType(torch.ScalarType.Double)), -1));
    }

    private static void attention() {
        long[][] shapes = {shape(2, 5, WIDTH), shape(1, 1, WIDTH), shape(3, 2, WIDTH)};
        String row = "MultiHeadAttention.of";
        for (int heads : new int[] {1, 2, 8}) {
            add(row, heads + " heads", g -> MultiHeadAttention.of(WIDTH, heads, g), (x, w) -> attend(x, x, w,
                    Settings.of(heads)), shapes);
        }
        add(row, "causal", g -> MultiHeadAttention.of(WIDTH, 2, g).causal(), (x, w) -> attend(x, x, w,
                new Settings(2, 2, true, 0, new TensorOptional())), shapes);
        add(row, "in groups", g -> MultiHeadAttention.grouped(WIDTH, 4, 2, g).causal(), (x, w) -> attend(x, x, w,
                new Settings(4, 2, true, 0, new TensorOptional())), shapes);
        add(row, "of one head of keys, rotary", g -> MultiHeadAttention.grouped(WIDTH, 4, 1, g).rotary(100), (x, w) ->
                attend(x, x, w, new Settings(4, 1, false, 100, new TensorOptional())), shapes);
        add(row, "to another sequence", g -> {
            MultiHeadAttention attention = MultiHeadAttention.of(WIDTH, 2, g);
            return named("a", attention, x -> attention.cross(x, x.narrow(1, 0, 2).mul(2), null));
        }, (x, w) -> attend(x, x.narrow(1, 0, 2).mul(new Scalar(2)), w.within("a."), Settings.of(2)), shapes[0]);
        double[] scores = {0, -1, 2, 0.5, 0, 0, 1, 1, -3};
        add(row, "with a mask of numbers", g -> {
            MultiHeadAttention attention = MultiHeadAttention.of(WIDTH, 2, g);
            return named("a", attention, x -> attention.forward(x, dev.starling.tensor.Tensor.of(scores, 3, 3)
                    .to(x.dtype())));
        }, (x, w) -> attend(x, x, w.within("a."), new Settings(2, 2, false, 0, new TensorOptional(Torch.tensor(scores,
                3, 3)))), shape(2, 3, WIDTH));
        // The result of all positions at once is that of one position after another with a cache.
        ALL.add(new LayerCase("KeyValueCache.of", "", g -> {
            MultiHeadAttention attention = MultiHeadAttention.grouped(WIDTH, 4, 2, g).rotary(100).causal();
            return named("a", attention, x -> cached(attention, x));
        }, (x, w) -> attend(x, x, w.within("a."), new Settings(4, 2, true, 100, new TensorOptional())).detach(),
                Input.NUMBERS, false, shapes));
    }

    private static dev.starling.tensor.Tensor cached(MultiHeadAttention attention, dev.starling.tensor.Tensor x) {
        try (KeyValueCache cache = KeyValueCache.of(x.size(1))) {
            dev.starling.tensor.Tensor[] steps = new dev.starling.tensor.Tensor[(int) x.size(1)];
            for (int t = 0; t < steps.length; t++) {
                steps[t] = attention.forward(x.narrow(1, t, 1), cache);
            }
            return dev.starling.tensor.Tensor.concat(1, steps);
        }
    }

    private static Tensor norm(Tensor x, Weights w) {
        return torch.layer_norm(x, new long[] {WIDTH}, w.optional("weight"), w.optional("bias"), 1e-5, false);
    }

    private static Tensor perceptron(Tensor x, Weights w, Function<Tensor, Tensor> activation) {
        return LayerCases.linear(activation.apply(LayerCases.linear(x, w.within("first."))), w.within("second."));
    }

    private static void transformers() {
        long[][] shapes = {shape(2, 5, WIDTH), shape(1, 1, WIDTH)};
        String encoder = "TransformerEncoderLayer.of";
        add(encoder, "", g -> TransformerEncoderLayer.of(WIDTH, 2, 6, g), (x, w) -> {
            Tensor y = norm(x.add(attend(x, x, w.within("attention."), Settings.of(2))), w.within("norm1."));
            return norm(y.add(perceptron(y, w.within("perceptron."), torch::relu)), w.within("norm2."));
        }, shapes);
        add(encoder, "first normalised, causal, with Gelu", g -> TransformerEncoderLayer.of(MultiHeadAttention.of(WIDTH,
                2, g).causal(), WIDTH, 6, new Gelu(), g).normFirst(), (x, w) -> {
            Tensor n = norm(x, w.within("norm1."));
            Tensor y = x.add(attend(n, n, w.within("attention."), new Settings(2, 2, true, 0, new TensorOptional())));
            return y.add(perceptron(norm(y, w.within("norm2.")), w.within("perceptron."), torch::gelu));
        }, shapes);
        for (boolean first : new boolean[] {false, true}) {
            add("TransformerDecoderLayer.of", first ? "first normalised" : "", g -> {
                TransformerDecoderLayer plain = TransformerDecoderLayer.of(WIDTH, 2, 6, g);
                TransformerDecoderLayer decoder = first ? plain.normFirst() : plain;
                return named("d", decoder, x -> decoder.forward(x, x.narrow(1, 0, 2).mul(2), null));
            }, (x, all) -> decoded(x, x.narrow(1, 0, 2).mul(new Scalar(2)), all.within("d."), first), shapes[0]);
        }
    }

    private static Tensor decoded(Tensor x, Tensor memory, Weights w, boolean first) {
        Map<String, Function<Tensor, Tensor>> parts = Map.of(
                "1", in -> attend(in, in, w.within("attention."), new Settings(2, 2, true, 0, new TensorOptional())),
                "2", in -> attend(in, memory, w.within("cross."), Settings.of(2)),
                "3", in -> perceptron(in, w.within("perceptron."), torch::relu));
        Tensor y = x;
        for (String part : new String[] {"1", "2", "3"}) {
            Weights own = w.within("norm" + part + ".");
            y = first ? y.add(parts.get(part).apply(norm(y, own))) : norm(y.add(parts.get(part).apply(y)), own);
        }
        return y;
    }

    private static void positions() {
        add("LearnedPositions.of", "", g -> LearnedPositions.of(5, 3, g), (x, w) -> x.add(w.of("weight").narrow(0, 0,
                x.size(-2))), shape(2, 5, 3), shape(1, 1, 3), shape(4, 3));
        add("LearnedPositions.of", "from the third", g -> {
            LearnedPositions positions = LearnedPositions.of(5, 3, g);
            return named("p", positions, x -> positions.forward(x, 2));
        }, (x, w) -> x.add(w.of("p.weight").narrow(0, 2, x.size(-2))), shape(2, 3, 3));
        add("RotaryPositions", "", g -> new RotaryPositions(10_000), (x, w) -> rotated(x, 10_000), shape(2, 3, 7, 4),
                shape(1, 2), shape(300, 6));
    }
}
