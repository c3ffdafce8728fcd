package dev.starling.jmh.fuzz;

import dev.starling.nn.Graph;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.AvgPool2d;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv;
import dev.starling.nn.layer.Conv1d;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Elu;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.GlobalAvgPool;
import dev.starling.nn.layer.GroupNorm;
import dev.starling.nn.layer.Gru;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.LeakyRelu;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Lstm;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.nn.layer.Recurrent;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.layer.RmsNorm;
import dev.starling.nn.layer.Rnn;
import dev.starling.nn.layer.Sigmoid;
import dev.starling.nn.layer.Silu;
import dev.starling.nn.layer.Softmax;
import dev.starling.nn.layer.Softplus;
import dev.starling.nn.layer.Tanh;
import dev.starling.tensor.Generator;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/**
 * A Starling network and the same function of libtorch's tensors, built from a list of pieces. A piece that does not
 * fit the shape of its input is skipped, so that every list makes a network, which allows findings to be shrunk.
 *
 * @param ours the layers
 * @param theirs the same function
 * @param out sizes of the result, without the batch
 * @param code the layers as Java source
 */
record NetPair(Layer ours, TorchFunction theirs, long[] out, String code) {
    /** The kind of a piece. */
    enum Kind {
        EMBEDDING, LINEAR, CONV, BATCH_NORM, LAYER_NORM, GROUP_NORM, RMS_NORM, MAX_POOL, AVG_POOL, GLOBAL_POOL, FLATTEN,
        LSTM, GRU, RNN, ATTENTION, DROPOUT, ACTIVATION, RESIDUAL, ADD, CONCAT, TWICE
    }

    /** A piece with three small numbers, and the pieces inside of it. */
    record Piece(Kind kind, int a, int b, int c, List<Piece> left, List<Piece> right) {
        boolean holds(Kind what) {
            return kind == what || left.stream().anyMatch(p -> p.holds(what))
                    || right.stream().anyMatch(p -> p.holds(what));
        }
    }

    /** Makes a network of pieces for input of the given sizes, and a last layer with {@code classes} results. */
    static NetPair of(List<Piece> pieces, long[] input, int classes, Generator g) {
        NetPair body = chain(pieces, input, g);
        NetPair flat = body.out.length == 1 ? body : join(body, flatten(body.out));
        return join(flat, linear(flat.out, classes, true, g));
    }

    private static NetPair chain(List<Piece> pieces, long[] input, Generator g) {
        List<NetPair> pairs = new ArrayList<>();
        long[] at = input;
        for (Piece p : pieces) {
            NetPair next = piece(p, at, g);
            if (next != null && Arrays.stream(next.out).reduce(1, (x, y) -> x * y) <= 2048) {
                pairs.add(next);
                at = next.out;
            }
        }
        return chain(pairs, at);
    }

    private static NetPair chain(List<NetPair> pairs, long[] out) {
        Layer ours = Sequential.of(pairs.stream().map(NetPair::ours).toList());
        TorchFunction theirs = pairs.stream().map(NetPair::theirs).reduce((x, s) -> x, TorchFunction::then);
        return new NetPair(ours, theirs, out, pairs.stream().map(NetPair::code).collect(
                Collectors.joining(", ", "Sequential.of(", ")")));
    }

    private static NetPair join(NetPair first, NetPair second) {
        return chain(List.of(first, second), second.out);
    }

    private static NetPair piece(Piece p, long[] in, Generator g) {
        int rank = in.length;
        return switch (p.kind) {
            case EMBEDDING -> null;
            case LINEAR -> rank == 3 ? null : linear(in, p.a, p.c % 4 > 0, g);
            case CONV -> rank == 1 ? null : conv(p, in, g);
            case BATCH_NORM -> batchNorm(in);
            case LAYER_NORM -> layerNorm(in);
            case GROUP_NORM -> rank == 1 ? null : groupNorm(in, divisor(in[0], p.a));
            case RMS_NORM -> rmsNorm(in);
            case MAX_POOL, AVG_POOL -> rank < 3 || in[1] < 2 || in[2] < 2 ? null
                    : pool(p.kind == Kind.MAX_POOL, in);
            case GLOBAL_POOL -> rank < 3 ? null : new NetPair(new GlobalAvgPool(), TorchOps::globalPool,
                    new long[] {in[0]}, "new GlobalAvgPool()");
            case FLATTEN -> rank == 1 ? null : flatten(in);
            case LSTM, GRU, RNN -> rank != 2 ? null : recurrent(p, in, g);
            case ATTENTION -> rank != 2 ? null : attention(p, in, g);
            case DROPOUT -> new NetPair(new Dropout(0.1 * p.a % 0.7), null, in, "new Dropout(" + 0.1 * p.a % 0.7 + ")");
            case ACTIVATION -> activation(p.a, in);
            case RESIDUAL, ADD, CONCAT, TWICE -> compound(p, in, g);
        };
    }

    static int divisor(long of, int wanted) {
        int d = (int) Math.min(of, Math.max(1, wanted));
        while (of % d != 0) {
            d--;
        }
        return d;
    }

    private static long[] with(long[] in, int axis, long size) {
        long[] out = in.clone();
        out[axis] = size;
        return out;
    }

    private static NetPair flatten(long[] in) {
        return new NetPair(new Flatten(), TorchOps::flatten, new long[] {Arrays.stream(in).reduce(1, (x, y) -> x * y)},
                "new Flatten()");
    }

    private static NetPair linear(long[] in, int out, boolean bias, Generator g) {
        long width = in[in.length - 1];
        Linear ours = bias ? Linear.of(width, out, g) : Linear.withoutBias(width, out, g);
        return new NetPair(ours, (x, s) -> TorchOps.linear(x, s, ours.weight(), bias ? ours.bias() : null),
                with(in, in.length - 1, out), "Linear." + (bias ? "of(" : "withoutBias(") + width + ", " + out
                + ", g)");
    }

    private static NetPair conv(Piece p, long[] in, Generator g) {
        int kernel = 1 + p.b % 3;
        int stride = 1 + p.c % 2;
        int padding = p.c / 2 % 2;
        int dilation = kernel > 1 && p.c % 7 == 3 ? 2 : 1;
        int groups = p.c % 5 == 0 ? divisor(in[0], p.a) : 1;
        int channels = groups * Math.max(1, p.a / groups);
        long[] out = with(in, 0, channels);
        for (int i = 1; i < in.length; i++) {
            out[i] = (in[i] + 2L * padding - dilation * (kernel - 1) - 1) / stride + 1;
            if (in[i] + 2L * padding < dilation * (kernel - 1) + 1) {
                return null;
            }
        }
        boolean two = in.length == 3;
        Conv.Builder builder = (two ? Conv2d.of(in[0], channels, kernel) : Conv1d.of(in[0], channels, kernel))
                .stride(stride).padding(padding).dilation(dilation).groups(groups);
        boolean bias = p.c % 3 > 0;
        Conv ours = (bias ? builder : builder.withoutBias()).build(g);
        return new NetPair(ours, (x, s) -> TorchOps.conv(x, s, ours.weight(), bias ? ours.bias() : null, stride,
                padding, dilation, groups), out, "Conv" + (two ? 2 : 1) + "d.of(" + in[0] + ", " + channels + ", "
                + kernel + ").stride(" + stride + ").padding(" + padding + ").dilation(" + dilation + ").groups("
                + groups + ")" + (bias ? "" : ".withoutBias()") + ".build(g)");
    }

    private static NetPair batchNorm(long[] in) {
        BatchNorm ours = BatchNorm.of(in[0]);
        return new NetPair(ours, (x, s) -> TorchOps.batchNorm(x, s, ours.state()), in, "BatchNorm.of(" + in[0] + ")");
    }

    private static NetPair layerNorm(long[] in) {
        LayerNorm ours = LayerNorm.of(in[in.length - 1]);
        return new NetPair(ours, (x, s) -> TorchOps.layerNorm(x, s, ours.state()), in,
                "LayerNorm.of(" + in[in.length - 1] + ")");
    }

    private static NetPair groupNorm(long[] in, int groups) {
        GroupNorm ours = GroupNorm.of(groups, in[0]);
        return new NetPair(ours, (x, s) -> TorchOps.groupNorm(x, s, groups, ours.state()), in,
                "GroupNorm.of(" + groups + ", " + in[0] + ")");
    }

    private static NetPair rmsNorm(long[] in) {
        RmsNorm ours = RmsNorm.of(in[in.length - 1]);
        return new NetPair(ours, (x, s) -> TorchOps.rmsNorm(x, s, ours.state()), in,
                "RmsNorm.of(" + in[in.length - 1] + ")");
    }

    private static NetPair pool(boolean max, long[] in) {
        return new NetPair(max ? MaxPool2d.of(2) : AvgPool2d.of(2), (x, s) -> TorchOps.pool(x, max),
                new long[] {in[0], in[1] / 2, in[2] / 2}, (max ? "Max" : "Avg") + "Pool2d.of(2)");
    }

    private static NetPair recurrent(Piece p, long[] in, Generator g) {
        int layers = 1 + p.b % 2;
        boolean both = p.c % 2 == 1;
        boolean last = p.c / 2 % 3 == 0;
        Recurrent.Builder builder = switch (p.kind) {
            case LSTM -> Lstm.of(in[1], p.a);
            case GRU -> Gru.of(in[1], p.a);
            default -> Rnn.of(in[1], p.a);
        };
        builder.layers(layers);
        builder = both ? builder.bidirectional() : builder;
        builder = last ? builder.last() : builder;
        Recurrent ours = builder.build(g);
        long width = both ? 2L * p.a : p.a;
        String name = p.kind == Kind.LSTM ? "Lstm" : p.kind == Kind.GRU ? "Gru" : "Rnn";
        return new NetPair(ours, (x, s) -> TorchOps.recurrent(p.kind, x, s, ours.state(), layers, both, last, p.a),
                last ? new long[] {width} : new long[] {in[0], width}, name + ".of(" + in[1] + ", " + p.a + ").layers("
                + layers + ")" + (both ? ".bidirectional()" : "") + (last ? ".last()" : "") + ".build(g)");
    }

    private static NetPair attention(Piece p, long[] in, Generator g) {
        int heads = divisor(in[1], 1 + p.a % 4);
        boolean causal = p.b % 2 == 1;
        MultiHeadAttention all = MultiHeadAttention.of(in[1], heads, g);
        MultiHeadAttention ours = causal ? all.causal() : all;
        return new NetPair(ours, (x, s) -> TorchOps.attention(x, s, ours.state(), heads, causal), in,
                "MultiHeadAttention.of(" + in[1] + ", " + heads + ", g)" + (causal ? ".causal()" : ""));
    }

    private static NetPair activation(int which, long[] in) {
        return switch (which % 10) {
            case 0 -> new NetPair(new Relu(), TorchOps.RELU, in, "new Relu()");
            case 1 -> new NetPair(new Gelu(), TorchOps.GELU, in, "new Gelu()");
            case 2 -> new NetPair(new Gelu(true), TorchOps.GELU_TANH, in, "new Gelu(true)");
            case 3 -> new NetPair(new Silu(), TorchOps.SILU, in, "new Silu()");
            case 4 -> new NetPair(new Tanh(), TorchOps.TANH, in, "new Tanh()");
            case 5 -> new NetPair(new Sigmoid(), TorchOps.SIGMOID, in, "new Sigmoid()");
            case 6 -> new NetPair(new Softplus(), TorchOps.SOFTPLUS, in, "new Softplus()");
            case 7 -> new NetPair(new Elu(1), TorchOps.ELU, in, "new Elu(1)");
            case 8 -> new NetPair(new LeakyRelu(0.1), TorchOps.LEAKY_RELU, in, "new LeakyRelu(0.1)");
            default -> new NetPair(new Softmax(in.length), TorchOps.softmax(in.length), in,
                    "new Softmax(" + in.length + ")");
        };
    }

    private static NetPair compound(Piece p, long[] in, Generator g) {
        NetPair left = chain(p.left, in, g);
        boolean same = Arrays.equals(left.out, in);
        if (p.kind == Kind.TWICE || p.kind == Kind.RESIDUAL) {
            return !same ? left : p.kind == Kind.TWICE
                    ? new NetPair(Sequential.of(left.ours, new Tanh(), left.ours), left.theirs.then(TorchOps.TANH)
                            .then(left.theirs), in, "twice(" + left.code + ")")
                    : new NetPair(Residual.of(left.ours), (x, s) -> left.theirs.of(x, s).add(x), in,
                            "Residual.of(" + left.code + ")");
        }
        NetPair right = chain(p.right, in, g);
        int axis = in.length == 2 ? 1 : 0;
        boolean add = p.kind == Kind.ADD;
        if (left.out.length != right.out.length || left.out.length != in.length
                || !Arrays.equals(add ? left.out : with(left.out, axis, 0), add ? right.out
                        : with(right.out, axis, 0))) {
            return left;
        }
        Layer ours = Graph.of(x -> add ? x.then("left", left.ours).add(x.then("right", right.ours))
                : x.then("left", left.ours).concat(1 + axis, x.then("right", right.ours)));
        return new NetPair(ours, (x, s) -> add ? left.theirs.of(x, s).add(right.theirs.of(x, s))
                : TorchOps.concat(1 + axis, left.theirs.of(x, s), right.theirs.of(x, s)),
                add ? left.out : with(left.out, axis, left.out[axis] + right.out[axis]),
                "Graph.of(x -> x.then(\"left\", " + left.code + ")." + (add ? "add(" : "concat(" + (1 + axis) + ", ")
                + "x.then(\"right\", " + right.code + ")))");
    }

    /** Makes a network that begins with a table of embeddings. */
    static NetPair embedded(int rows, int width, int length, List<Piece> pieces, int classes, Generator g) {
        Embedding table = Embedding.of(rows, width, g);
        NetPair rest = of(pieces, new long[] {length, width}, classes, g);
        return join(new NetPair(table, (x, s) -> TorchOps.embedding(x, s, table.weight()), new long[] {length, width},
                "Embedding.of(" + rows + ", " + width + ", g)"), rest);
    }

    /** A function of libtorch's tensors, with the parameters of a state. */
    interface TorchFunction {
        org.bytedeco.pytorch.Tensor of(org.bytedeco.pytorch.Tensor x, TorchState state);

        default TorchFunction then(TorchFunction next) {
            return next == null ? this : (x, s) -> next.of(of(x, s), s);
        }
    }

    /** The state of a pass. */
    interface TorchState {
        /** Returns the tensor of a parameter. */
        org.bytedeco.pytorch.Tensor of(Parameter parameter);

        /**
         * Returns by how much numbers are perturbed, relative to themselves, to measure tolerances; 0 for exact
         * results.
         */
        default double perturbation() {
            return 0;
        }
    }
}
